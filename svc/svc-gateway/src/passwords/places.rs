//! The right to check a password: few have it at once, and the others take [`Turns`].

use std::sync::Arc;

use ron_kernel::lock::Ranked;
use ron_transport::caps::ClientKey;
use tokio::sync::oneshot;

use crate::{
    locks,
    turns::{Entered, Turns},
};

/// The places of those who check, and who waits for one.
#[derive(Debug)]
pub(super) struct Places {
    state: Ranked<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    line: Turns<ClientKey, oneshot::Sender<Place>>,
}

/// The right to check one password; the next in line gets it when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
}

impl Places {
    pub(super) fn new(at_once: usize, capacity: usize) -> Self {
        let state = State { free: at_once, line: Turns::new(capacity) };
        Self { state: Ranked::new(&locks::PASSWORD_LINE, state) }
    }

    /// The number of requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().line.len()
    }

    /// Waits for a place. `None` if there is no room to wait, or the one that waited has to make room for another address.
    ///
    /// Cancel safe.
    pub(super) async fn take(places: &Arc<Self>, client: ClientKey) -> Option<Place> {
        let (sender, receiver) = oneshot::channel();
        let displaced = {
            let mut state = places.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return Some(Place { places: Arc::clone(places) });
            }
            state.line.retain(|waits| !waits.is_closed());
            state.line.enter(client, sender)
        };
        // One that is displaced, or refused itself, hears of it when its sender is dropped.
        match displaced {
            Entered::Waits => {}
            Entered::InPlaceOf(sender) | Entered::Refused(sender) => drop(sender),
        }
        receiver.await.ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = {
            let mut state = self.places.state.lock();
            state.line.retain(|waits| !waits.is_closed());
            let next = state.line.next();
            state.free += usize::from(next.is_none());
            next
        };
        if let Some(next) = next {
            // Whoever has left meanwhile gives it back at once.
            drop(next.send(Place { places: Arc::clone(&self.places) }));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{future::Future, pin::pin, task::Context};

    use super::*;

    fn client(number: u8) -> ClientKey {
        std::net::IpAddr::from([192, 0, 2, number]).into()
    }

    /// Polls a future once.
    fn poll<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn a_new_address_waits_for_one_check_of_a_crowded_one_and_not_for_all() {
        let places = Arc::new(Places::new(1, 3));
        let first = poll(&mut pin!(Places::take(&places, client(1)))).unwrap().unwrap();
        let mut crowd: Vec<_> = (0..3).map(|_| Box::pin(Places::take(&places, client(1)))).collect();
        assert!(crowd.iter_mut().all(|waits| poll(&mut waits.as_mut()).is_none()));
        let mut newcomer = pin!(Places::take(&places, client(2)));
        assert!(poll(&mut newcomer).is_none());
        assert!(poll(&mut crowd[2].as_mut()).unwrap().is_none(), "the last of the crowd made room");
        assert!(
            poll(&mut pin!(Places::take(&places, client(1)))).unwrap().is_none(),
            "there is none for more"
        );
        drop(first);
        let second = poll(&mut crowd[0].as_mut()).unwrap().unwrap();
        assert!(poll(&mut newcomer).is_none());
        drop(second);
        let _third = poll(&mut newcomer).unwrap().unwrap();
        assert_eq!(places.waiting(), 1, "the rest of the crowd");
    }

    #[test]
    fn who_leaves_the_line_takes_no_place_along() {
        let places = Arc::new(Places::new(1, 3));
        let held = poll(&mut pin!(Places::take(&places, client(1)))).unwrap().unwrap();
        let mut leaves = Box::pin(Places::take(&places, client(2)));
        assert!(poll(&mut leaves.as_mut()).is_none());
        let mut granted = Box::pin(Places::take(&places, client(3)));
        assert!(poll(&mut granted.as_mut()).is_none());
        drop(leaves);
        drop(held);
        // It was given the place, and leaves before it looks.
        drop(granted);
        assert!(poll(&mut pin!(Places::take(&places, client(4)))).unwrap().is_some());
    }
}

//! The requests on a connection that carries many at once, and who is next when it may carry no more: tenants take turns, as they
//! do in waiting for connections. Otherwise one of them could have hundreds of requests wait ahead of everybody else's.

use std::sync::Arc;

use ron_kernel::{
    blame::ClientId,
    lock::{Ranked, RankedGuard},
};
use tokio::sync::oneshot;

use crate::{
    locks,
    turns::{Entered, Turns},
};

/// Too many requests wait already, and their client has its share of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace;

/// Where one that waits hears of its place, or that it made room for another client.
pub(crate) type PlaceWait = oneshot::Receiver<Result<Place, NoPlace>>;
type Waiter = oneshot::Sender<Result<Place, NoPlace>>;

/// The places of one connection.
#[derive(Debug)]
pub(crate) struct Places(Ranked<State>);

#[derive(Debug)]
struct State {
    taken: usize,
    /// How many may be taken, as was last said.
    most: usize,
    waiting: Turns<ClientId, Waiter>,
}

/// The right to have one request on the connection; the next one has it when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    /// `None` once it was handed on.
    places: Option<Arc<Places>>,
}

/// What a request gets that wants a place.
#[derive(Debug)]
pub(crate) enum Placed {
    /// A place is free.
    At(Place),
    /// It has to wait.
    Waits(PlaceWait),
}

impl Places {
    pub(super) fn new() -> Arc<Self> {
        let state = State { taken: 0, most: 0, waiting: Turns::new(0) };
        Arc::new(Self(Ranked::new(&locks::UPSTREAM_SEATS, state)))
    }

    /// Takes one of `most` places for a request of this client, or waits among `max_waiting` others.
    ///
    /// # Errors
    /// [`NoPlace`], also later if it has to make room for another client.
    pub(crate) fn take(
        self: &Arc<Self>,
        client: ClientId,
        most: usize,
        max_waiting: usize,
    ) -> Result<Placed, NoPlace> {
        let mut state = self.state();
        state.most = most.max(1);
        if state.taken < state.most && state.waiting.len() == 0 {
            state.taken += 1;
            return Ok(Placed::At(self.place()));
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.set_capacity(max_waiting);
        state.waiting.forget_if_full(Waiter::is_closed);
        let entered = state.waiting.enter(client, sender);
        drop(state);
        match entered {
            Entered::Waits => {}
            // It has gone if it does not hear it.
            Entered::InPlaceOf(other) => drop(other.send(Err(NoPlace))),
            Entered::Refused(_) => return Err(NoPlace),
        }
        // The server may take more than it did when the others came.
        while self.add_one() {
            self.hand_on();
        }
        Ok(Placed::Waits(receiver))
    }

    /// Requests that wait for a place.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Takes one more place for somebody who waits, if there is one.
    fn add_one(&self) -> bool {
        let mut state = self.state();
        let is_free = state.taken < state.most && state.waiting.len() > 0;
        state.taken += usize::from(is_free);
        is_free
    }

    /// Gives a place that is taken to the next that waits. Nobody has it if nobody does, or if there are too many.
    fn hand_on(self: &Arc<Self>) {
        loop {
            let mut state = self.state();
            let next = if state.taken > state.most { None } else { state.waiting.next() };
            let Some(waiter) = next else {
                state.taken -= 1;
                return;
            };
            drop(state);
            match waiter.send(Ok(self.place())) {
                // It has gone; the next one, then.
                Err(Ok(mut unclaimed)) => unclaimed.places = None,
                Ok(()) | Err(Err(NoPlace)) => return,
            }
        }
    }

    fn place(self: &Arc<Self>) -> Place {
        Place { places: Some(Arc::clone(self)) }
    }

    fn state(&self) -> RankedGuard<'_, State> {
        self.0.lock()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(places) = self.places.take() {
            places.hand_on();
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Takes one of two places, with room for three that wait.
    fn take(places: &Arc<Places>, client: ClientId) -> Result<Placed, NoPlace> {
        places.take(client, 2, 3)
    }

    fn waits(places: &Arc<Places>, client: ClientId) -> PlaceWait {
        match take(places, client).unwrap() {
            Placed::Waits(wait) => wait,
            Placed::At(_) => panic!("there is no place"),
        }
    }

    fn given(wait: &mut PlaceWait) -> Option<Place> {
        wait.try_recv().ok().map(Result::unwrap)
    }

    #[test]
    fn clients_take_turns_and_one_that_has_the_most_waiting_makes_room() {
        let places = Places::new();
        let (Ok(Placed::At(first)), Ok(Placed::At(second))) = (take(&places, 1), take(&places, 1)) else {
            panic!("two are free");
        };
        let mut crowd = [1; 3].map(|client| waits(&places, client));
        assert_eq!(take(&places, 1).unwrap_err(), NoPlace);
        let mut other = waits(&places, 2);
        assert!(matches!(crowd[2].try_recv(), Ok(Err(NoPlace))), "the last of the crowd made room");
        assert_eq!(places.waiting(), 3);
        drop(first);
        let held = given(&mut crowd[0]).unwrap();
        drop(second);
        let others = given(&mut other).expect("it is the other client's turn");
        assert!(given(&mut crowd[1]).is_none());
        drop((held, others));
        assert!(given(&mut crowd[1]).is_some());
        assert_eq!(places.state().taken, 0);
    }

    #[test]
    fn a_place_that_nobody_takes_is_free_again() {
        let places = Places::new();
        let taken = [take(&places, 1), take(&places, 1)];
        let (gone, untaken, mut next) = (waits(&places, 1), waits(&places, 1), waits(&places, 1));
        drop(gone);
        drop(taken);
        drop(untaken);
        assert!(given(&mut next).is_some());
        let taken = places.state().taken;
        assert_eq!((taken, places.waiting()), (0, 0));
    }

    #[test]
    fn a_server_that_takes_fewer_or_more_requests_than_before_is_heard() {
        let places = Places::new();
        let taken: Vec<Placed> = (0..4).map(|_| places.take(1, 4, 9).unwrap()).collect();
        let Placed::Waits(mut first) = places.take(1, 1, 9).unwrap() else { panic!("one is enough") };
        drop(taken);
        let held = given(&mut first).expect("the last of four is the one");
        let Placed::Waits(mut second) = places.take(1, 1, 9).unwrap() else { panic!("it is taken") };
        assert!(given(&mut second).is_none());
        let Placed::Waits(mut third) = places.take(1, 3, 9).unwrap() else { panic!("another waits already") };
        assert!(given(&mut second).is_some() && given(&mut third).is_some());
        drop(held);
        assert_eq!(places.state().taken, 0);
    }
}

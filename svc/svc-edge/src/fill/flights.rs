//! One fill per URL, however many wait for it.
//!
//! Whoever comes first gets a [`Flight`] to hand to a worker, all others its [`Landing`]. A flight that is dropped before it
//! has landed, because its worker died, tells those who wait that it is their turn again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use ron_kernel::lock::lock;
use tokio::sync::watch;
use types::Refusal;

use super::Entry;

/// What came of a fill.
#[derive(Clone, Debug)]
pub(super) struct Landed {
    /// What whoever asked gets.
    pub(super) outcome: Result<Arc<Entry>, Refusal>,
    /// Whether the origin was asked.
    pub(super) asked: bool,
}

/// The fills that are under way or wait for a worker: no more than the queue holds and workers run.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<Arc<str>, watch::Receiver<Option<Landed>>>>);

/// Whose turn it is to fetch a URL.
#[derive(Debug)]
pub(super) enum Turn {
    /// Ours; the landing is for ourselves.
    Ours(Flight, Landing),
    /// Somebody does it.
    Theirs(Landing),
}

/// A fill. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Flight {
    flights: Arc<Flights>,
    url: Arc<str>,
    told: watch::Sender<Option<Landed>>,
    has_landed: bool,
}

/// Where a fill is awaited.
#[derive(Debug)]
pub(super) struct Landing(watch::Receiver<Option<Landed>>);

impl Flights {
    /// Joins the flight of a URL, or begins one.
    pub(super) fn turn(flights: &Arc<Self>, url: &Arc<str>) -> Turn {
        let mut all = lock(&flights.0);
        if let Some(landing) = all.get(url) {
            return Turn::Theirs(Landing(landing.clone()));
        }
        let (told, landing) = watch::channel(None);
        all.insert(Arc::clone(url), landing.clone());
        let flight = Flight { flights: Arc::clone(flights), url: Arc::clone(url), told, has_landed: false };
        Turn::Ours(flight, Landing(landing))
    }

    /// How many there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl Flight {
    /// Tells everybody what came of it. What is to be known of the URL must be known before: who comes next begins anew,
    /// and must not hear of this one again.
    pub(super) fn land(mut self, landed: Landed) {
        self.leave();
        // Nobody may be waiting any more.
        let _ = self.told.send(Some(landed));
    }

    /// Makes way for the next. Once only: the next may be there already.
    fn leave(&mut self) {
        if !std::mem::replace(&mut self.has_landed, true) {
            lock(&self.flights.0).remove(&self.url);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Landing {
    /// What came of it, if it has landed already.
    pub(super) fn landed(&self) -> Option<Landed> {
        self.0.borrow().clone()
    }

    /// Waits for the end of the flight; `None` if it ended without a word.
    ///
    /// Cancel safe: the flight goes on.
    pub(super) async fn wait(mut self) -> Option<Landed> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Reason;

    fn begin(flights: &Arc<Flights>, url: &Arc<str>) -> (Flight, Landing) {
        match Flights::turn(flights, url) {
            Turn::Ours(flight, landing) => (flight, landing),
            Turn::Theirs(_) => panic!("nobody else flies"),
        }
    }

    fn join(flights: &Arc<Flights>, url: &Arc<str>) -> Landing {
        match Flights::turn(flights, url) {
            Turn::Theirs(landing) => landing,
            Turn::Ours(..) => panic!("somebody flies already"),
        }
    }

    #[tokio::test]
    async fn everybody_hears_of_one_flight() {
        let (flights, url) = (Arc::<Flights>::default(), Arc::from("https://a.example/"));
        let (flight, first) = begin(&flights, &url);
        let others: Vec<_> = (0..100).map(|_| join(&flights, &url)).collect();
        let (_elsewhere, _) = begin(&flights, &Arc::from("https://b.example/"));
        flight.land(Landed { outcome: Err(Reason::NotFound.into()), asked: true });
        for landing in others.into_iter().chain([first]) {
            let landed = landing.wait().await.expect("it landed");
            assert_eq!(landed.outcome.expect_err("nothing there").reason, Reason::NotFound);
        }
        let _next = begin(&flights, &url);
        assert_eq!(flights.len(), 2);
    }

    #[tokio::test]
    async fn a_flight_that_is_lost_makes_way_for_the_next() {
        let (flights, url) = (Arc::<Flights>::default(), Arc::from("https://a.example/"));
        let (flight, landing) = begin(&flights, &url);
        drop(flight);
        assert!(landing.wait().await.is_none());
        let (_flight, _) = begin(&flights, &url);
    }
}

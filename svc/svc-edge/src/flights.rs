//! One flight per thing that is wanted, however many wait for it.
//!
//! Whoever comes first gets a [`Flight`] to see to its end, all others its [`Landing`]. A flight that is dropped before it
//! has landed, because whoever saw to it is gone, tells those who wait that it is their turn again.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ron_kernel::{
    Fault,
    blame::{self, ClientId},
    blocking::Blocking,
    lock::Ranked,
};
use tokio::sync::watch;

use crate::locks;

/// The flights in progress, by key: at most one per worker (single-flight).
#[derive(Debug)]
pub(crate) struct Flights<T>(Ranked<HashMap<Arc<str>, UnderWay<T>>>);

/// A flight as those who come later find it.
#[derive(Debug)]
struct UnderWay<T> {
    landing: watch::Receiver<Option<T>>,
    asked_for: Arc<AskedFor>,
}

/// Who asked for a flight.
#[derive(Debug, Default)]
struct AskedFor {
    /// The client that began it.
    first: ClientId,
    /// How often it was asked for since it began.
    count: AtomicU64,
    /// The last of the other clients that did, or nobody.
    others: [AtomicU64; OTHERS],
}

/// So many clients are known to have asked for a flight, beside the one that began it.
const OTHERS: usize = 4;

impl AskedFor {
    fn ask(&self, client: ClientId) {
        let nth = self.count.fetch_add(1, Ordering::Relaxed);
        if client == blame::NOBODY || client == self.first || self.others().any(|known| known == client) {
            return;
        }
        let at = usize::try_from(nth % OTHERS as u64).unwrap_or_default();
        self.others[at].store(client, Ordering::Relaxed);
    }

    fn others(&self) -> impl Iterator<Item = ClientId> {
        let others = self.others.iter().map(|other| other.load(Ordering::Relaxed));
        others.filter(|other| *other != blame::NOBODY)
    }
}

/// Which request loads an object (single-flight).
#[derive(Debug)]
pub(crate) enum Turn<T> {
    /// Ours; the landing is for ourselves.
    Ours(Flight<T>, Landing<T>),
    /// Another request loads it; wait for its result.
    Theirs(Landing<T>),
}

/// A flight. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Flight<T> {
    flights: Arc<Flights<T>>,
    what: Arc<str>,
    told: watch::Sender<Option<T>>,
    asked_for: Arc<AskedFor>,
    has_landed: bool,
}

/// The result of a flight, to wait for.
#[derive(Debug)]
pub(crate) struct Landing<T>(watch::Receiver<Option<T>>);

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self(Ranked::new(&locks::FLIGHTS, HashMap::new()))
    }
}

impl<T: Clone + Send + Sync + 'static> Flights<T> {
    /// Joins the flight of what a client wants, or begins one.
    pub(crate) fn turn(flights: &Arc<Self>, what: &Arc<str>, client: ClientId) -> Turn<T> {
        let mut all = flights.0.lock();
        if let Some(under_way) = all.get(what) {
            return Turn::Theirs(Landing(under_way.join(client)));
        }
        let (told, landing) = watch::channel(None);
        let asked_for = Arc::new(AskedFor { first: client, ..AskedFor::default() });
        let under_way = UnderWay { landing: landing.clone(), asked_for: Arc::clone(&asked_for) };
        all.insert(Arc::clone(what), under_way);
        let (flights, what) = (Arc::clone(flights), Arc::clone(what));
        let flight = Flight { flights, what, told, asked_for, has_landed: false };
        Turn::Ours(flight, Landing(landing))
    }

    /// Asks for what a client wants, if it is under way, and says whether it is.
    pub(crate) fn is_under_way(&self, what: &str, client: ClientId) -> bool {
        self.0.lock().get(what).map(|under_way| under_way.join(client)).is_some()
    }

    /// Joins the flight of what is wanted, if it is under way.
    pub(crate) fn join(&self, what: &str) -> Option<Landing<T>> {
        self.0.lock().get(what).map(|under_way| Landing(under_way.join(blame::NOBODY)))
    }

    /// Has `load` run on the blocking pool, unless it is being run for somebody else, and waits for its result.
    ///
    /// Cancel safe: a load that has begun ends by itself, and whoever else waits for it gets its result. One that has not
    /// is begun again for another of them.
    ///
    /// # Errors
    /// The pool is full, or the load panicked.
    pub(crate) async fn load(
        flights: &Arc<Self>,
        what: &str,
        blocking: &Blocking,
        job: &'static str,
        load: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let what: Arc<str> = what.into();
        let flight = loop {
            match Self::turn(flights, &what, blame::NOBODY) {
                Turn::Ours(flight, _) => break flight,
                Turn::Theirs(landing) => {
                    if let Some(landed) = landing.wait().await {
                        return Ok(landed);
                    }
                }
            }
        };
        let loaded = blocking.run(job, move || {
            let loaded = load();
            flight.land(loaded.clone());
            loaded
        });
        loaded.await.map_err(Fault::from)
    }

    /// Returns the number of flights.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl<T> UnderWay<T> {
    fn join(&self, client: ClientId) -> watch::Receiver<Option<T>> {
        self.asked_for.ask(client);
        self.landing.clone()
    }
}

impl<T> Flight<T> {
    /// Whether anybody waits for it now.
    pub(crate) fn is_awaited(&self) -> bool {
        // One is kept for those who come.
        self.told.receiver_count() > 1
    }

    /// How often it was asked for since it began.
    pub(crate) fn asked_for(&self) -> u64 {
        self.asked_for.count.load(Ordering::Relaxed)
    }

    /// Whether another client than the one that began it has asked for it.
    pub(crate) fn is_shared(&self) -> bool {
        self.asked_for.others().next().is_some()
    }

    /// Whether one of the clients that asked for it is such: the one that began it, or one of the last others.
    pub(crate) fn is_asked_for_by(&self, mut is_such: impl FnMut(ClientId) -> bool) -> bool {
        is_such(self.asked_for.first) || self.asked_for.others().any(is_such)
    }

    /// Tells those who wait, and those who come, of something before the end; the flight goes on.
    pub(crate) fn tell(&self, interim: T) {
        self.told.send_replace(Some(interim));
    }

    /// Returns true if a result was published.
    pub(crate) fn has_told(&self) -> bool {
        self.told.borrow().is_some()
    }

    /// Tells everybody what came of it. What is to be known of it elsewhere must be known before: who comes next begins
    /// again, and must not hear of this one again.
    pub(crate) fn land(mut self, landed: T) {
        self.leave();
        // Nobody may be waiting any more.
        let _ = self.told.send(Some(landed));
    }

    /// Ends the flight, so that the next can start. Once only: the next may exist already.
    fn leave(&mut self) {
        if !std::mem::replace(&mut self.has_landed, true) {
            self.flights.0.lock().remove(&self.what);
        }
    }
}

impl<T> Drop for Flight<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T: Clone> Landing<T> {
    /// What came of it, if it has landed already.
    pub(crate) fn landed(&self) -> Option<T> {
        self.0.borrow().clone()
    }

    /// Waits for what is told of the flight; `None` if it ended without a word.
    ///
    /// Cancel safe: the flight goes on.
    pub(crate) async fn wait(self) -> Option<T> {
        self.wait_until(|_| true).await
    }

    /// Waits until something is told of the flight that is enough; `None` if it ended before.
    ///
    /// Cancel safe: the flight goes on.
    pub(crate) async fn wait_until(mut self, is_enough: impl Fn(&T) -> bool) -> Option<T> {
        self.0.wait_for(|told| told.as_ref().is_some_and(&is_enough)).await.ok()?.clone()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_kernel::{Kernel, Scope, topology::Topology};
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    static TOPOLOGY: Topology = Topology {
        service: "flights",
        purpose: "a test",
        last_reviewed: "2026-11-16",
        invariants: &[],
        tasks: &[],
        children: &[],
        queues: &[],
        locks: &[],
        timeouts: &[],
        metrics: &[],
        trade_offs: &[],
    };

    fn kernel() -> (Kernel, Scope) {
        let kernel = Kernel::builder("test").build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        (kernel, scope)
    }

    fn begin(flights: &Arc<Flights<u8>>, what: &Arc<str>) -> (Flight<u8>, Landing<u8>) {
        match Flights::turn(flights, what, 1) {
            Turn::Ours(flight, landing) => (flight, landing),
            Turn::Theirs(_) => panic!("nobody else flies"),
        }
    }

    fn join(flights: &Arc<Flights<u8>>, what: &Arc<str>) -> Landing<u8> {
        match Flights::turn(flights, what, 1) {
            Turn::Theirs(landing) => landing,
            Turn::Ours(..) => panic!("somebody flies already"),
        }
    }

    #[tokio::test]
    async fn everybody_hears_of_one_flight() {
        let (flights, what) = (Arc::<Flights<u8>>::default(), Arc::from("it"));
        let (flight, first) = begin(&flights, &what);
        let others: Vec<_> = (0..100).map(|_| join(&flights, &what)).collect();
        let (_elsewhere, _) = begin(&flights, &Arc::from("another"));
        flight.land(7);
        for landing in others.into_iter().chain([first]) {
            assert_eq!(landing.wait().await, Some(7));
        }
        let _next = begin(&flights, &what);
        assert_eq!(flights.len(), 2);
    }

    #[tokio::test]
    async fn what_is_told_on_the_way_reaches_those_who_do_not_wait_for_the_end() {
        let (flights, what) = (Arc::<Flights<u8>>::default(), Arc::from("it"));
        let (flight, first) = begin(&flights, &what);
        assert!(!flight.has_told());
        flight.tell(1);
        assert!(flight.has_told());
        assert_eq!(first.wait().await, Some(1));
        assert_eq!(join(&flights, &what).landed(), Some(1), "it is still under way");
        let patient = join(&flights, &what).wait_until(|told| *told == 2);
        let lost = join(&flights, &what).wait_until(|told| *told == 3);
        flight.land(2);
        assert_eq!((patient.await, lost.await), (Some(2), None));
    }

    #[test]
    fn a_flight_knows_whether_it_is_awaited_and_how_often_it_was_asked_for() {
        let (flights, what) = (Arc::<Flights<u8>>::default(), Arc::from("it"));
        let (flight, first) = begin(&flights, &what);
        assert!(flight.is_awaited());
        drop(first);
        assert_eq!((flight.is_awaited(), flight.asked_for()), (false, 0));
        let other = join(&flights, &what);
        assert_eq!((flight.is_awaited(), flight.asked_for()), (true, 1));
        drop(other);
        assert!(flights.is_under_way("it", 1) && !flights.is_under_way("another", 1));
        assert_eq!((flight.is_awaited(), flight.asked_for()), (false, 2));
        assert!(flights.is_under_way("it", blame::NOBODY) && !flight.is_shared(), "by nobody else");
        assert!(flights.is_under_way("it", 2) && flight.is_shared());
        assert!(flight.is_asked_for_by(|client| client == 1) && flight.is_asked_for_by(|client| client == 2));
        assert!((3..=6).all(|client| flights.is_under_way("it", client)));
        assert!((3..=6).all(|client| flight.is_asked_for_by(|known| known == client)));
        assert!(!flight.is_asked_for_by(|client| client == 2), "only the last are known");
    }

    #[tokio::test]
    async fn a_flight_that_is_lost_makes_way_for_the_next() {
        let (flights, what) = (Arc::<Flights<u8>>::default(), Arc::from("it"));
        let (flight, landing) = begin(&flights, &what);
        drop(flight);
        assert!(landing.wait().await.is_none());
        let (_flight, _) = begin(&flights, &what);
    }

    #[test]
    fn a_hundred_who_want_the_same_cause_one_load() {
        let (kernel, scope) = kernel();
        let (flights, loads) = (Arc::<Flights<usize>>::default(), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(Barrier::new(2));
        kernel.block_on(async {
            let want = || {
                let (loads, gate) = (Arc::clone(&loads), Arc::clone(&gate));
                Flights::load(&flights, "it", scope.blocking(), "load", move || {
                    gate.wait();
                    loads.fetch_add(1, Ordering::SeqCst) + 41
                })
            };
            let all = futures_util::future::join_all((0..100).map(|_| want()));
            // All of them are asked before the one that leads can end.
            let (all, ()) = futures_util::future::join(all, async {
                let _ = gate.wait();
            })
            .await;
            assert!(all.into_iter().all(|got| got == Ok(41)));
        });
        assert_eq!((loads.load(Ordering::SeqCst), flights.len()), (1, 0));
    }

    #[test]
    fn a_leader_that_goes_away_leaves_the_load_to_those_who_wait() {
        let (kernel, scope) = kernel();
        let flights = Arc::<Flights<u8>>::default();
        kernel.block_on(async {
            let (abandoned, _) = begin(&flights, &Arc::from("it"));
            let waiting = Flights::load(&flights, "it", scope.blocking(), "load", || 7);
            let (got, ()) = futures_util::future::join(waiting, async { drop(abandoned) }).await;
            assert_eq!(got, Ok(7));
        });
        assert_eq!(flights.len(), 0);
    }
}

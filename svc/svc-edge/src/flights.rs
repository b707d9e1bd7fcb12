//! One load at a time of one thing: who comes while it is loaded waits for the same result.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ron_kernel::{Fault, blocking::Blocking};
use tokio::sync::watch;

type UnderWay<T> = HashMap<Box<str>, watch::Receiver<Option<T>>>;

/// Loads under way, by what is loaded. There are no more of them than there are requests and blocking threads.
#[derive(Debug)]
pub(crate) struct Flights<T>(Arc<Mutex<UnderWay<T>>>);

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone + Send + Sync + 'static> Flights<T> {
    /// Has `load` run on the blocking pool, unless it is being run for somebody else, and waits for its result.
    ///
    /// Cancel safe: a load that has begun ends by itself, and whoever else waits for it gets its result. One that has not
    /// is begun again for another of them.
    ///
    /// # Errors
    /// The pool is full, or the load panicked.
    pub(crate) async fn load(
        &self,
        what: &str,
        blocking: &Blocking,
        job: &'static str,
        load: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let mut load = Some(load);
        loop {
            match self.join(what) {
                Turn::Wait(mut landing) => {
                    if let Ok(landed) = landing.wait_for(Option::is_some).await {
                        return Ok(landed.clone().expect("just seen"));
                    }
                    // Whoever led went away before it began: somebody else leads, perhaps this one.
                }
                Turn::Lead(flight) => {
                    let load = load.take().expect("a leader returns");
                    let landed = blocking.run(job, move || flight.land(load())).await;
                    return landed.map_err(Fault::from);
                }
            }
        }
    }

    fn join(&self, what: &str) -> Turn<T> {
        let mut under_way = lock(&self.0);
        if let Some(landing) = under_way.get(what) {
            return Turn::Wait(landing.clone());
        }
        let (sender, landing) = watch::channel(None);
        under_way.insert(what.into(), landing);
        Turn::Lead(Flight { under_way: Arc::clone(&self.0), what: what.into(), sender })
    }

    /// How many loads are under way.
    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

enum Turn<T> {
    Wait(watch::Receiver<Option<T>>),
    Lead(Flight<T>),
}

/// A load under way, until it is dropped.
struct Flight<T> {
    under_way: Arc<Mutex<UnderWay<T>>>,
    what: Box<str>,
    sender: watch::Sender<Option<T>>,
}

impl<T: Clone> Flight<T> {
    fn land(self, result: T) -> T {
        self.sender.send_replace(Some(result.clone()));
        result
    }
}

impl<T> Drop for Flight<T> {
    fn drop(&mut self) {
        lock(&self.under_way).remove(&self.what);
    }
}

fn lock<T>(under_way: &Mutex<T>) -> MutexGuard<'_, T> {
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn a_hundred_who_want_the_same_cause_one_load() {
        let (kernel, scope) = kernel();
        let (flights, loads) = (Flights::<usize>::default(), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(Barrier::new(2));
        kernel.block_on(async {
            let want = || {
                let (loads, gate) = (Arc::clone(&loads), Arc::clone(&gate));
                flights.load("it", scope.blocking(), "load", move || {
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
        let flights = Flights::<u8>::default();
        kernel.block_on(async {
            let abandoned = flights.join("it");
            let waiting = flights.load("it", scope.blocking(), "load", || 7);
            let (got, ()) = futures_util::future::join(waiting, async { drop(abandoned) }).await;
            assert_eq!(got, Ok(7));
        });
        assert_eq!(flights.len(), 0);
    }
}

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

//! Requests under way for what is not stored: others that want the same wait for the first instead of asking as well.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{ask::Ask, fill::Fresh};

/// What came of a request that others wait for.
#[derive(Clone, Debug)]
pub(super) enum Landed {
    /// Its response is stored: look again.
    Stored,
    /// Its response is being stored; this much is here already.
    Filling(Arc<Fresh>),
    /// Its response cannot be stored: ask for yourself.
    NotStored,
    /// Its client left before there was an answer: somebody else has to ask for all.
    Abandoned,
}

/// By what requests are alike before their responses are known: the target, the partition, and how often the target was
/// invalidated before. What was asked for before a write is no answer to a request after it.
type Key = (Arc<str>, Arc<[u8]>, u64);

/// Requests under way. No more than there are requests.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<Key, watch::Receiver<Option<Landed>>>>);

/// A request that others may wait for. If it is dropped without an answer, another of them asks.
#[derive(Debug)]
pub(super) struct Flight {
    flights: Arc<Flights>,
    key: Key,
    told: watch::Sender<Option<Landed>>,
}

/// Whose turn it is to ask.
#[derive(Debug)]
pub(super) enum Turn {
    /// Ours.
    Ours(Flight),
    /// Somebody else asks already.
    Theirs(watch::Receiver<Option<Landed>>),
}

impl Flights {
    pub(super) fn turn(flights: &Arc<Self>, ask: &Ask, generation: u64) -> Turn {
        let key = (Arc::clone(&ask.key), Arc::clone(&ask.partition), generation);
        let mut all = flights.all();
        if let Some(landing) = all.get(&key) {
            return Turn::Theirs(landing.clone());
        }
        let (told, landing) = watch::channel(None);
        all.insert(key.clone(), landing);
        drop(all);
        Turn::Ours(Flight { flights: Arc::clone(flights), key, told })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, watch::Receiver<Option<Landed>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// Tells those who wait, and those who come before it ends, what came of it so far.
    pub(super) fn tell(&self, landed: Landed) {
        // Nobody may be waiting.
        let _ = self.told.send(Some(landed));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.all().remove(&self.key);
        if self.told.borrow().is_none() {
            self.tell(Landed::Abandoned);
        }
    }
}

/// Waits until something came of another's request.
///
/// Cancel safe.
pub(super) async fn wait(mut landing: watch::Receiver<Option<Landed>>) -> Landed {
    match landing.wait_for(Option::is_some).await {
        Ok(landed) => landed.clone().unwrap_or(Landed::Abandoned),
        Err(_) => Landed::Abandoned,
    }
}

//! Requests for what is not stored: of those that want the same, one asks a server, and the others wait for its answer.
//!
//! A request has to have a slot before others wait for it. Until then each tenant waits in its own queue, where one request
//! stands for all of the same tenant and address; the first that is admitted, whosever it is, asks for everybody. Otherwise a
//! client whose own queue is long could have all others wait in it.

use std::{collections::HashMap, sync::Arc};

use ron_kernel::lock::{Ranked, RankedGuard};
use ron_transport::caps::ClientKey;
use tokio::sync::watch;

use super::{ask::Ask, fill::Fresh};
use crate::{caller::Caller, locks, tenant::TenantKey};

/// What came of a request that others wait for.
#[derive(Clone, Debug)]
pub(super) enum Landed {
    /// Its response is stored: look again.
    Stored,
    /// Its response is being stored; this much is here already.
    Filling(Arc<Fresh>),
    /// Its response cannot be stored: ask for yourself.
    NotStored,
    /// There was no answer: somebody else has to ask for all.
    Abandoned,
}

/// By what requests are alike before their responses are known: the target, the partition, how often the target was
/// invalidated before, and whether they have a credential or a cookie. What was asked for before a write is no answer to a
/// request after it; and a server may take its time for one visitor, for which others are not to wait.
type Key = (Arc<str>, Arc<[u8]>, u64, bool);

/// Whose requests wait for a slot in the same queue: the tenant, and the address of a client of a named tenant.
type Queue = (TenantKey, Option<ClientKey>);

type Told = watch::Sender<Option<Landed>>;

/// Requests in progress or waiting for slots. No more than there are requests.
#[derive(Debug)]
pub(super) struct Flights(Ranked<Table>);

impl Default for Flights {
    fn default() -> Self {
        Self(Ranked::new(&locks::CACHE_FLIGHTS, Table::default()))
    }
}

#[derive(Debug, Default)]
struct Table {
    targets: HashMap<Key, Target>,
    /// How many places were given out.
    places: u64,
}

/// The requests for one target. It is forgotten when there are none.
#[derive(Debug, Default)]
struct Target {
    /// Tells what comes of the request that was admitted; `None` while all wait for slots.
    flight: Option<Arc<Told>>,
    /// The requests that wait for slots, by number. Listeners are notified when one is removed.
    queued: HashMap<Queue, (u64, watch::Sender<()>)>,
}

/// A request that was admitted, and that others may wait for. If it is dropped without an answer, another of them asks.
#[derive(Debug)]
pub(super) struct Flight {
    flights: Arc<Flights>,
    key: Key,
    told: Arc<Told>,
}

/// A request that waits for a slot, for itself and the others of its queue.
#[derive(Debug)]
pub(super) struct Place {
    flights: Arc<Flights>,
    key: Key,
    queue: Queue,
    number: u64,
    heard: watch::Receiver<()>,
}

/// Whose turn it is to ask.
#[derive(Debug)]
pub(super) enum Turn {
    /// Somebody has been admitted and asks already.
    Asked(watch::Receiver<Option<Landed>>),
    /// Another request waits for a slot in the same queue.
    Queued(watch::Receiver<()>),
    /// Ours, as soon as there is a slot.
    Ours(Place),
}

impl Flights {
    /// Whose turn it is to ask for what this caller asks for.
    pub(super) fn turn(flights: &Arc<Self>, ask: &Ask, generation: u64, caller: &Caller) -> Turn {
        let key = (Arc::clone(&ask.key), Arc::clone(&ask.partition), generation, ask.asked.is_personal());
        let queue = (caller.tenant.key.clone(), caller.address);
        let mut table = flights.table();
        table.places += 1;
        let number = table.places;
        let target = table.targets.entry(key.clone()).or_default();
        if let Some(told) = &target.flight {
            return Turn::Asked(told.subscribe());
        }
        if let Some((_, over)) = target.queued.get(&queue) {
            return Turn::Queued(over.subscribe());
        }
        let (over, heard) = watch::channel(());
        target.queued.insert(queue.clone(), (number, over));
        drop(table);
        Turn::Ours(Place { flights: Arc::clone(flights), key, queue, number, heard })
    }

    /// How many requests wait for an answer, or for another of their queue.
    pub(super) fn waiting(&self) -> usize {
        let of_target = |target: &Target| {
            let for_answer = target.flight.as_ref().map_or(0, |told| told.receiver_count());
            // Each place listens to itself as well.
            let of_queue = |(_, over): &(u64, watch::Sender<()>)| over.receiver_count().saturating_sub(1);
            for_answer + target.queued.values().map(of_queue).sum::<usize>()
        };
        self.table().targets.values().map(of_target).sum()
    }

    fn table(&self) -> RankedGuard<'_, Table> {
        self.0.lock()
    }
}

impl Table {
    /// Forgets a target that nobody asks for.
    fn tidy(&mut self, key: &Key) {
        if self.targets.get(key).is_some_and(|target| target.flight.is_none() && target.queued.is_empty()) {
            self.targets.remove(key);
        }
    }
}

impl Place {
    /// Resolves when another request asks, so that this one needs no slot.
    ///
    /// Cancel safe.
    pub(super) async fn overtaken(&mut self) {
        over(&mut self.heard).await;
    }

    /// Asks a server for everybody, now that there is a slot; `None` if another request does already.
    pub(super) fn take_off(self) -> Option<Flight> {
        let mut table = self.flights.table();
        let target = table.targets.get_mut(&self.key)?;
        if target.queued.get(&self.queue).is_none_or(|(number, _)| *number != self.number) {
            return None;
        }
        let told = Arc::new(watch::Sender::new(None));
        target.flight = Some(Arc::clone(&told));
        let queued = std::mem::take(&mut target.queued);
        drop(table);
        // Wakes whoever waits for a slot.
        drop(queued);
        Some(Flight { flights: Arc::clone(&self.flights), key: self.key.clone(), told })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.flights.table();
        let Some(target) = table.targets.get_mut(&self.key) else { return };
        let is_ours = target.queued.get(&self.queue).is_some_and(|(number, _)| *number == self.number);
        let left = if is_ours { target.queued.remove(&self.queue) } else { None };
        table.tidy(&self.key);
        drop(table);
        // Wakes the next of its queue.
        drop(left);
    }
}

impl Flight {
    /// Tells those who wait, and those who come before it ends, what came of it so far.
    pub(super) fn tell(&self, landed: Landed) {
        // Nobody may be waiting, and those who come later are told as well.
        self.told.send_replace(Some(landed));
    }

    /// One more who waits for the answer.
    pub(super) fn follow(&self) -> watch::Receiver<Option<Landed>> {
        self.told.subscribe()
    }

    /// Who waits for the answer, to be asked while the flight is elsewhere.
    pub(super) fn audience(&self) -> Audience {
        Audience(Arc::clone(&self.told))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut table = self.flights.table();
        if let Some(target) = table.targets.get_mut(&self.key) {
            target.flight = None;
        }
        table.tidy(&self.key);
        drop(table);
        if self.told.borrow().is_none() {
            self.tell(Landed::Abandoned);
        }
    }
}

/// Those who wait for the answer to a request.
#[derive(Debug)]
pub(super) struct Audience(Arc<Told>);

impl Audience {
    /// Resolves when nobody waits any more.
    ///
    /// Cancel safe.
    pub(super) async fn gone(&self) {
        self.0.closed().await;
    }

    /// Has those who wait ask for themselves, unless they were told something else.
    pub(super) fn wait_no_longer(&self) {
        self.0.send_if_modified(|told| {
            let is_untold = told.is_none();
            if is_untold {
                *told = Some(Landed::NotStored);
            }
            is_untold
        });
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

/// Waits until a flight is over, and what came of it is stored or not.
///
/// Cancel safe.
pub(super) async fn ended(mut landing: watch::Receiver<Option<Landed>>) {
    while landing.changed().await.is_ok() {}
}

/// Waits until another's request no longer waits for a slot.
///
/// Cancel safe.
pub(super) async fn over(place: &mut watch::Receiver<()>) {
    // Nothing is ever sent: it ends with the place.
    while place.changed().await.is_ok() {}
}

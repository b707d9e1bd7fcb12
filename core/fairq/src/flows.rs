//! The tenants that are known, under small numbers: what they owe, what waits, and which lists they are in.

use crate::{
    addresses::Addresses,
    buckets::{BUCKETS, Buckets},
    cost::{Account, SlotMean},
    list::{Links, List},
    retry::Promises,
};
use std::{collections::HashMap, hash::Hash};
use types::Moment;

/// Which of a class's two lanes a tenant waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneKind {
    Quick,
    Slow,
}

/// Which list a tenant is in, so that it can be taken out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing waits and nothing runs: in its class's list of idle tenants.
    Idle,
    /// Nothing waits, something runs: in no list.
    Running,
    /// It waits without debt, ahead of the rounds.
    Fresh,
    /// It waits for the round in this bucket.
    Round(usize),
    /// It waits until one of its own slots comes back, because it holds as many as one tenant may, or one slow tenant: in
    /// its class's list of capped tenants.
    Capped,
}

/// One tenant in one class.
#[derive(Debug)]
pub(crate) struct Flow<K> {
    pub(crate) key: K,
    pub(crate) class: usize,
    pub(crate) weight: u32,
    /// Where its stamp belongs: the clock of this lane.
    pub(crate) lane: LaneKind,
    pub(crate) place: Place,
    pub(crate) account: Account,
    /// The slot time of its requests that have ended; unknown if none is known to have.
    pub(crate) mean: SlotMean,
    /// Whether its last arrival was said to be slow.
    pub(crate) told_slow: bool,
    /// Slots that it was given around the queue, as of its last arrival, less those that have come back since.
    pub(crate) unqueued: u32,
    /// Slots that it holds and that count as slow: it was slow when it got them, or they are overdue.
    pub(crate) slow_running: u32,
    /// Slots that it has held for longer than what counts as slow.
    pub(crate) overdue: u32,
    /// Its waiting tickets, oldest first, but for those behind.
    pub(crate) tickets: List,
    /// Its waiting tickets of an address that had more than half of all, oldest first: served after the others.
    pub(crate) behind: List,
    /// What its addresses have in the queue.
    pub(crate) addresses: Addresses,
    pub(crate) waiting: usize,
    pub(crate) promises: Promises,
    pub(crate) idle_since: Moment,
}

impl<K> Flow<K> {
    pub(crate) fn weight(&self) -> u64 {
        u64::from(self.weight)
    }

    /// Which lane it belongs to now: the slow one if it is said to be slow, if its requests have been taking longer than
    /// `slow_after` nanoseconds, if more than `tolerated` of those that run are overdue, and if some run while none is known
    /// to have ended.
    pub(crate) fn judge(&self, slow_after: u64, tolerated: u32) -> LaneKind {
        let unknown = self.mean.is_unknown() && self.account.running() > 0;
        let is_slow = self.told_slow || unknown || self.mean.high > slow_after || self.overdue > tolerated;
        if is_slow { LaneKind::Slow } else { LaneKind::Quick }
    }

    /// Returns the number of slots that the flow holds.
    pub(crate) fn slots_held(&self) -> u32 {
        self.account.running().saturating_add(self.unqueued)
    }

    /// The ticket that is served next.
    pub(crate) fn first_ticket(&self) -> Option<u32> {
        self.tickets.first().or(self.behind.first())
    }

    pub(crate) fn standing(&self, now: Moment) -> u64 {
        self.account.standing(self.weight(), now)
    }

    /// Its shelf in the [`Shelves`]: tickets per unit of weight, in eighths.
    fn shelf(&self) -> usize {
        (self.waiting.saturating_mul(8) / self.weight as usize).min(BUCKETS - 1)
    }
}

/// All tenants of all classes, by index and by key.
#[derive(Debug)]
pub(crate) struct Flows<K> {
    flows: Vec<Option<Flow<K>>>,
    vacant: Vec<u32>,
    numbers: Vec<HashMap<K, u32>>,
    /// Neighbours in the lists that [`Place`] names.
    pub(crate) places: Links,
    shelves: Links,
}

impl<K: Clone + Eq + Hash> Flows<K> {
    pub(crate) fn new(classes: usize) -> Self {
        let numbers = (0..classes).map(|_| HashMap::new()).collect();
        Self {
            flows: Vec::new(),
            vacant: Vec::new(),
            numbers,
            places: Links::default(),
            shelves: Links::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.flows.len() - self.vacant.len()
    }

    pub(crate) fn known_in(&self, class: usize) -> usize {
        self.numbers[class].len()
    }

    pub(crate) fn find(&self, class: usize, key: &K) -> Option<u32> {
        self.numbers[class].get(key).copied()
    }

    /// Panics on a number that names nobody: numbers do not outlive their tenants.
    pub(crate) fn get(&self, id: u32) -> &Flow<K> {
        self.flows[id as usize].as_ref().expect("a number in use names a tenant")
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Flow<K> {
        self.flows[id as usize].as_mut().expect("a number in use names a tenant")
    }

    /// `None` for the number of a tenant that was forgotten.
    pub(crate) fn known(&self, id: u32) -> Option<&Flow<K>> {
        self.flows.get(id as usize)?.as_ref()
    }

    pub(crate) fn insert(&mut self, flow: Flow<K>) -> u32 {
        let (class, key) = (flow.class, flow.key.clone());
        let id = match self.vacant.pop() {
            Some(id) => {
                self.flows[id as usize] = Some(flow);
                id
            }
            None => {
                self.flows.push(Some(flow));
                u32::try_from(self.flows.len() - 1).expect("max_tenants keeps numbers below 2^32")
            }
        };
        self.numbers[class].insert(key, id);
        id
    }

    /// Forgets a tenant that is in no list.
    pub(crate) fn remove(&mut self, id: u32) {
        if let Some(flow) = self.flows[id as usize].take() {
            self.numbers[flow.class].remove(&flow.key);
            self.vacant.push(id);
        }
    }
}

/// The waiting tenants of one class by how much of the room they take for their weight.
///
/// Tenants within an eighth of a ticket per unit of weight share a shelf, and so do all above 511 tickets per unit of
/// weight: between those, the first to come is taken for the furthest above its share.
#[derive(Debug)]
pub(crate) struct Shelves(Buckets);

impl Shelves {
    pub(crate) fn new() -> Self {
        Self(Buckets::new())
    }

    /// Somebody on the highest shelf.
    pub(crate) fn highest(&self) -> Option<u32> {
        self.0.highest().and_then(|shelf| self.0.first_of(shelf))
    }

    /// Changes how much waits for a tenant, or its weight, and puts it on the shelf where it then belongs.
    pub(crate) fn change<K: Clone + Eq + Hash>(
        &mut self,
        flows: &mut Flows<K>,
        id: u32,
        change: impl FnOnce(&mut Flow<K>),
    ) {
        let flow = flows.get_mut(id);
        let before = (flow.waiting > 0).then(|| flow.shelf());
        change(flow);
        let after = (flow.waiting > 0).then(|| flow.shelf());
        if before == after {
            return;
        }
        if let Some(shelf) = before {
            self.0.remove(shelf, id, &mut flows.shelves);
        }
        if let Some(shelf) = after {
            self.0.push_back(shelf, id, &mut flows.shelves);
        }
    }
}

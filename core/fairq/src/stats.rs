//! What can be read off the queue.

use crate::{
    cost::{MAX_DEBT, QUANTUM},
    flows::{LaneKind, Place},
    queue::FairQueue,
};
use std::{hash::Hash, time::Duration};
use types::Moment;

/// How many tickets came to which end, since the queue was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tickets that came to wait.
    pub queued: u64,
    /// Newcomers that were refused.
    pub busy: u64,
    /// Tickets dropped for a newcomer.
    pub shed: u64,
    /// Tickets that got a slot.
    pub granted: u64,
    /// Tickets that gave up.
    pub cancelled: u64,
    /// Clients that returned when they were told to, and were promised a place.
    pub returned: u64,
    /// Those of them that were refused all the same.
    pub returned_in_vain: u64,
    /// Of the refused, the dropped and those that [waited in vain](FairQueue::waited_in_vain): whose tenant asked for no
    /// more than its share. A flood does not raise this.
    pub inside_share: u64,
}

/// One class at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassStats {
    /// Number of tickets that wait in the queue.
    pub waiting: usize,
    /// Slots given through the queue and not yet returned.
    pub running: u32,
    /// Slot-milliseconds the class has left, or owes if negative, compared with the class that is served now.
    pub tokens: i64,
    /// Tenants that are remembered.
    pub tenants: usize,
    /// How many of its tickets were served, refused and evicted.
    pub counts: Counts,
}

/// One tenant at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantStats {
    /// Number of tickets that wait in the queue.
    pub waiting: usize,
    /// Slots given through the queue and not yet returned.
    pub running: u32,
    /// Slot-time used beyond its share so far, at most ten minutes per unit of weight.
    pub debt: Duration,
    /// Whether it waited among the slow tenants last, or does now.
    pub is_slow: bool,
    /// Whether it waits until one of its own slots comes back, because it holds as many as it may.
    pub is_capped: bool,
}

impl<K: Clone + Eq + Hash, T: Copy> FairQueue<K, T> {
    /// Returns the number of tickets that wait in the queue.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// How many slots slow tenants hold.
    #[must_use]
    pub fn slow_running(&self) -> u32 {
        self.slow_running
    }

    /// Returns the number of tenants that have state.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.flows.len()
    }

    /// A class by its number.
    #[must_use]
    pub fn class(&self, class: usize, now: Moment) -> Option<ClassStats> {
        let (known, settings) = (self.classes.get(class)?, self.settings.classes.get(class)?);
        let weight = u64::from(settings.weight);
        let standing = known.contender.account.standing(weight, now);
        let tokens = millis(self.clock.saturating_sub(standing), weight)
            - millis(standing.saturating_sub(self.clock), weight);
        Some(ClassStats {
            waiting: known.waiting,
            running: known.contender.account.running(),
            tokens,
            tenants: self.flows.known_in(class),
            counts: known.counts,
        })
    }

    /// A tenant, if it is remembered in this class.
    #[must_use]
    pub fn tenant(&self, class: usize, key: &K, now: Moment) -> Option<TenantStats> {
        let known = self.classes.get(class)?;
        let flow = self.flows.get(self.flows.find(class, key)?);
        let ahead = flow.standing(now).saturating_sub(known.lane(flow.lane).rounds.clock()).min(MAX_DEBT);
        let debt = Duration::from_millis(u64::try_from(millis(ahead, flow.weight())).unwrap_or(0));
        Some(TenantStats {
            waiting: flow.waiting,
            running: flow.account.running(),
            debt,
            is_slow: flow.lane == LaneKind::Slow,
            is_capped: flow.place == Place::Capped,
        })
    }
}

/// Slot-milliseconds in a stretch of virtual time.
fn millis(virtual_time: u64, weight: u64) -> i64 {
    i64::try_from(virtual_time.saturating_mul(weight) / QUANTUM).unwrap_or(i64::MAX)
}

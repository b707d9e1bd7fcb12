//! How a tenant's requests fared: what is counted where they pass and read by whoever watches.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use types::Reason;

/// Upper bounds of the buckets in milliseconds; the last bucket has none.
pub(crate) const LATENCY_BOUNDS_MS: [u64; 11] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];

/// Counts that only grow. Cores meet here only if they serve the same tenant.
#[derive(Debug, Default)]
pub(crate) struct Record {
    served: AtomicU64,
    /// Nanoseconds in which slots were held.
    slot_time: AtomicU64,
    /// Requests by the time from when they came to when they left their slot.
    latency: [AtomicU32; LATENCY_BOUNDS_MS.len() + 1],
    /// By reason. Most tenants are never refused and have none.
    refused: OnceLock<Box<[AtomicU32; Reason::ALL.len()]>>,
    /// Requests and refusals when somebody last looked.
    seen: AtomicU64,
    /// What there was of them lately; half of it is forgotten at each look.
    lately: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub(crate) served: u64,
    pub(crate) slot_time: Duration,
    pub(crate) latency: [u32; LATENCY_BOUNDS_MS.len() + 1],
    /// Number of refusals, by the reasons that occurred.
    pub(crate) refused: Vec<(Reason, u32)>,
}

impl Record {
    pub(super) fn served(&self) {
        self.served.fetch_add(1, Relaxed);
    }

    pub(crate) fn served_so_far(&self) -> u64 {
        self.served.load(Relaxed)
    }

    pub(super) fn ended(&self, ran: Duration, since_it_came: Duration) {
        self.slot_time.fetch_add(u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        let bucket = LATENCY_BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < since_it_came);
        self.latency[bucket].fetch_add(1, Relaxed);
    }

    pub(super) fn refused(&self, reason: Reason) {
        let counts = self.refused.get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU32::new(0))));
        counts[reason as usize].fetch_add(1, Relaxed);
    }

    /// How busy the tenant was of late, by those who look about once a second.
    pub(crate) fn look(&self) -> u64 {
        let refused =
            self.refused.get().map_or(0, |all| all.iter().map(|n| u64::from(n.load(Relaxed))).sum());
        let now = self.served_so_far() + refused;
        let lately = self.lately.load(Relaxed) / 2 + now.saturating_sub(self.seen.swap(now, Relaxed));
        self.lately.store(lately, Relaxed);
        lately
    }

    pub(crate) fn totals(&self) -> Totals {
        let refused = self.refused.get().map(|counts| Reason::ALL.into_iter().zip(counts.iter()));
        let occurred = refused.into_iter().flatten().map(|(reason, count)| (reason, count.load(Relaxed)));
        Totals {
            served: self.served_so_far(),
            slot_time: Duration::from_nanos(self.slot_time.load(Relaxed)),
            latency: std::array::from_fn(|bucket| self.latency[bucket].load(Relaxed)),
            refused: occurred.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_on_a_bound_belongs_to_that_bucket() {
        let record = Record::default();
        for ms in [1, 2, 3, 5, 2000, 2001, 90_000] {
            record.ended(Duration::from_millis(10), Duration::from_millis(ms));
        }
        let totals = record.totals();
        assert_eq!(totals.latency, [1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(totals.slot_time, Duration::from_millis(70));
    }

    #[test]
    fn refusals_are_told_by_reason_and_only_those_that_occurred() {
        let record = Record::default();
        assert!(record.totals().refused.is_empty());
        for reason in [Reason::Busy, Reason::Quota, Reason::Busy] {
            record.refused(reason);
        }
        let mut refused = record.totals().refused;
        refused.sort_by_key(|(reason, _)| reason.as_str());
        assert_eq!(refused, [(Reason::Busy, 2), (Reason::Quota, 1)]);
    }

    #[test]
    fn who_was_busy_long_ago_makes_way_for_who_is_busy_now() {
        let (old, new) = (Record::default(), Record::default());
        (0..1000).for_each(|_| old.served());
        assert_eq!(old.look(), 1000);
        for _ in 0..8 {
            old.look();
            new.refused(Reason::Busy);
            (0..50).for_each(|_| new.served());
            new.look();
        }
        assert!(new.look() > old.look());
    }
}

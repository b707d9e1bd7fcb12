//! How many tenants have come lately, whether they had to wait or not.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use types::Moment;

/// Tenants that came in this period or in the one before are active: ten seconds, in nanoseconds.
const PERIOD: u64 = 10_000_000_000;

/// Counts tenants, each once in a period. Where several threads begin a period at once, a tenant more or less is counted.
#[derive(Debug, Default)]
pub struct ActiveTenants {
    /// The number of the period, from 1.
    period: AtomicU64,
    in_this: AtomicU32,
    in_last: AtomicU32,
}

/// The period in which a tenant came last; kept with the tenant.
#[derive(Debug, Default)]
pub struct LastSeen(AtomicU64);

impl ActiveTenants {
    /// A request of this tenant came.
    pub fn came(&self, tenant: &LastSeen, now: Moment) {
        let period = number(now);
        if tenant.0.load(Relaxed) != period {
            tenant.0.store(period, Relaxed);
            self.begin(period);
            self.in_this.fetch_add(1, Relaxed);
        }
    }

    /// Returns the number of active tenants at `now`.
    pub fn count(&self, now: Moment) -> u32 {
        self.begin(number(now));
        self.in_this.load(Relaxed).max(self.in_last.load(Relaxed))
    }

    fn begin(&self, period: u64) {
        let before = self.period.load(Relaxed);
        if before < period && self.period.compare_exchange(before, period, Relaxed, Relaxed).is_ok() {
            let ended = self.in_this.swap(0, Relaxed);
            self.in_last.store(if before + 1 == period { ended } else { 0 }, Relaxed);
        }
    }
}

fn number(now: Moment) -> u64 {
    now.as_nanos() / PERIOD + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_tenant_is_active_in_the_period_in_which_it_came_and_in_the_next() {
        let at = |seconds| Moment::ORIGIN.after(Duration::from_secs(seconds));
        let (active, [a, b]) = (ActiveTenants::default(), [LastSeen::default(), LastSeen::default()]);
        assert_eq!(active.count(at(0)), 0);
        (0..9).for_each(|second| active.came(&a, at(second)));
        active.came(&b, at(9));
        assert_eq!([9, 10, 19].map(|second| active.count(at(second))), [2; 3]);
        active.came(&a, at(19));
        assert_eq!([19, 20, 29, 30].map(|second| active.count(at(second))), [2, 1, 1, 0]);
        active.came(&b, at(1000));
        assert_eq!([1000, 1019, 1020].map(|second| active.count(at(second))), [1, 1, 0]);
    }
}

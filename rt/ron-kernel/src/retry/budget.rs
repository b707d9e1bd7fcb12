//! How many retries all callers of one place may make together: a share of their calls, and a small floor.

use std::sync::atomic::{AtomicU64, Ordering};

use types::Moment;

/// One token pays for one retry. Tokens are kept in thousandths.
const TOKEN: u64 = 1_000;
/// A quiet hour must not pay for a storm: at most this many retries are saved up.
const MAX_SAVED: u64 = 100 * TOKEN;
/// Of the floor's word, these bits say how many retries it has paid for in the second that the others name.
const USED_BITS: u32 = 24;
const USED_MASK: u64 = (1 << USED_BITS) - 1;

/// A token bucket that calls fill and retries empty.
///
/// Over any stretch of time, `retries ≤ ratio · calls + floor · (seconds + 1) + saved`, where at most 100 retries are
/// saved up beforehand.
#[derive(Debug)]
pub struct RetryBudget {
    ratio_permille: u64,
    min_per_second: u64,
    saved: AtomicU64,
    floor: AtomicU64,
}

impl RetryBudget {
    /// A budget of `ratio_permille` retries for every thousand calls, but of at least `min_per_second` retries in any
    /// second of the clock, so that a place that is seldom called is retried too.
    #[must_use]
    pub fn new(ratio_permille: u32, min_per_second: u32) -> Self {
        Self {
            ratio_permille: ratio_permille.into(),
            min_per_second: u64::from(min_per_second).min(USED_MASK),
            saved: AtomicU64::new(0),
            floor: AtomicU64::new(0),
        }
    }

    /// Books one call, that is its first try.
    pub fn deposit(&self) {
        let _ = self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| {
            // A full bucket is only read, so that cores do not fight over it while all goes well.
            (saved < MAX_SAVED).then(|| (saved + self.ratio_permille).min(MAX_SAVED))
        });
    }

    /// Pays for one retry at `now`; false if there is nothing to pay with.
    #[must_use]
    pub fn withdraw(&self, now: Moment) -> bool {
        let take = |saved: u64| saved.checked_sub(TOKEN);
        self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
            || self.withdraw_from_floor(now)
    }

    fn withdraw_from_floor(&self, now: Moment) -> bool {
        // Seconds count from one, so that the word of a new budget names none of them.
        let second = now.as_nanos() / 1_000_000_000 + 1;
        let take = |floor: u64| {
            let used = if floor >> USED_BITS == second { floor & USED_MASK } else { 0 };
            (used < self.min_per_second).then_some(second << USED_BITS | (used + 1))
        };
        self.floor.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicUsize, time::Duration};

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_millis(millis))
    }

    /// How many retries it pays for at `now`.
    fn drain(budget: &RetryBudget, now: Moment) -> usize {
        (0..10_000).take_while(|_| budget.withdraw(now)).count()
    }

    #[test]
    fn ten_calls_at_a_tenth_pay_for_one_retry_and_nine_do_not() {
        let budget = RetryBudget::new(100, 0);
        (0..9).for_each(|_| budget.deposit());
        assert_eq!(drain(&budget, at(0)), 0);
        budget.deposit();
        assert_eq!(drain(&budget, at(0)), 1);
    }

    #[test]
    fn the_floor_pays_again_in_every_second() {
        let budget = RetryBudget::new(0, 3);
        assert_eq!([0, 999, 1_000, 5_500].map(|millis| drain(&budget, at(millis))), [3, 0, 3, 3]);
    }

    #[test]
    fn what_calls_saved_is_spent_before_the_floor() {
        let budget = RetryBudget::new(1_000, 1);
        budget.deposit();
        assert_eq!(drain(&budget, at(0)), 2);
    }

    #[test]
    fn savings_are_capped() {
        let budget = RetryBudget::new(999, 0);
        (0..10_000).for_each(|_| budget.deposit());
        assert_eq!(drain(&budget, at(0)), 100);
    }

    #[test]
    fn threads_together_spend_no_more_than_there_is() {
        let budget = RetryBudget::new(500, 5);
        (0..100).for_each(|_| budget.deposit());
        let paid = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| paid.fetch_add(drain(&budget, at(0)), Ordering::Relaxed));
            }
        });
        assert_eq!(paid.into_inner(), 55);
    }
}

//! Slot-time as virtual time, and the account of whoever spends it: a class, a lane or a tenant.

use std::time::Duration;
use types::Moment;

const QUANTUM_BITS: u32 = 14;
/// Virtual time of one round: one slot-millisecond per unit of weight.
pub(crate) const QUANTUM: u64 = 1 << QUANTUM_BITS;
/// The most debt that counts: ten slot-minutes per unit of weight. What is owed beyond is forgiven, so that no stamp is
/// out of reach.
pub(crate) const MAX_DEBT: u64 = 600_000 * QUANTUM;
/// The most credit that refunds may add up to while a tenant waits: a slot-second per unit of weight.
pub(crate) const MAX_CREDIT: u64 = MAX_CREDIT_ROUNDS * QUANTUM;
pub(crate) const MAX_CREDIT_ROUNDS: u64 = 1024;
/// Where clocks begin: far enough from 0 for any credit.
pub(crate) const GENESIS: u64 = 1 << 40;
/// The most slot-time that one charge can be, in nanoseconds: a day. Keeps the arithmetic within 64 bits.
const MAX_CHARGE: u64 = 24 * 3600 * 1_000_000_000;
/// How many samples a mean is made of, so that about ten slow requests make a quick tenant slow.
const SAMPLES: u64 = 8;
/// How much less a quick sample counts than a slow one where a tenant is judged.
const FALLS_SLOWER: u64 = 32;

/// How long a tenant's recent requests held their slots: two means of the same samples, in nanoseconds, both 0 while there
/// is none.
///
/// The caller keeps it, for example in two atomics, because requests that never wait count too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotMean {
    /// What the next request is expected to take. A sample counts an eighth.
    pub expected: u64,
    /// What a tenant is judged slow by: it rises as fast, and falls 32 times as slowly. So a tenant is slow if about a quarter
    /// of its slot-time goes to slow requests, however many quick ones it sends besides: a few slow requests are enough to
    /// take all slots from others.
    pub high: u64,
}

impl SlotMean {
    /// The means after one more sample.
    #[must_use]
    pub fn next(self, sample: Duration) -> Self {
        let sample = nanos(sample).clamp(1, MAX_CHARGE);
        if self.is_unknown() {
            return Self { expected: sample, high: sample };
        }
        let parts = if sample < self.high { FALLS_SLOWER * SAMPLES } else { SAMPLES };
        Self { expected: step(self.expected, sample, SAMPLES), high: step(self.high, sample, parts) }
    }

    /// The means after a slot that was taken back because its client stalled. How long the client would have held it, nobody
    /// knows. One such slot makes a quick tenant slow until a few dozen quick requests have ended, many for longer.
    #[must_use]
    pub fn next_stalled(self, ran: Duration, slow_after: Duration) -> Self {
        let stalled = nanos(slow_after).saturating_mul(SAMPLES + 1).clamp(1, MAX_CHARGE);
        let next = self.next(ran);
        Self { high: step(self.high, stalled, SAMPLES).max(next.high), ..next }
    }

    /// Whether no request has ended yet.
    #[must_use]
    pub fn is_unknown(self) -> bool {
        self.expected == 0
    }
}

impl From<Duration> for SlotMean {
    /// Of requests that all took as long.
    fn from(each: Duration) -> Self {
        Self { expected: nanos(each), high: nanos(each) }
    }
}

/// Moves a mean towards a sample by one part in `parts` of what lies between them, at least by one.
fn step(mean: u64, sample: u64, parts: u64) -> u64 {
    let mean = mean.min(MAX_CHARGE);
    let by = sample.abs_diff(mean).div_ceil(parts);
    if sample >= mean { mean + by } else { mean - by }
}

/// The slots that a tenant holds, for judging whether it is slow before any of them comes back. Of the start of each
/// request only the sum is kept, so that it can live in two atomics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotsHeld {
    /// How many slots the tenant holds now.
    pub count: u32,
    /// The moments at which they were given, in nanoseconds, added up with wrap-around.
    pub started: u64,
}

impl SlotsHeld {
    /// Whether a tenant with this mean slot time is slow: its requests take longer than `slow_after`, going by those that
    /// have ended or by those that hold these slots. A tenant that holds slots and of which nothing is known, because none
    /// of its requests has ended, counts as slow.
    #[must_use]
    pub fn is_slow(self, mean: SlotMean, slow_after: Duration, now: Moment) -> bool {
        let unknown = mean.is_unknown() && self.count > 0;
        unknown || Duration::from_nanos(mean.high.max(self.mean_age(now))) > slow_after
    }

    /// For how long these slots have been held on average, in nanoseconds; 0 if there are none.
    #[must_use]
    pub fn mean_age(self, now: Moment) -> u64 {
        let sum = now.as_nanos().wrapping_mul(u64::from(self.count)).wrapping_sub(self.started);
        sum.checked_div(u64::from(self.count)).unwrap_or(0)
    }

    /// One more request holds a slot since `now`.
    pub fn start(&mut self, now: Moment) {
        self.count += 1;
        self.started = self.started.wrapping_add(now.as_nanos());
    }

    /// A request that held a slot since `start` has ended.
    pub fn end(&mut self, start: Moment) {
        self.count = self.count.saturating_sub(1);
        self.started = self.started.wrapping_sub(start.as_nanos());
    }
}

/// Whole nanoseconds of a duration, saturating.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The virtual time that `cost` nanoseconds of slot-time take at a weight; rounded up, so that nothing is free.
pub(crate) fn virtual_time(cost: u64, weight: u64) -> u64 {
    // QUANTUM / 1,000,000 in lowest terms.
    (cost.min(MAX_CHARGE) * 256).div_ceil(15_625 * weight.max(1))
}

/// The round that a stamp belongs to.
pub(crate) fn round_of(stamp: u64) -> u64 {
    stamp >> QUANTUM_BITS
}

/// What one spender has been charged, and how far its running requests have outrun their estimates.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// Virtual time at which all that was charged is paid.
    pub(crate) stamp: u64,
    /// Slot-time used by the running requests less their estimates, as of `since`; grows by `running` per nanosecond.
    accrued: i64,
    since: Moment,
    running: u32,
}

/// What was charged for one running request, needed to settle it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charge {
    pub(crate) estimate: u64,
    pub(crate) ran: u64,
}

impl Account {
    pub(crate) fn new(stamp: u64, now: Moment) -> Self {
        Self { stamp, accrued: 0, since: now, running: 0 }
    }

    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// The stamp, with what running requests have used beyond their estimates so far.
    pub(crate) fn standing(&self, weight: u64, now: Moment) -> u64 {
        let overrun = u64::try_from(self.accrued_at(now)).unwrap_or(0);
        if overrun == 0 { self.stamp } else { self.stamp + virtual_time(overrun, weight) }
    }

    /// A request begins: its estimate is charged at once, and so is `extra`, which is never given back.
    pub(crate) fn start(&mut self, estimate: u64, extra: u64, weight: u64, now: Moment) {
        self.accrue(now);
        self.accrued = self.accrued.saturating_sub_unsigned(estimate);
        self.running += 1;
        self.stamp += virtual_time(estimate, weight) + virtual_time(extra, weight);
    }

    /// A request ends: the difference between its estimate and its slot-time is charged or given back.
    pub(crate) fn finish(&mut self, charge: Charge, weight: u64, now: Moment) {
        let Charge { estimate, ran } = charge;
        self.accrue(now);
        self.accrued = self.accrued.saturating_add_unsigned(estimate).saturating_sub_unsigned(ran);
        self.running = self.running.saturating_sub(1);
        if self.running == 0 {
            self.accrued = 0;
        }
        if ran >= estimate {
            self.stamp += virtual_time(ran - estimate, weight);
        } else {
            self.stamp = self.stamp.saturating_sub(virtual_time(estimate - ran, weight));
        }
    }

    /// Charges slot-time that no request is running for.
    pub(crate) fn charge(&mut self, cost: u64, weight: u64) {
        self.stamp += virtual_time(cost, weight);
    }

    /// Holds the stamp within the bounds of debt and credit around `clock`.
    pub(crate) fn bound(&mut self, clock: u64) {
        self.stamp = self.stamp.clamp(clock.saturating_sub(MAX_CREDIT), clock.saturating_add(MAX_DEBT));
    }

    fn accrue(&mut self, now: Moment) {
        self.accrued = self.accrued_at(now);
        self.since = self.since.max(now);
    }

    fn accrued_at(&self, now: Moment) -> i64 {
        let ran = nanos(now.since(self.since)).saturating_mul(u64::from(self.running));
        self.accrued.saturating_add_unsigned(ran)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * MS)
    }

    #[test]
    fn a_slot_millisecond_is_one_round_at_weight_one() {
        assert_eq!(virtual_time(MS, 1), QUANTUM);
        assert_eq!(virtual_time(MS, 4), QUANTUM / 4);
        assert_eq!(virtual_time(1, 1000), 1, "nothing is free");
        assert!(virtual_time(u64::MAX, 1) < u64::MAX / 1024, "the longest charge does not overflow");
    }

    #[test]
    fn an_overrun_counts_while_it_runs_and_settles_to_what_was_used() {
        let mut account = Account::new(GENESIS, at(0));
        account.start(10 * MS, 0, 1, at(0));
        assert_eq!(account.standing(1, at(10)), GENESIS + 10 * QUANTUM);
        assert_eq!(account.standing(1, at(50)), GENESIS + 50 * QUANTUM);
        account.finish(Charge { estimate: 10 * MS, ran: 50 * MS }, 1, at(50));
        assert_eq!(account.standing(1, at(90)), GENESIS + 50 * QUANTUM);
    }

    #[test]
    fn a_tenant_is_slow_by_what_has_ended_by_what_runs_and_while_nothing_is_known() {
        let (slow_after, mut held) = (Duration::from_millis(100), SlotsHeld::default());
        let is_slow = |held: SlotsHeld, mean: u64, now| {
            held.is_slow(Duration::from_millis(mean).into(), slow_after, at(now))
        };
        assert!(!is_slow(held, 0, 5) && !is_slow(held, 100, 5) && is_slow(held, 101, 5));
        held.start(at(1000));
        assert!(is_slow(held, 0, 1001), "nothing is known of it, and it has a slot");
        held.start(at(1040));
        assert!(!is_slow(held, 10, 1120) && is_slow(held, 10, 1121), "100 ms on average");
        held.end(at(1000));
        assert!(!is_slow(held, 10, 1140) && is_slow(held, 10, 1141));
        held.end(at(1040));
        assert_eq!(held, SlotsHeld::default());
    }

    #[test]
    fn an_estimate_that_was_too_high_is_given_back_and_the_extra_is_not() {
        let mut account = Account::new(GENESIS, at(0));
        account.start(10 * MS, 3 * MS, 2, at(0));
        account.finish(Charge { estimate: 10 * MS, ran: 4 * MS }, 2, at(4));
        assert_eq!(account.stamp, GENESIS + (4 + 3) * QUANTUM / 2);
    }

    #[test]
    fn the_mean_follows_its_samples_and_is_never_zero() {
        let mut mean = SlotMean::default().next(Duration::from_millis(10));
        assert_eq!(mean, Duration::from_millis(10).into());
        for _ in 0..30 {
            mean = mean.next(Duration::from_millis(200));
        }
        assert!((195 * MS..=200 * MS).contains(&mean.expected) && mean.high == mean.expected, "{mean:?}");
        let least = SlotMean { expected: 1, high: 1 };
        assert_eq!([SlotMean::default(), least].map(|mean| mean.next(Duration::ZERO)), [least; 2]);
        assert!(SlotMean { expected: u64::MAX, high: u64::MAX }.next(Duration::MAX).expected > 0);
    }

    #[test]
    fn a_slot_that_was_taken_back_makes_a_quick_tenant_slow_until_some_quick_requests_have_ended() {
        let (slow_after, quick) = (Duration::from_millis(100), Duration::from_millis(1));
        let is_slow = |mean: &SlotMean| mean.high > nanos(slow_after);
        for before in [SlotMean::default(), quick.into(), Duration::from_millis(99).into()] {
            let mean = before.next_stalled(slow_after, slow_after);
            assert!(is_slow(&mean), "{before:?} became {mean:?}");
            assert_eq!(mean.expected, before.next(slow_after).expected, "what it is charged is not changed");
        }
        let once = SlotMean::from(quick).next_stalled(slow_after, slow_after);
        let quick_ones = std::iter::successors(Some(once), |mean| Some(mean.next(quick)));
        assert!((20..60).contains(&quick_ones.take_while(is_slow).count()), "a few dozen for one");
        let most = SlotMean { expected: u64::MAX, high: u64::MAX };
        assert!(most.next_stalled(Duration::MAX, Duration::MAX).high > 0);
    }

    #[test]
    fn quick_requests_among_slow_ones_do_not_make_a_tenant_quick() {
        let mut mean = SlotMean::default();
        for quick_or_slow in [300, 1].repeat(50) {
            mean = mean.next(Duration::from_millis(quick_or_slow));
        }
        assert!(mean.high > 200 * MS && mean.expected < 160 * MS, "{mean:?}");
        let quick = (0..).take_while(|_| {
            mean = mean.next(Duration::from_millis(1));
            mean.high > 100 * MS
        });
        assert!((200..300).contains(&quick.count()), "it is quick again once its requests are");
    }
}

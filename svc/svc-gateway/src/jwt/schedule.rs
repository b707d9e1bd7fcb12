//! When keys are asked for next. Pure.

use std::time::Duration;

use types::Moment;

/// How soon a failed attempt is repeated, unless the interval is shorter still.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// So many attempts in a row must fail before readiness tells: the old keys still serve.
const FAILURES_TO_REPORT: u32 = 3;

/// When keys were asked for, and when they will be.
#[derive(Debug)]
pub(super) struct Schedule {
    last: Option<Moment>,
    due: Moment,
    failures: u32,
}

impl Schedule {
    /// Starts with a fetch that is due at once.
    pub(super) fn new(now: Moment) -> Self {
        Self { last: None, due: now, failures: 0 }
    }

    /// Returns the time of the next fetch.
    pub(super) fn due(&self) -> Moment {
        self.due
    }

    /// Asked with success; the next time is an interval away, or up to a tenth less, so that nodes that started
    /// together do not ask together.
    pub(super) fn succeeded(&mut self, now: Moment, every: Duration, rng: &mut fastrand::Rng) {
        self.failures = 0;
        self.last = Some(now);
        self.due = now.after(every.mul_f64(1.0 - 0.1 * rng.f64()));
    }

    /// Records a failed fetch.
    pub(super) fn failed(&mut self, now: Moment, every: Duration) {
        self.failures = self.failures.saturating_add(1);
        self.last = Some(now);
        self.due = now.after(every.min(AGAIN_AFTER));
    }

    /// Somebody met a key that is not known: it is time sooner, but not within `gap` of the last time, or anybody could
    /// make this node flood the issuer by naming keys that do not exist.
    pub(super) fn wanted(&mut self, now: Moment, gap: Duration) {
        let earliest = self.last.map_or(now, |last| last.after(gap).max(now));
        self.due = self.due.min(earliest);
    }

    /// Whether so many attempts failed that somebody should look.
    pub(super) fn is_stale(&self) -> bool {
        self.failures >= FAILURES_TO_REPORT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const GAP: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn the_first_time_is_now_and_the_next_an_interval_away_at_most() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            let mut schedule = Schedule::new(at(5));
            assert_eq!(schedule.due(), at(5));
            schedule.succeeded(at(5), HOUR, &mut rng);
            assert!((at(5 + 3240)..=at(5 + 3600)).contains(&schedule.due()), "{:?}", schedule.due());
        }
    }

    #[test]
    fn an_unknown_key_brings_the_next_time_forward_but_not_into_the_gap() {
        let mut schedule = Schedule::new(at(0));
        schedule.succeeded(at(0), HOUR, &mut fastrand::Rng::with_seed(1));
        schedule.wanted(at(3), GAP);
        assert_eq!(schedule.due(), at(10), "not within the gap, but not forgotten either");
        schedule.succeeded(at(10), HOUR, &mut fastrand::Rng::with_seed(1));
        schedule.wanted(at(20), GAP);
        assert_eq!(schedule.due(), at(20));
        schedule.wanted(at(25), GAP);
        assert_eq!(schedule.due(), at(20), "wanting never puts it off");
    }

    #[test]
    fn a_failure_is_repeated_soon_and_the_third_in_a_row_is_told() {
        let mut schedule = Schedule::new(at(0));
        for (count, stale) in [(1, false), (2, false), (3, true)] {
            schedule.failed(at(count), HOUR);
            assert_eq!((schedule.due(), schedule.is_stale()), (at(count + 10), stale));
        }
        schedule.succeeded(at(30), HOUR, &mut fastrand::Rng::with_seed(1));
        assert!(!schedule.is_stale());
        schedule.failed(at(40), Duration::from_secs(2));
        assert_eq!(schedule.due(), at(42), "a shorter interval holds for failures too");
    }
}

//! Time as a number: a [`Moment`] on some monotonic clock, and [`Deadline`] arithmetic over it.
//!
//! Pure code never asks what time it is; it is told. A moment is nanoseconds since an origin that only the
//! clock's owner knows, so simulations and tests can make their own.

use std::time::Duration;

/// A point on a monotonic clock, in nanoseconds since that clock's origin (584 years fit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(0);
    /// Later than any other moment.
    pub const END: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `by` later; [`Moment::END`] if that is past the end of time.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }

    /// How long ago `earlier` was; zero if it is still to come.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The moment by which something must have happened. A deadline is only ever brought forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Moment);

impl Deadline {
    /// No deadline at all.
    pub const NEVER: Self = Self(Moment::END);

    /// A deadline at `moment`.
    #[must_use]
    pub const fn at(moment: Moment) -> Self {
        Self(moment)
    }

    /// A deadline `budget` from `now`.
    #[must_use]
    pub fn within(now: Moment, budget: Duration) -> Self {
        Self(now.after(budget))
    }

    /// Returns the point in time itself.
    #[must_use]
    pub const fn moment(self) -> Moment {
        self.0
    }

    /// The earlier of the two: how a caller's wish shortens ours and can never lengthen it.
    #[must_use]
    pub fn tightened(self, other: Self) -> Self {
        self.min(other)
    }

    /// The deadline to pass on, so that an answer that takes `reserve` to travel back still arrives in time.
    #[must_use]
    pub fn shrunk(self, reserve: Duration) -> Self {
        if self == Self::NEVER { self } else { Self(Moment(self.0.0.saturating_sub(nanos(reserve)))) }
    }

    /// What is left at `now`; zero once it has passed.
    #[must_use]
    pub const fn remaining(self, now: Moment) -> Duration {
        self.0.since(now)
    }

    /// Whether nothing is left at `now`.
    #[must_use]
    pub fn has_passed(self, now: Moment) -> bool {
        now >= self.0
    }
}

/// Whole nanoseconds of a duration, saturating.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(1_000_000_000);

    #[test]
    fn a_deadline_passes_at_its_moment_and_not_before() {
        let deadline = Deadline::within(NOW, Duration::from_millis(5));
        let last = Moment::from_nanos(deadline.moment().as_nanos() - 1);
        assert!(!deadline.has_passed(last));
        assert_eq!(deadline.remaining(last), Duration::from_nanos(1));
        assert!(deadline.has_passed(deadline.moment()));
        assert_eq!(deadline.remaining(deadline.moment()), Duration::ZERO);
    }

    #[test]
    fn a_caller_can_shorten_a_deadline_but_not_lengthen_it() {
        let ours = Deadline::within(NOW, Duration::from_secs(5));
        let shorter = Deadline::within(NOW, Duration::from_secs(1));
        let longer = Deadline::within(NOW, Duration::from_secs(60));
        assert_eq!(ours.tightened(shorter), shorter);
        assert_eq!(ours.tightened(longer), ours);
    }

    #[test]
    fn each_hop_reserves_time_for_its_answer() {
        let ours = Deadline::within(NOW, Duration::from_millis(100));
        assert_eq!(ours.shrunk(Duration::from_millis(10)).remaining(NOW), Duration::from_millis(90));
        assert_eq!(ours.shrunk(Duration::from_secs(10)).remaining(NOW), Duration::ZERO);
        assert_eq!(Deadline::NEVER.shrunk(Duration::from_secs(10)), Deadline::NEVER);
    }

    #[test]
    fn time_does_not_wrap_at_either_end() {
        assert_eq!(Moment::END.after(Duration::from_secs(1)), Moment::END);
        assert_eq!(Moment::ORIGIN.since(NOW), Duration::ZERO);
        assert_eq!(NOW.after(Duration::MAX), Moment::END);
    }
}

//! The time that epochs follow: the node's monotonic clock, compared with the machine's wall clock every second.
//!
//! A wall clock that runs a little faster or slower is followed at once. One that jumps, because somebody set it or the
//! machine found out that it was wrong, is told at once and followed once it has stayed so for a while: then usage of the
//! present epoch is booked again, see [`ron_accounting::Accounts::correct`].

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use ron_kernel::Clock;
use types::Moment;

/// Reads a wall clock: the time since the Unix epoch.
pub type WallClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A wall clock that differs by no more than this, in nanoseconds, is followed at once.
const FOLLOWED: i64 = 1_000_000_000;
/// How long a wall clock that differs by more has to stay so before it is followed.
const HOLD: Duration = Duration::from_secs(5);

/// The time that epochs follow.
pub(crate) struct EpochClock {
    clock: Clock,
    wall: WallClock,
    /// How far it is ahead of the node's clock, in nanoseconds.
    ahead: AtomicI64,
}

impl EpochClock {
    /// Begins with what the wall clock says.
    pub(crate) fn new(clock: Clock, wall: WallClock) -> Self {
        let ahead = nanos_between(clock.steady_unix(), wall());
        Self { clock, wall, ahead: AtomicI64::new(ahead) }
    }

    /// Time since the Unix epoch.
    pub(crate) fn unix(&self) -> Duration {
        shifted(self.clock.steady_unix(), self.ahead.load(Ordering::Relaxed))
    }

    /// How far the wall clock is ahead of this one, in nanoseconds; negative if it is behind.
    pub(crate) fn wall_is_ahead(&self) -> i64 {
        nanos_between(self.unix(), (self.wall)())
    }

    /// Follows the wall clock, which is so many nanoseconds ahead.
    pub(crate) fn follow(&self, nanos: i64) {
        self.ahead.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl fmt::Debug for EpochClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochClock").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

/// What to make of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The clocks agree; the wall clock is followed.
    Agrees,
    /// It has jumped, and may jump back.
    Doubtful,
    /// It has jumped and stayed there: correct what was booked, then follow it.
    Stepped,
}

/// Watches the difference between the wall clock and the time that epochs follow.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The difference in nanoseconds, and since when it is that.
    doubted: Option<(i64, Moment)>,
}

impl Watch {
    /// Judges a difference, in nanoseconds, at a moment.
    pub(crate) fn judge(&mut self, ahead: i64, now: Moment) -> Judged {
        if ahead.abs() <= FOLLOWED {
            self.doubted = None;
            return Judged::Agrees;
        }
        match self.doubted {
            Some((before, since)) if before.abs_diff(ahead) <= FOLLOWED.unsigned_abs() => {
                if now.since(since) >= HOLD { Judged::Stepped } else { Judged::Doubtful }
            }
            _ => {
                self.doubted = Some((ahead, now));
                Judged::Doubtful
            }
        }
    }
}

/// A time so many nanoseconds later.
pub(crate) fn shifted(unix: Duration, nanos: i64) -> Duration {
    let by = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { unix.saturating_sub(by) } else { unix.saturating_add(by) }
}

/// Nanoseconds from one time to another; bounded by what 64 bits hold, some 292 years.
fn nanos_between(from: Duration, to: Duration) -> i64 {
    let between = i64::try_from(from.abs_diff(to).as_nanos()).unwrap_or(i64::MAX);
    if to < from { -between } else { between }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(seconds: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_jump_is_believed_when_it_has_stayed() {
        for hour in [3600 * SECOND, -3600 * SECOND] {
            let mut watch = Watch::default();
            assert_eq!(watch.judge(SECOND / 2, at(0)), Judged::Agrees);
            assert_eq!(watch.judge(hour, at(1)), Judged::Doubtful);
            assert_eq!(watch.judge(hour + SECOND / 2, at(5)), Judged::Doubtful);
            assert_eq!(watch.judge(hour, at(6)), Judged::Stepped);
            assert_eq!(watch.judge(hour, at(7)), Judged::Stepped, "until it is followed");
            assert_eq!(watch.judge(0, at(8)), Judged::Agrees);
        }
    }

    #[test]
    fn a_clock_that_jumps_back_and_forth_is_not_followed() {
        let mut watch = Watch::default();
        for second in 0..20 {
            let ahead = if second % 4 == 0 { 0 } else { 3600 * SECOND };
            assert_ne!(watch.judge(ahead, at(second)), Judged::Stepped, "{second}");
        }
        for second in 20..40_u64 {
            let ahead = 60 * SECOND * i64::try_from(second).unwrap_or(0);
            assert_eq!(watch.judge(ahead, at(second)), Judged::Doubtful, "{second}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn epochs_follow_the_wall_clock_once_they_are_told_to() {
        let clock = Clock::start();
        let ahead = Arc::new(AtomicI64::new(-7200 * SECOND));
        let (by, base) = (Arc::clone(&ahead), clock.steady_unix());
        let wall: WallClock = Arc::new(move || shifted(base, by.load(Ordering::Relaxed)));
        let epochs = EpochClock::new(clock, wall);
        assert_eq!(epochs.unix(), base - Duration::from_secs(7200), "it begins with the wall clock");
        ahead.store(0, Ordering::Relaxed);
        assert_eq!(epochs.wall_is_ahead(), 7200 * SECOND);
        epochs.follow(7200 * SECOND);
        assert_eq!((epochs.unix(), epochs.wall_is_ahead()), (base, 0));
    }
}

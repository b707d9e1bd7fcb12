//! The one clock: monotonic moments for arithmetic, wall time for people.
//!
//! It reads tokio's time, so that a test that pauses tokio's clock owns this one too.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;
use types::{Deadline, Moment};

/// A cheap, copyable handle on the node's time. All copies share one origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    /// The wall time of the origin as the machine's clock told it at the start.
    first_wall_origin: Duration,
    /// The wall time of the origin as the machine's clock tells it now, in nanoseconds since the Unix epoch. It differs from
    /// the first one if the clock was set since, or runs at another speed than the monotonic one. Never freed: eight bytes
    /// for each clock that is started, and a node starts one.
    wall_origin: &'static AtomicU64,
}

impl Clock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn start() -> Self {
        let wall = wall();
        let wall_origin = Box::leak(Box::new(AtomicU64::new(nanos(wall))));
        Self { origin: Instant::now(), first_wall_origin: wall, wall_origin }
    }

    /// Returns the current time of the monotonic clock.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment::ORIGIN.after(self.origin.elapsed())
    }

    /// Time since the Unix epoch. It follows the machine's clock, as [`Clock::follow`] last told it, so it jumps when
    /// somebody sets that.
    #[must_use]
    pub fn unix(&self) -> Duration {
        self.unix_at(self.now())
    }

    /// Time since the Unix epoch at a moment, as far as is known now.
    #[must_use]
    pub fn unix_at(&self, moment: Moment) -> Duration {
        Duration::from_nanos(self.wall_origin.load(Ordering::Relaxed).saturating_add(moment.as_nanos()))
    }

    /// Time since the Unix epoch if the machine's clock was right when the node started and nobody has set it since. It never
    /// jumps.
    #[must_use]
    pub fn steady_unix(&self) -> Duration {
        self.first_wall_origin + self.origin.elapsed()
    }

    /// Takes over what the machine's clock says, `wall`. Returns by how much that differs from what was known before.
    pub fn follow(&self, wall: Duration) -> Duration {
        let origin = nanos(wall).saturating_sub(self.now().as_nanos());
        let before = self.wall_origin.swap(origin, Ordering::Relaxed);
        Duration::from_nanos(before.abs_diff(origin))
    }

    /// What the machine's wall clock says now, since the Unix epoch. Somebody may set it, so unlike [`Clock::steady_unix`] it
    /// may jump, in both directions.
    #[must_use]
    pub fn wall(&self) -> Duration {
        wall()
    }

    /// A deadline `budget` from now.
    #[must_use]
    pub fn within(&self, budget: Duration) -> Deadline {
        Deadline::within(self.now(), budget)
    }

    /// Sleeps until `moment`.
    ///
    /// Cancel safe.
    pub async fn sleep_until(&self, moment: Moment) {
        tokio::time::sleep(moment.since(self.now())).await;
    }

    /// Runs `work` until `deadline`; `None` if the deadline came first.
    ///
    /// Cancel safe if `work` is.
    pub async fn by<F: Future>(&self, deadline: Deadline, work: F) -> Option<F::Output> {
        // Computed from the origin, which spares two readings of the clock.
        match self.origin.checked_add(Duration::from_nanos(deadline.moment().as_nanos())) {
            Some(at) if deadline != Deadline::NEVER => tokio::time::timeout_at(at, work).await.ok(),
            _ => Some(work.await),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_runtime_owns_the_clock() {
        let clock = Clock::start();
        let (before, wall) = (clock.now(), clock.unix());
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(clock.now().since(before), Duration::from_secs(7));
        assert_eq!(clock.unix().saturating_sub(wall), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn wall_time_follows_a_clock_that_is_set_and_steady_time_does_not() {
        let clock = Clock::start();
        let (copy, wall, steady) = (clock, clock.unix(), clock.steady_unix());
        let hour = Duration::from_secs(3600);
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(clock.follow(wall + hour), hour - Duration::from_secs(7));
        assert_eq!((copy.unix(), copy.steady_unix()), (wall + hour, steady + Duration::from_secs(7)));
        assert_eq!(clock.follow(wall - hour), 2 * hour);
        assert_eq!(copy.unix(), wall - hour);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_misses_its_deadline_is_dropped() {
        let clock = Clock::start();
        let deadline = clock.within(Duration::from_millis(10));
        assert_eq!(clock.by(deadline, std::future::pending::<()>()).await, None);
        assert!(deadline.has_passed(clock.now()));
        assert_eq!(clock.by(Deadline::NEVER, async { 3 }).await, Some(3));
    }
    /// Every wait of a service is one of these, so what holds here holds for all of them: within 5 %, and within 100 ms, on
    /// both sides.
    #[tokio::test(start_paused = true)]
    async fn deadlines_hold_within_a_twentieth_and_a_tenth_of_a_second() {
        let clock = Clock::start();
        for millis in [20, 50, 250, 1000, 2000, 5000, 60_000] {
            let wait = Duration::from_millis(millis);
            let tolerance = (wait / 20).min(Duration::from_millis(100));
            let began = clock.now();
            assert_eq!(clock.by(clock.within(wait), std::future::pending::<()>()).await, None);
            let waited = clock.now().since(began);
            assert!(waited >= wait && waited <= wait + tolerance, "{waited:?} for {wait:?}");
            for (takes, expected) in [(wait - tolerance, Some(())), (wait + tolerance, None)] {
                let work = tokio::time::sleep(takes);
                assert_eq!(clock.by(clock.within(wait), work).await, expected, "{takes:?} of {wait:?}");
            }
            let until = clock.now().after(wait);
            clock.sleep_until(until).await;
            let late = clock.now().since(until);
            assert!(clock.now() >= until && late <= tolerance, "{late:?} for {wait:?}");
        }
    }
}

//! The one clock: monotonic moments for arithmetic, wall time for people.
//!
//! It reads tokio's time, so that a test that pauses tokio's clock owns this one too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use types::{Deadline, Moment};

/// A cheap, copyable handle on the node's time. All copies share one origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    /// Wall time at the origin; wall time moves with the monotonic clock from there, so it never jumps back.
    wall_origin: Duration,
}

impl Clock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: Instant::now(), wall_origin: wall() }
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment::ORIGIN.after(self.origin.elapsed())
    }

    /// Time since the Unix epoch.
    #[must_use]
    pub fn unix(&self) -> Duration {
        self.wall_origin + self.origin.elapsed()
    }

    /// What the machine's wall clock says now, since the Unix epoch. Somebody may set it, so unlike [`Clock::unix`] it may
    /// jump, in both directions.
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
    async fn work_that_misses_its_deadline_is_dropped() {
        let clock = Clock::start();
        let deadline = clock.within(Duration::from_millis(10));
        assert_eq!(clock.by(deadline, std::future::pending::<()>()).await, None);
        assert!(deadline.has_passed(clock.now()));
        assert_eq!(clock.by(Deadline::NEVER, async { 3 }).await, Some(3));
    }
}

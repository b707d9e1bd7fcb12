//! How slow an origin's body may be: never silent for long, and not a trickle as a whole.

use std::time::Duration;

use ron_kernel::Clock;
use types::{Deadline, Moment};

use super::failure::Failure;

/// The average rate, in bytes for each millisecond, that a body must keep beyond the longest silence: 8 KB a second. Without it
/// an origin could hold a worker for ever with a byte now and then.
const LEAST_RATE: u64 = 8;

/// A body on its way.
#[derive(Debug)]
pub(super) struct Pace {
    clock: Clock,
    silence: Duration,
    began: Moment,
    received: u64,
}

impl Pace {
    /// A body whose head has just come, and which may be silent for so long.
    pub(super) fn new(clock: Clock, silence: Duration) -> Self {
        Self { clock, silence, began: clock.now(), received: 0 }
    }

    /// Waits for the next part of the body, no longer than the origin may take.
    ///
    /// Cancel safe if `part` is.
    ///
    /// # Errors
    /// [`Failure::Late`].
    pub(super) async fn wait<T>(&self, part: impl Future<Output = T>) -> Result<T, Failure> {
        self.clock.by(self.deadline(self.clock.now()), part).await.ok_or(Failure::Late)
    }

    /// So many more bytes have come.
    pub(super) fn received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    fn deadline(&self, now: Moment) -> Deadline {
        let earned = Duration::from_millis(self.received / LEAST_RATE);
        let average = Deadline::within(self.began, self.silence.saturating_add(earned));
        Deadline::within(now, self.silence).tightened(average)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_long_and_neither_be_silent_nor_trickle() {
        let clock = Clock::start();
        let mut pace = Pace::new(clock, Duration::from_secs(5));
        let after = |secs| clock.now().after(Duration::from_secs(secs));
        assert_eq!(pace.deadline(clock.now()).moment(), after(5), "the first part");
        pace.received(1 << 20);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(pace.deadline(clock.now()).moment(), after(5), "a minute is no matter after a megabyte");
        let mut slow = Pace::new(clock, Duration::from_secs(5));
        slow.received(8);
        tokio::time::advance(Duration::from_secs(4)).await;
        let left = slow.deadline(clock.now()).remaining(clock.now());
        assert_eq!(left, Duration::from_millis(1001), "eight bytes earn a millisecond");
    }
}

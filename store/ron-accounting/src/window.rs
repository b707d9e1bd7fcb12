//! Epochs as windows of wall time: which one a moment is in, when it ends, and when its inputs close.

use std::time::Duration;

/// Epochs of one length, counted from 1970, and how far clocks of nodes may be apart.
///
/// ```text
/// epoch n      [n·duration, (n+1)·duration)     usage is booked by the clock of the node that has it
/// n closes     (n+1)·duration + skew            what is announced later is listed, and does not count
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    duration: Duration,
    skew: Duration,
}

impl Windows {
    /// The shortest epoch: usage is written down once a second.
    pub const SHORTEST: Duration = Duration::from_secs(1);

    /// Epochs of `duration`, at least [`Windows::SHORTEST`], whose inputs close `skew` after their end.
    #[must_use]
    pub fn new(duration: Duration, skew: Duration) -> Self {
        Self { duration: duration.max(Self::SHORTEST), skew }
    }

    /// Returns the length of an epoch.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// How far a clock may be off without anybody minding: as far as clocks of nodes may be apart, and a second at least.
    #[must_use]
    pub fn tolerance(&self) -> Duration {
        self.skew.max(Duration::from_secs(1))
    }

    /// The epoch that the moment `unix`, since 1970, is in.
    #[must_use]
    pub fn epoch_at(&self, unix: Duration) -> u64 {
        u64::try_from(unix.as_nanos() / self.duration.as_nanos()).unwrap_or(u64::MAX)
    }

    /// When an epoch ends, since 1970; the moment itself is the next epoch's.
    #[must_use]
    pub fn end(&self, epoch: u64) -> Duration {
        let nanos = self.duration.as_nanos().saturating_mul(u128::from(epoch) + 1);
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        Duration::new(seconds, u32::try_from(nanos % 1_000_000_000).unwrap_or(0))
    }

    /// When an epoch's inputs close, since 1970.
    #[must_use]
    pub fn close(&self, epoch: u64) -> Duration {
        self.end(epoch).saturating_add(self.skew)
    }

    /// Whether an epoch's inputs may be closed at `unix`.
    #[must_use]
    pub fn is_over(&self, epoch: u64, unix: Duration) -> bool {
        unix >= self.close(epoch)
    }

    /// When a node seals its own part, since 1970: after its end, with half of the time that announcing may take, and a
    /// few seconds at most. A predecessor that is draining still writes down what it finished meanwhile.
    #[must_use]
    pub fn seal(&self, epoch: u64) -> Duration {
        const DRAIN: Duration = Duration::from_secs(5);
        self.end(epoch).saturating_add((self.skew / 2).min(DRAIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Windows = Windows { duration: Duration::from_secs(3600), skew: Duration::from_secs(120) };

    #[test]
    fn an_epoch_begins_with_its_first_instant_and_ends_before_the_next_ones() {
        let end = HOUR.end(7);
        assert_eq!(end, Duration::from_secs(8 * 3600));
        assert_eq!(HOUR.epoch_at(end - Duration::from_nanos(1)), 7);
        assert_eq!(HOUR.epoch_at(end), 8);
        assert_eq!(HOUR.epoch_at(Duration::ZERO), 0);
    }

    #[test]
    fn inputs_close_after_the_skew_and_not_an_instant_before() {
        let close = Duration::from_secs(8 * 3600 + 120);
        assert_eq!(HOUR.close(7), close);
        assert!(HOUR.is_over(7, close));
        assert!(!HOUR.is_over(7, close - Duration::from_nanos(1)));
        assert!(HOUR.seal(7) > HOUR.end(7) && HOUR.seal(7) < close);
    }

    #[test]
    fn without_skew_an_epoch_is_sealed_and_closed_when_it_ends() {
        let windows = Windows::new(Duration::from_secs(60), Duration::ZERO);
        assert_eq!((windows.seal(3), windows.close(3)), (windows.end(3), windows.end(3)));
    }

    #[test]
    fn no_length_and_no_number_of_an_epoch_overflows() {
        let windows = Windows::new(Duration::ZERO, Duration::MAX);
        assert_eq!(windows.duration(), Windows::SHORTEST);
        assert!(windows.close(u64::MAX) >= windows.end(u64::MAX));
        assert_eq!(Windows::new(Duration::MAX, Duration::ZERO).epoch_at(Duration::from_secs(5)), 0);
        assert!(Windows::new(Duration::MAX, Duration::ZERO).end(u64::MAX).as_secs() > u64::MAX / 2);
    }
}

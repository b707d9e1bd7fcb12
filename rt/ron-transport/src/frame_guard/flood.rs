//! How many frames may come that carry nothing: WINDOW_UPDATE, SETTINGS, PING, PRIORITY, RST_STREAM, empty DATA and frames of
//! unknown types. Each costs the library some work and its sender nothing. The same holds for fields that open no stream, which
//! the library decodes and throws away if the stream has ended, and for heads that are too long, which it refuses by itself.

use std::time::Duration;

use tokio::time::Instant;

/// How many such frames may come in a [`PERIOD`], beside those that are earned.
pub(super) const FREE: u32 = 2_000;
/// The period of [`FREE`].
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// For so many bytes that are sent to the peer, one more such frame may come: a receiver that opens its windows for each frame
/// that it gets sends as many.
pub(super) const BYTES_PER_FRAME: usize = 64;

/// Fields that open no stream count as one such frame, and as one more for so many bytes.
pub(super) const BYTES_PER_FRAME_OF_FIELDS: usize = 64;
/// A head that is too long counts as so many.
pub(super) const FRAMES_PER_LONG_HEAD: u32 = 100;

/// What is left of the frames that may come.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u32,
    /// When `left` was made whole last.
    since: Instant,
    /// Bytes that were sent and have earned nothing yet.
    sent: usize,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: FREE, since: now, sent: 0 }
    }

    /// Bytes were sent to the peer.
    pub(super) const fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// So many frames came that carry nothing; says whether they may. The clock is read only when all are used up, so a peer
    /// that sends fewer in a period never is refused, and one may send at most twice as many.
    pub(super) fn take(&mut self, frames: u32, now: impl FnOnce() -> Instant) -> bool {
        if let Some(left) = self.left.checked_sub(frames) {
            self.left = left;
            return true;
        }
        let earned = u32::try_from(self.sent / BYTES_PER_FRAME).unwrap_or(u32::MAX);
        self.sent %= BYTES_PER_FRAME;
        let now = now();
        let free = if now.duration_since(self.since) >= PERIOD { FREE } else { 0 };
        if free > 0 {
            (self.left, self.since) = (0, now);
        }
        let left = self.left.saturating_add(earned).saturating_add(free).checked_sub(frames);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_frames_may_come_in_a_period_and_no_more() {
        let start = Instant::now();
        let at = |millis| move || start + Duration::from_millis(millis);
        let mut allowance = Allowance::new(start);
        assert!(allowance.take(FREE, at(1)) && allowance.take(0, at(1)));
        assert!(!allowance.take(1, at(999)));
        assert!(allowance.take(FREE, at(1000)), "a new period");
        assert!(!allowance.take(1, at(1999)));
        let mut steady = Allowance::new(start);
        assert!((0..100).all(|second| steady.take(FREE, at(second * 1000 + 999))), "at the rate, for ever");
        let mut pauses = Allowance::new(start);
        assert!(pauses.take(FREE, at(0)) && pauses.take(FREE, at(60_000)));
        assert!(!pauses.take(1, at(60_500)), "a pause saves nothing up");
    }

    #[test]
    fn what_is_sent_earns_frames() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        allowance.sent(BYTES_PER_FRAME * 5 - 1);
        assert!(allowance.take(FREE, || start) && allowance.take(4, || start));
        assert!(!allowance.take(1, || start));
        allowance.sent(1);
        assert!(allowance.take(1, || start), "with what was left of the first bytes");
    }
}

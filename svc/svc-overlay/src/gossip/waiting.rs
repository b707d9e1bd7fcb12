//! How long what is handed to a shard waits in a queue. The least of many waits tells a standing queue from a short burst, as in
//! [CoDel](https://www.rfc-editor.org/rfc/rfc8289).

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Nothing was taken out of the queue.
const NOTHING: u64 = u64::MAX;
/// What is taken for the wait in a queue that is nearly full, and in one that nothing was taken out of though there is something:
/// it is asked for four times a second.
const STUCK: Duration = Duration::from_millis(250);

/// The waits in one queue.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The shortest wait since it was last asked for, in nanoseconds.
    least: AtomicU64,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { least: AtomicU64::new(NOTHING) }
    }
}

impl Waiting {
    /// Something was taken out that had waited for so long.
    pub(super) fn taken(&self, waited: Duration) {
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(NOTHING - 1);
        // Read first: the shard takes thousands a second, and the least seldom changes.
        if waited < self.least.load(Relaxed) {
            self.least.fetch_min(waited, Relaxed);
        }
    }

    /// The shortest wait since this was last asked; `queued` is how many wait now, of `capacity` that can. A fast shard is as
    /// overloaded as a slow one if its queue is about to refuse, however short the waits in it are.
    pub(super) fn least(&self, queued: usize, capacity: usize) -> Duration {
        let is_nearly_full = queued.saturating_mul(4) >= capacity.saturating_mul(3);
        match self.least.swap(NOTHING, Relaxed) {
            NOTHING if queued == 0 => Duration::ZERO,
            NOTHING => STUCK,
            least if is_nearly_full => Duration::from_nanos(least).max(STUCK),
            least => Duration::from_nanos(least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_wait_counts_since_it_was_last_asked_for() {
        let waiting = Waiting::default();
        assert_eq!(waiting.least(0, 8), Duration::ZERO, "nothing came");
        [30, 20, 40].into_iter().for_each(|millis| waiting.taken(Duration::from_millis(millis)));
        assert_eq!(waiting.least(5, 8), Duration::from_millis(20));
        assert_eq!(waiting.least(1, 8), STUCK, "nothing was taken, and something waits");
        waiting.taken(Duration::MAX);
        assert_eq!(waiting.least(0, 8), Duration::from_nanos(NOTHING - 1));
        waiting.taken(Duration::from_millis(1));
        assert_eq!(waiting.least(6, 8), STUCK, "it is about to refuse");
    }
}

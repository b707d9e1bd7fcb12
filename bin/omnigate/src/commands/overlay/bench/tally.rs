//! What subscribers have heard so far, in a fixed amount of memory however long the bench lasts.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Steps that each doubling of a latency is divided into: what is read out is at most a sixty-fourth too much.
const STEPS: usize = 64;
/// Doublings of a nanosecond that are told apart; the last ends beyond five centuries.
const DOUBLINGS: usize = 58;

/// Publications that were heard or named as missing, and how long they took. Shared by all subscribers.
#[derive(Debug)]
pub(super) struct Tally {
    /// How many latencies there are of each size.
    counts: Box<[AtomicU64]>,
    max_ns: AtomicU64,
    delivered: AtomicU64,
    missing: AtomicU64,
    /// When the last publication was heard, in nanoseconds since the bench began.
    last_ns: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            counts: (0..STEPS * DOUBLINGS).map(|_| AtomicU64::new(0)).collect(),
            max_ns: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            missing: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
        }
    }
}

impl Tally {
    /// Counts a publication that was heard at `now`, since the bench began, after `latency`.
    pub(super) fn heard(&self, now: Duration, latency: Duration) {
        let latency = nanos(latency);
        if let Some(count) = self.counts.get(index(latency)) {
            count.fetch_add(1, Relaxed);
        }
        self.max_ns.fetch_max(latency, Relaxed);
        self.last_ns.fetch_max(nanos(now), Relaxed);
        self.delivered.fetch_add(1, Relaxed);
    }

    /// Counts publications that were named as missing.
    pub(super) fn missed(&self, count: u64) {
        self.missing.fetch_add(count, Relaxed);
    }

    /// Returns the number of delivered messages.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered.load(Relaxed)
    }

    /// How many were named as missing.
    pub(super) fn missing(&self) -> u64 {
        self.missing.load(Relaxed)
    }

    /// When the last one was heard, since the bench began.
    pub(super) fn last(&self) -> Duration {
        Duration::from_nanos(self.last_ns.load(Relaxed))
    }

    /// The latency that so many percent do not exceed, and the largest for 100.
    pub(super) fn percentile(&self, percent: u64) -> Duration {
        let max = self.max_ns.load(Relaxed);
        let total: u64 = self.counts.iter().map(|count| count.load(Relaxed)).sum();
        let mut wanted = (total * percent).div_ceil(100);
        for (index, count) in self.counts.iter().enumerate() {
            let count = count.load(Relaxed);
            if count >= wanted && wanted > 0 {
                return Duration::from_nanos(upper_end(index).min(max));
            }
            wanted = wanted.saturating_sub(count);
        }
        Duration::from_nanos(max)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Where latencies of this size are counted. Below [`STEPS`] each has a place of its own; above, each doubling has as many.
fn index(ns: u64) -> usize {
    let doubling = (ns / STEPS as u64).checked_ilog2().map_or(0, |log| log as usize + 1);
    let step = if doubling == 0 { ns } else { (ns >> (doubling - 1)) - STEPS as u64 };
    doubling * STEPS + usize::try_from(step).unwrap_or(STEPS - 1)
}

/// The largest latency that is counted there.
fn upper_end(index: usize) -> u64 {
    let (doubling, step) = (index / STEPS, (index % STEPS) as u64);
    if doubling == 0 { step } else { ((STEPS as u64 + step + 1) << (doubling - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_is_counted_where_its_size_says_and_read_out_with_little_error() {
        for ns in (0..200).chain([1_000, 12_345, 999_999, 1_000_000_007, u64::from(u32::MAX), u64::MAX / 2]) {
            let (at, end) = (index(ns), upper_end(index(ns)));
            assert!(at < STEPS * DOUBLINGS, "{ns} is counted");
            assert!(end >= ns && end - ns <= ns / STEPS as u64, "{ns} reads as {end}");
            assert!(index(end) == at && index(end.saturating_add(1)) == at + 1, "{ns} ends at {end}");
        }
    }

    #[test]
    fn percentiles_are_of_all_that_was_heard() {
        let tally = Tally::default();
        assert_eq!(tally.percentile(50), Duration::ZERO);
        for number in 1..=1000 {
            tally.heard(Duration::from_secs(number), Duration::from_millis(number));
        }
        for (percent, exact) in [(1, 10.0), (50, 500.0), (99, 990.0)] {
            let shown = tally.percentile(percent).as_secs_f64() * 1000.0;
            assert!((exact..=exact * 1.016).contains(&shown), "{percent}: {shown}");
        }
        assert_eq!(tally.percentile(100), Duration::from_secs(1));
        assert_eq!((tally.delivered(), tally.last()), (1000, Duration::from_secs(1000)));
    }
}

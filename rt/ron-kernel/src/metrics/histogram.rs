//! A latency histogram that cores can record into without meeting.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};

use crate::inflight::shard_of_this_thread;

/// Upper bounds in microseconds: from a cache hit to a request that waited out its deadline.
const BOUNDS_US: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    5_000_000,
];
const SHARDS: usize = 8;

/// One core's share, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Shard {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// Counts durations in fixed buckets, one set of cells per core.
#[derive(Clone, Debug, Default)]
pub struct LatencyHistogram(Arc<[Shard; SHARDS]>);

impl LatencyHistogram {
    /// Records one duration.
    pub fn observe(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        let shard = &self.0[shard_of_this_thread() % SHARDS];
        shard.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        shard.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns the number of recorded durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }
}

/// How many durations were counted up to each of [`LatencyHistogram::BOUNDS_US`], and beyond the last.
pub type LatencyCounts = [u64; BOUNDS_US.len() + 1];

impl LatencyHistogram {
    /// The upper bounds of the buckets in microseconds; the last bucket has none.
    pub const BOUNDS_US: &[u64] = &BOUNDS_US;

    /// How many durations fell into each bucket alone.
    #[must_use]
    pub fn counts(&self) -> LatencyCounts {
        std::array::from_fn(|i| self.0.iter().map(|s| s.buckets[i].load(Ordering::Relaxed)).sum())
    }
}

impl TypedMetric for LatencyHistogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for LatencyHistogram {
    #[expect(clippy::cast_precision_loss, reason = "a sum of microseconds shown in seconds")]
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain(std::iter::once(f64::INFINITY));
        let buckets: Vec<(f64, u64)> = bounds.zip(self.counts()).collect();
        let sum: u64 = self.0.iter().map(|s| s.sum_us.load(Ordering::Relaxed)).sum();
        let count = buckets.iter().map(|(_, n)| n).sum();
        encoder.encode_histogram::<NoLabelSet>(sum as f64 / 1e6, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::{encoding::text::encode, registry::Registry};

    #[test]
    fn a_duration_on_a_bound_belongs_to_that_bucket() {
        let histogram = LatencyHistogram::default();
        for us in [99, 100, 101, 6_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let mut registry = Registry::default();
        registry.register("t_seconds", "T", histogram.clone());
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        assert!(text.contains("t_seconds_bucket{le=\"0.0001\"} 2"), "{text}");
        assert!(text.contains("t_seconds_bucket{le=\"0.00025\"} 3"), "{text}");
        assert!(text.contains("t_seconds_bucket{le=\"5.0\"} 3"), "{text}");
        assert!(text.contains("t_seconds_bucket{le=\"+Inf\"} 4"), "{text}");
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.counts()[..3], [2, 1, 0]);
        assert_eq!(histogram.counts().last(), Some(&1));
    }
}

//! Interleaved pairs: both sides run in turn within each round, and what counts is the median of the rounds' ratios.
//!
//! A shared machine changes its speed from one second to the next, but hardly between the two halves of a round of
//! some milliseconds. Time is CPU time, which other processes do not add to.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Ours and the bare one's results, and the ratio of ours to the bare one's within rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) ours: Spread,
    pub(crate) bare: Spread,
    pub(crate) ratio: Spread,
}

/// A median and its quartiles.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl Pair {
    /// Runs both `rounds` times, after one round to warm up. Who goes first alternates.
    pub(crate) fn measure(
        rounds: usize,
        mut ours: impl FnMut() -> f64,
        mut bare: impl FnMut() -> f64,
    ) -> Self {
        ours();
        bare();
        let results = (0..rounds).map(|round| {
            if round % 2 == 0 {
                (ours(), bare())
            } else {
                let bare = bare();
                (ours(), bare)
            }
        });
        Self::of(&results.collect::<Vec<_>>())
    }

    /// From results of ours and the bare one, a pair per round.
    pub(crate) fn of(rounds: &[(f64, f64)]) -> Self {
        Self {
            ours: Spread::of(rounds.iter().map(|(ours, _)| *ours)),
            bare: Spread::of(rounds.iter().map(|(_, bare)| *bare)),
            ratio: Spread::of(rounds.iter().map(|(ours, bare)| ours / bare)),
        }
    }
}

impl Spread {
    /// Of no values: not a number.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |quarter: usize| {
            let index = sorted.len().saturating_sub(1) * quarter / 4;
            sorted.get(index).copied().unwrap_or(f64::NAN)
        };
        Self { median: at(2), lower: at(1), upper: at(3) }
    }
}

/// Nanoseconds of this thread's CPU time per operation; what other processes do to the thread does not count.
pub(crate) fn cpu_ns_per(operations: usize, work: impl FnOnce()) -> f64 {
    let before = cpu(ClockId::ThreadCPUTime);
    work();
    per(cpu(ClockId::ThreadCPUTime).saturating_sub(before), operations)
}

/// Nanoseconds of CPU time per operation of all threads of this process: what they do together, contention included.
pub(crate) fn all_cpu_ns_per(operations: usize, work: impl FnOnce()) -> f64 {
    let before = cpu(ClockId::ProcessCPUTime);
    work();
    per(cpu(ClockId::ProcessCPUTime).saturating_sub(before), operations)
}

#[expect(clippy::cast_precision_loss, reason = "a round does not take months")]
fn per(time: Duration, operations: usize) -> f64 {
    time.as_nanos() as f64 / operations as f64
}

fn cpu(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_not_of_the_sides() {
        // The machine halves its speed in the middle; each round's ratio is still 2.
        let pair = Pair::of(&[(2.0, 1.0), (2.0, 1.0), (4.0, 2.0), (40.0, 20.0), (4.0, 2.0)]);
        assert!((pair.ratio.median - 2.0).abs() < f64::EPSILON);
        assert!((pair.ours.median - 4.0).abs() < f64::EPSILON);
        assert!((pair.bare.lower - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn no_values_have_no_median() {
        assert!(Spread::of([]).median.is_nan());
    }
}

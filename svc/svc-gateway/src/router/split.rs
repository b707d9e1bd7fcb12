//! How a route's requests are shared among its upstreams.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use crate::upstream::Upstream;

/// Upstreams and their shares of the requests, as one core sees them.
#[derive(Debug)]
pub(crate) struct Split {
    shares: Vec<Share>,
    turn: AtomicU32,
}

/// The share of one upstream.
#[derive(Debug)]
pub(crate) struct Share {
    /// The sum of all weights up to its own.
    up_to: u32,
    /// The name of the upstream.
    pub(crate) name: Arc<str>,
    pub(crate) upstream: Arc<Upstream>,
}

impl Split {
    /// A split in proportion to the weights; `None` if nobody has any.
    pub(crate) fn new<'n>(shares: impl IntoIterator<Item = (&'n str, u16, Arc<Upstream>)>) -> Option<Self> {
        let mut sum = 0_u32;
        let shares: Vec<_> = shares
            .into_iter()
            .map(|(name, weight, upstream)| {
                sum = sum.saturating_add(weight.into());
                Share { up_to: sum, name: name.into(), upstream }
            })
            .collect();
        (sum > 0).then_some(Self { shares, turn: AtomicU32::new(0) })
    }

    /// The upstream whose turn it is.
    pub(crate) fn next(&self) -> &Share {
        match self.shares.as_slice() {
            [only] => only,
            several => {
                let sum = several.last().map_or(0, |share| share.up_to);
                let place = place(self.turn.fetch_add(1, Ordering::Relaxed), sum);
                several.iter().find(|share| place < share.up_to).expect("the last goes up to the sum")
            }
        }
    }
}

/// The place below `sum` of the n-th turn. Steps of the golden ratio spread any run of turns evenly, so that short runs
/// have the right proportions too.
pub(crate) fn place(turn: u32, sum: u32) -> u32 {
    const GOLDEN: u32 = 0x9e37_79b9;
    let spread = turn.wrapping_mul(GOLDEN);
    u32::try_from((u64::from(spread) * u64::from(sum)) >> 32).expect("less than `sum`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_run_of_turns_has_nearly_the_right_proportions() {
        let weights = [90_u32, 9, 1];
        for start in [0_u32, 12_345, u32::MAX - 500] {
            let mut counts = [0_u32; 3];
            for turn in 0..1000 {
                let place = place(start.wrapping_add(turn), 100);
                let index = [90, 99, 100].iter().position(|up_to| place < *up_to);
                counts[index.unwrap_or_else(|| panic!("{place} is not below the sum"))] += 1;
            }
            for (count, weight) in counts.into_iter().zip(weights) {
                assert!(count.abs_diff(weight * 10) <= 5, "from {start}: {counts:?}");
            }
        }
    }

    #[test]
    fn every_place_is_below_the_sum() {
        for turn in [0, 1, 2, u32::MAX / 2, u32::MAX] {
            for sum in [1, 2, 65_535, u32::MAX] {
                assert!(place(turn, sum) < sum, "{turn} of {sum}");
            }
        }
    }
}

//! How long to wait before trying again, as arithmetic on a random number.

use std::{ops::RangeInclusive, time::Duration};

/// A series of waits that double, with jitter so that callers who failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Wait n, from zero, is `min(cap, base · 2ⁿ) + U[0, base]`: at most `cap + base`.
    Added {
        /// The first wait without jitter, and the most that jitter adds.
        base: Duration,
        /// The longest wait without jitter.
        cap: Duration,
        /// Whether a random time is added to each delay.
        jitter: bool,
    },
    /// Wait n, from zero, is `U[min · 2ⁿ, max · 2ⁿ]`, scaled down as a whole where its upper end would exceed `cap`, so that
    /// waits keep their spread at the cap.
    Spread {
        /// The least first wait.
        min: Duration,
        /// The longest first wait.
        max: Duration,
        /// The longest wait of all.
        cap: Duration,
    },
}

impl Backoff {
    /// Wait number `n`, from zero. The same generator state gives the same wait.
    #[must_use]
    pub fn delay(&self, n: u32, rng: &mut fastrand::Rng) -> Duration {
        let (shortest, longest) = self.bounds(n).into_inner();
        let spread = u64::try_from((longest.saturating_sub(shortest)).as_nanos()).unwrap_or(u64::MAX);
        shortest.saturating_add(Duration::from_nanos(rng.u64(..=spread)))
    }

    /// Between what wait number `n` lies.
    #[must_use]
    pub fn bounds(&self, n: u32) -> RangeInclusive<Duration> {
        let factor = 1_u32.checked_shl(n).unwrap_or(u32::MAX);
        match *self {
            Self::Added { base, cap, jitter } => {
                let least = base.saturating_mul(factor).min(cap);
                least..=if jitter { least.saturating_add(base) } else { least }
            }
            Self::Spread { min, max, cap } => {
                let longest = max.saturating_mul(factor).min(cap);
                scaled(min.min(max), longest, max)..=longest
            }
        }
    }
}

/// `value · numerator / denominator`, rounded down; zero for a denominator of zero.
fn scaled(value: Duration, numerator: Duration, denominator: Duration) -> Duration {
    let product = value.as_nanos().saturating_mul(numerator.as_nanos());
    let nanos = product.checked_div(denominator.as_nanos()).unwrap_or(0);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_added_shape_doubles_to_its_cap_and_adds_at_most_its_base() {
        let backoff = Backoff::Added { base: ms(50), cap: ms(800), jitter: true };
        let bounds: Vec<_> = (0..6).map(|n| backoff.bounds(n)).collect();
        let least = [50, 100, 200, 400, 800, 800];
        assert_eq!(bounds, least.map(|l| ms(l)..=ms(l + 50)));
    }

    #[test]
    fn without_jitter_the_waits_are_exact() {
        let backoff = Backoff::Added { base: ms(50), cap: ms(120), jitter: false };
        let mut rng = fastrand::Rng::with_seed(1);
        assert_eq!([0, 1, 2, 3].map(|n| backoff.delay(n, &mut rng)), [ms(50), ms(100), ms(120), ms(120)]);
    }

    #[test]
    fn the_spread_shape_doubles_both_ends_and_keeps_its_spread_at_the_cap() {
        let backoff = Backoff::Spread { min: ms(50), max: ms(100), cap: ms(2_000) };
        let bounds = [0, 1, 4, 5, 60].map(|n| backoff.bounds(n));
        let expected = [(50, 100), (100, 200), (800, 1_600), (1_000, 2_000), (1_000, 2_000)];
        assert_eq!(bounds, expected.map(|(min, max)| ms(min)..=ms(max)));
    }

    #[test]
    fn a_spread_of_nothing_waits_for_nothing() {
        let backoff = Backoff::Spread { min: ms(0), max: ms(0), cap: ms(5) };
        assert_eq!(backoff.delay(3, &mut fastrand::Rng::with_seed(1)), Duration::ZERO);
    }

    #[test]
    fn the_jitter_reaches_both_ends_of_its_range() {
        let backoff = Backoff::Added { base: Duration::from_nanos(3), cap: ms(1), jitter: true };
        let mut rng = fastrand::Rng::with_seed(7);
        let mut seen: Vec<_> = (0..200).map(|_| backoff.delay(0, &mut rng).as_nanos()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [3, 4, 5, 6]);
    }

    proptest! {
        #[test]
        fn every_wait_lies_within_its_bounds_and_is_repeatable(
            seed: u64, n in 0..100_u32, min in 0..10_000_u64, extra in 0..10_000_u64, cap in 0..100_000_u64,
            shape in 0..3,
        ) {
            let backoff = match shape {
                0 => Backoff::Added { base: ms(min), cap: ms(cap), jitter: true },
                1 => Backoff::Added { base: ms(min), cap: ms(cap), jitter: false },
                _ => Backoff::Spread { min: ms(min), max: ms(min + extra), cap: ms(cap) },
            };
            let delay = backoff.delay(n, &mut fastrand::Rng::with_seed(seed));
            prop_assert!(backoff.bounds(n).contains(&delay), "{delay:?} outside {:?}", backoff.bounds(n));
            prop_assert!(delay <= ms(cap) + ms(min));
            prop_assert_eq!(delay, backoff.delay(n, &mut fastrand::Rng::with_seed(seed)));
        }
    }
}

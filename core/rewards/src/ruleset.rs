//! The rules by which scores become payouts, by number. A number keeps its meaning for ever.
//!
//! A new rule is a new number and a new file below; the old file is never touched again, and `tests/rulesets.rs` holds
//! one epoch per number with the bytes it must come to. So an old epoch can be recomputed by any later program.

mod v1;
mod v2;
mod v3;

use crate::{Amount, allocation::Entry, run::Base, wide};

/// A set of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ruleset {
    /// What the cap cuts off is left over.
    V1,
    /// What the cap cuts off is shared by those below the cap.
    V2,
    /// The same, and what is below the minimum is carried over to the next epoch.
    V3,
}

/// What the rules make of scores.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// One entry per score, in the same order.
    pub(crate) entries: Vec<Entry>,
    /// What nobody had a share in.
    pub(crate) unshared: u128,
}

/// The terms that rules apply, in minor units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) pool: u128,
    pub(crate) cap: u128,
    pub(crate) minimum: u128,
}

impl Ruleset {
    /// All rulesets, oldest first.
    pub const ALL: [Self; 3] = [Self::V1, Self::V2, Self::V3];

    /// The rules with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|ruleset| u64::from(ruleset.number()) == number)
    }

    /// Returns the ruleset's number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    /// Transfers in one intent. Part of the rules, so that an epoch's batches cannot be cut in two ways.
    #[must_use]
    pub const fn batch_size(self) -> usize {
        match self {
            Self::V1 | Self::V2 | Self::V3 => 1000,
        }
    }

    /// Whether its runs follow each other: each names the one before, and takes over what that one carried.
    #[must_use]
    pub const fn is_chained(self) -> bool {
        matches!(self, Self::V3)
    }

    /// The most that one actor is paid from `pool`.
    #[must_use]
    pub fn cap(self, pool: Amount, cap_ppm: u32) -> Amount {
        let (cap, _) = wide::mul_div(pool.minor(), cap_ppm.into(), PPM).expect("at most the pool");
        Amount::new(cap).expect("at most the pool")
    }

    /// Applies the rules to scores that are positive, in the order of their actors' bytes, and add up to `total`.
    pub(crate) fn apply(self, terms: Terms, scores: &[u128], total: u128) -> Outcome {
        match self {
            Self::V1 => v1::apply(terms, scores, total),
            Self::V2 => v2::apply(terms, scores, total),
            Self::V3 => v3::apply(terms, scores, total),
        }
    }

    /// What is divided in proportion to scores, and between how many points.
    pub(crate) fn base(self, terms: Terms, scores: &[u128], total: u128) -> Base {
        match self {
            Self::V1 => Base { pool: terms.pool, total },
            Self::V2 | Self::V3 => v2::base(terms, scores, total),
        }
    }
}

/// Parts per million in the whole.
pub(crate) const PPM: u128 = 1_000_000;

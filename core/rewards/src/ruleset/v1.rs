//! Ruleset 1: everybody's share by largest remainder; what a cap cuts off or a minimum holds back is left over.

use super::{Outcome, Terms};
use crate::{
    allocation::{Entry, Rule},
    apportion::largest_remainder,
};

pub(super) fn apply(terms: Terms, scores: &[u128], total: u128) -> Outcome {
    if scores.is_empty() {
        return Outcome { entries: Vec::new(), unshared: terms.pool };
    }
    let shares = largest_remainder(terms.pool, scores, total);
    let entry = |share: crate::apportion::Share| {
        let (paid, rule) = if share.amount > terms.cap {
            (terms.cap, Rule::Capped)
        } else if share.amount < terms.minimum {
            (0, Rule::BelowMinimum)
        } else {
            (share.amount, Rule::Full)
        };
        Entry { share: share.amount, extra: share.extra, paid, rule }
    };
    Outcome { entries: shares.into_iter().map(entry).collect(), unshared: 0 }
}

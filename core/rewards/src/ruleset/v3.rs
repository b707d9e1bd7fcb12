//! Ruleset 3: shares as by ruleset 2. What is below the minimum is carried over to the next epoch instead of being left
//! over, and a run takes over what was carried to it, corrections and payees; see `due.rs`.

use super::{Outcome, Terms, v2};

pub(super) fn apply(terms: Terms, scores: &[u128], total: u128) -> Outcome {
    // The minimum is not applied to a share, but to everything that an actor is due.
    v2::apply(Terms { minimum: 0, ..terms }, scores, total)
}

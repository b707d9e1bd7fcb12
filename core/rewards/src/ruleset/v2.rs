//! Ruleset 2: who would get more than the cap gets the cap, and the others share the rest by largest remainder.
//!
//! Taking the cap out of the pool makes the others' shares greater, so that one of them may reach the cap in turn. The
//! greatest score reaches it first; hence one pass over the scores in falling order finds everybody who does. What a
//! minimum holds back is left over, and so is what remains when everybody is at the cap.

use super::{Outcome, Terms};
use crate::{
    allocation::{Entry, Rule},
    apportion::largest_remainder,
    run::Base,
    wide,
};

pub(super) fn apply(terms: Terms, scores: &[u128], total: u128) -> Outcome {
    let capped = Capped::find(terms, scores, total);
    let open: Vec<u128> = scores.iter().copied().filter(|&score| !capped.includes(score)).collect();
    let mut shares = largest_remainder(capped.pool, &open, capped.total).into_iter();
    let entry = |&score: &u128| {
        if capped.includes(score) {
            return Entry { share: terms.cap, extra: false, paid: terms.cap, rule: Rule::Capped };
        }
        let share = shares.next().expect("as many as there are scores below the limit");
        let (paid, rule) =
            if share.amount < terms.minimum { (0, Rule::BelowMinimum) } else { (share.amount, Rule::Full) };
        Entry { share: share.amount, extra: share.extra, paid, rule }
    };
    let entries = scores.iter().map(entry).collect();
    Outcome { entries, unshared: if open.is_empty() { capped.pool } else { 0 } }
}

/// What those below the cap share, and between how many points.
pub(super) fn base(terms: Terms, scores: &[u128], total: u128) -> Base {
    let Capped { pool, total, .. } = Capped::find(terms, scores, total);
    Base { pool, total }
}

/// Who gets the cap, and what is left for the others.
struct Capped {
    /// Everybody with this score or a greater one, if anybody.
    from: Option<u128>,
    /// The amount that is shared by the actors that are not capped.
    pool: u128,
    /// What the others' scores add up to.
    total: u128,
}

impl Capped {
    fn find(terms: Terms, scores: &[u128], total: u128) -> Self {
        let mut falling = scores.to_vec();
        falling.sort_unstable_by(|a, b| b.cmp(a));
        let mut found = Self { from: None, pool: terms.pool, total };
        for score in falling {
            // Equal scores stand or fall together: taking one out leaves the other's share above the cap still.
            let exceeds = wide::cmp_products(found.pool, score, terms.cap, found.total).is_gt();
            if !exceeds {
                break;
            }
            found = Self { from: Some(score), pool: found.pool - terms.cap, total: found.total - score };
        }
        found
    }

    fn includes(&self, score: u128) -> bool {
        self.from.is_some_and(|from| score >= from)
    }
}

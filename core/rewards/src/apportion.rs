//! Largest remainder: a pool divided in proportion to scores, to the last minor unit.
//!
//! Everybody gets the whole part of `pool × score ÷ total`. The units left over go one each to the largest remainders;
//! between equal remainders, to the actor whose name comes first in the order of bytes.

use crate::wide;

/// One actor's part of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The part, with the extra unit.
    pub(crate) amount: u128,
    /// Whether one unit was added for the remainder.
    pub(crate) extra: bool,
}

/// Divides `pool`. The scores add up to `total` and are in the order of their actors' names. Without scores
/// there are no shares.
pub(crate) fn largest_remainder(pool: u128, scores: &[u128], total: u128) -> Vec<Share> {
    if scores.is_empty() {
        return Vec::new();
    }
    let mut shares = Vec::with_capacity(scores.len());
    let mut remainders = Vec::with_capacity(scores.len());
    let mut left = pool;
    for (at, &score) in scores.iter().enumerate() {
        let (amount, remainder) = wide::mul_div(pool, score, total).expect("no score is above the total");
        left -= amount;
        shares.push(Share { amount, extra: false });
        remainders.push((std::cmp::Reverse(remainder), at));
    }
    // Each remainder is below one unit, so fewer units are left than there are actors.
    let left = usize::try_from(left).expect("fewer than there are scores");
    if left > 0 {
        let (first, last, _) = remainders.select_nth_unstable(left - 1);
        for (_, at) in first.iter().chain([&*last]) {
            shares[*at].amount += 1;
            shares[*at].extra = true;
        }
    }
    shares
}

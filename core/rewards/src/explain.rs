//! One payout added up again, so that a person can follow it with a pocket calculator.

use crate::{Allocation, Amount, Run, run::Base, wide};

/// The points that one metric earned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Points<'a> {
    /// The name of the metric.
    pub metric: &'a str,
    /// Number of units of the metric.
    pub units: u128,
    /// The weight of one unit, in parts per million.
    pub weight_ppm: u32,
    /// The product `units × weight_ppm`.
    pub points: u128,
}

/// The calculation of one payout, step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation<'a> {
    /// The payout that is explained.
    pub allocation: Allocation<'a>,
    /// What the score is made of: the points add up to it.
    pub points: Vec<Points<'a>>,
    /// What was divided: the pool, less what others at the cap took where the rules share that out.
    pub divided: Amount,
    /// Between how many points.
    pub between: u128,
    /// The whole part of `divided × score ÷ between`.
    pub whole: u128,
    /// Its remainder. The greatest remainders get one unit each, until nothing is left to divide.
    pub remainder: u128,
}

impl Run {
    /// How an actor's payout came about, if the actor counts.
    #[must_use]
    pub fn explain(&self, actor: &str) -> Option<Explanation<'_>> {
        let line = self.line_of(actor)?;
        let allocation = self.allocations().nth(line)?;
        let Base { pool, total } = self.base();
        // Whoever is above the cap by the second rules is not part of what is divided between the others.
        let exact = wide::mul_div(pool, allocation.score, total);
        let (whole, remainder) = exact.unwrap_or((allocation.share.minor(), 0));
        Some(Explanation {
            allocation,
            points: self.points(line).collect(),
            divided: Amount::new(pool)?,
            between: total,
            whole,
            remainder,
        })
    }
}

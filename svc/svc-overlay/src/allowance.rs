//! What one caller or peer has used of a rate.

use quota::{Bucket, Exhausted, Forgettable, Passed, Rate};
use types::Moment;

/// What was used of a rate; forgotten once all of it has come back.
#[derive(Debug, Default)]
pub(crate) struct Allowance(Bucket);

impl Allowance {
    /// Takes one, if any is left.
    pub(crate) fn check(&self, rate: &Rate, now: Moment) -> Result<Passed, Exhausted> {
        self.0.check(rate, now)
    }
}

impl Forgettable for Allowance {
    fn is_forgettable(&self, now: Moment) -> bool {
        self.0.is_whole(now)
    }
}

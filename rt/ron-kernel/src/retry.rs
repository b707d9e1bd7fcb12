//! Trying again: how long to wait, how often, and how much retrying the node can afford in all.
//!
//! Three limits hold at once. A [`RetryPolicy`] bounds the tries of one call, its deadline bounds the time they take, and
//! a [`RetryBudget`] shared by all calls to one place bounds retries as a share of calls, so that retries
//! cannot multiply the load on something that is failing because of load.

mod backoff;
mod budget;

use types::Deadline;

use crate::{Clock, metrics::Counter};

pub use backoff::Backoff;
pub use budget::RetryBudget;

/// How often one call is tried, and the waits between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all, the first included. Zero counts as one.
    pub max_tries: u32,
    /// The waits between them.
    pub backoff: Backoff,
}

/// An error that knows whether the same call may succeed later.
pub trait Retryable {
    /// Whether trying again, unchanged, makes sense.
    fn retryable(&self) -> bool;
}

/// Why a call was given up. Each carries the last error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetryError<E> {
    /// Every try failed.
    #[error("gave up after {tries} tries: {last}")]
    Exhausted {
        /// Number of tries.
        tries: u32,
        /// The error of the last try.
        last: E,
    },
    /// There were tries left, but too many other calls are being retried already.
    #[error("gave up because the retry budget is spent: {last}")]
    BudgetSpent {
        /// The error of the last try.
        last: E,
    },
    /// There were tries left, but the next would start after the deadline.
    #[error("gave up because the deadline is too near: {last}")]
    Deadline {
        /// The error of the last try.
        last: E,
    },
    /// Trying again cannot help.
    #[error("{last}")]
    Permanent {
        /// The error of the try.
        last: E,
    },
}

impl<E> RetryError<E> {
    /// Returns the error of the last try.
    #[must_use]
    pub fn into_last(self) -> E {
        match self {
            Self::Exhausted { last, .. }
            | Self::BudgetSpent { last }
            | Self::Deadline { last }
            | Self::Permanent { last } => last,
        }
    }
}

/// Calls `op` with the number of the try, from one, until it succeeds or one of the limits is reached. `counter` counts
/// the retries: `backoff_retries_total{op}`.
///
/// A wait that would end at or after `deadline` is not begun. A try is never cut short: keeping the deadline
/// while it runs is `op`'s part.
///
/// # Errors
/// [`RetryError`], which says which limit it was and holds the last error.
///
/// Cancel safe if `op`'s futures are: dropping it drops the try or the wait in progress, and nothing runs on. A retry
/// that was paid for stays paid for.
pub async fn retry<T, E, F>(
    policy: &RetryPolicy,
    budget: &RetryBudget,
    deadline: Deadline,
    clock: Clock,
    counter: &Counter,
    rng: &mut fastrand::Rng,
    mut op: impl FnMut(u32) -> F,
) -> Result<T, RetryError<E>>
where
    E: Retryable,
    F: Future<Output = Result<T, E>>,
{
    budget.deposit();
    let mut tries = 1;
    loop {
        let last = match op(tries).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if !last.retryable() {
            return Err(RetryError::Permanent { last });
        }
        if tries >= policy.max_tries {
            return Err(RetryError::Exhausted { tries, last });
        }
        let now = clock.now();
        let resume = now.after(policy.backoff.delay(tries - 1, rng));
        if deadline.has_passed(resume) {
            return Err(RetryError::Deadline { last });
        }
        if !budget.withdraw(now) {
            return Err(RetryError::BudgetSpent { last });
        }
        counter.inc();
        clock.sleep_until(resume).await;
        tries += 1;
    }
}

#[cfg(test)]
mod tests;

//! The retries of an upstream, shared among its tenants.

use ron_kernel::{blame::ClientId, retry::RetryBudget};
use types::Moment;

/// Retries per second that cost nothing: an upstream that is seldom asked is retried too.
const FREE_RETRIES: u32 = 3;

/// How many shares there are. Tenants are spread over them in the order in which they came, so that two seldom have the same
/// one, and all tenants together have at most so many times the retries that cost nothing.
const SHARES: u64 = 16;

/// How many retries the requests to one upstream may make: a share of the requests of each tenant. One whose requests fail
/// leaves the others theirs.
#[derive(Debug)]
pub(super) struct RetryShares(Box<[RetryBudget]>);

impl RetryShares {
    /// Shares of `ratio_permille` retries for every thousand requests.
    pub(super) fn new(ratio_permille: u32) -> Self {
        Self((0..SHARES).map(|_| RetryBudget::new(ratio_permille, FREE_RETRIES)).collect())
    }

    /// The retries of a tenant, and of those that have the same share.
    pub(super) fn of(&self, client: ClientId) -> &RetryBudget {
        let share = usize::try_from(client % SHARES).unwrap_or(0);
        &self.0[share]
    }

    /// Pays for one retry of a tenant at `now`; false if there is nothing to pay with.
    pub(super) fn withdraw(&self, client: ClientId, now: Moment) -> bool {
        self.of(client).withdraw(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_uses_up_its_retries_leaves_others_theirs() {
        let (shares, now) = (RetryShares::new(100), Moment::ORIGIN);
        (0..10).for_each(|_| shares.of(1).deposit());
        assert_eq!((0..100).filter(|_| shares.withdraw(1, now)).count(), 4);
        assert_eq!((0..100).filter(|_| shares.withdraw(2, now)).count(), 3);
    }

    #[test]
    fn all_tenants_together_have_a_bounded_number_of_retries() {
        let (shares, now) = (RetryShares::new(0), Moment::ORIGIN);
        assert_eq!((0..10_000).filter(|client| shares.withdraw(*client, now)).count(), 48);
    }
}

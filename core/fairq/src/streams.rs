//! The shares of one server's connections that streams may hold.
//!
//! A stream occupies a connection for as long as its client likes, and holds no slot: a tunnel, a stream of events, a
//! transfer that lost its slot. So tenants have shares of the connections as well. All streams together hold at most half of
//! them. One tenant holds no more than half as many as are free of these, so that alone it has a third of them, and whoever
//! has none finds some free unless there are about as many others as streams; one address of a tenant has half of its tenant's share.

use std::{collections::HashMap, hash::Hash};

/// The tenant and the client address that a stream belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StreamOwner<T, A> {
    /// The tenant whose share the stream counts towards.
    pub tenant: T,
    /// The address of the tenant's client; `None` where the tenant is the address.
    pub address: Option<A>,
}

/// How many streams one server may have, of all tenants together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits(usize);

/// Which limit a stream would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamLimit {
    /// That of its tenant.
    Tenant,
    /// That of its address.
    Address,
    /// That of all streams.
    All,
}

/// The streams of one server, counted. As large as the number of open streams.
#[derive(Clone, Debug)]
pub struct StreamShares<T, A> {
    open: usize,
    tenants: HashMap<T, usize>,
    addresses: HashMap<StreamOwner<T, A>, usize>,
}

impl StreamLimits {
    /// The limit for a server with so many connections, or places on shared connections: half of them, and one at least.
    #[must_use]
    pub fn of(connections: usize) -> Self {
        Self((connections / 2).max(1))
    }
}

impl<T, A> Default for StreamShares<T, A> {
    fn default() -> Self {
        Self { open: 0, tenants: HashMap::new(), addresses: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash, A: Clone + Eq + Hash> StreamShares<T, A> {
    /// Streams that are open.
    #[must_use]
    pub const fn open(&self) -> usize {
        self.open
    }

    /// Whether one more stream is within the limits.
    ///
    /// # Errors
    /// The first limit that it would exceed.
    pub fn check(&self, owner: &StreamOwner<T, A>, limits: StreamLimits) -> Result<(), StreamLimit> {
        let of_tenant = self.tenants.get(&owner.tenant).copied().unwrap_or(0);
        let of_address = self.addresses.get(owner).copied().unwrap_or(0);
        let StreamLimits(all) = limits;
        let free = all.saturating_sub(self.open);
        if free == 0 {
            Err(StreamLimit::All)
        } else if of_tenant >= (free / 2).max(1) {
            Err(StreamLimit::Tenant)
        } else if of_address >= (free / 4).max(1) {
            Err(StreamLimit::Address)
        } else {
            Ok(())
        }
    }

    /// Counts one more stream, if that is within the limits.
    ///
    /// # Errors
    /// The first limit that it would exceed; nothing is counted then.
    pub fn open_one(&mut self, owner: &StreamOwner<T, A>, limits: StreamLimits) -> Result<(), StreamLimit> {
        self.check(owner, limits)?;
        self.open += 1;
        *self.tenants.entry(owner.tenant.clone()).or_default() += 1;
        if owner.address.is_some() {
            *self.addresses.entry(owner.clone()).or_default() += 1;
        }
        Ok(())
    }

    /// A stream of this owner that was counted has ended.
    pub fn close_one(&mut self, owner: &StreamOwner<T, A>) {
        if !take_one(&mut self.tenants, &owner.tenant) {
            return;
        }
        self.open -= 1;
        if owner.address.is_some() {
            take_one(&mut self.addresses, owner);
        }
    }
}

/// Counts one less, and forgets who has none; whether there was one.
fn take_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_has_a_third_and_with_many_some_are_left_for_a_newcomer() {
        let limits = StreamLimits::of(1024);
        for (tenants, all_of_one, taken) in
            [(1, 170, 170), (2, 128, 256), (4, 85, 342), (8, 51, 411), (64, 7, 498)]
        {
            let mut shares = StreamShares::<usize, u8>::default();
            for tenant in (0..tenants).cycle().take(1024) {
                let _ = shares.open_one(&StreamOwner { tenant, address: None }, limits);
            }
            assert!(
                shares.tenants.values().all(|of_one| of_one.abs_diff(all_of_one) <= 1),
                "{:?}",
                shares.tenants
            );
            assert!(shares.open().abs_diff(taken) <= 8, "{} by {tenants}", shares.open());
            assert_eq!(shares.open_one(&StreamOwner { tenant: 99, address: None }, limits), Ok(()));
        }
    }

    #[test]
    fn a_stream_that_was_never_counted_takes_nothing_from_others() {
        let mut shares = StreamShares::default();
        let owner = |tenant| StreamOwner { tenant, address: None::<u8> };
        shares.open_one(&owner("a"), StreamLimits::of(8)).expect("it is the first");
        shares.close_one(&owner("b"));
        assert_eq!(shares.open(), 1);
    }
}

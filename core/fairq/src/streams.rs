//! The shares of one server's connections that streams may hold.
//!
//! A stream occupies a connection for as long as its client likes, and holds no slot: a tunnel, a stream of events, a
//! transfer that lost its slot. So tenants have shares of the connections as well: one tenant's streams hold at most an
//! eighth, those of one address of a tenant at most half of that, and all streams together half.

use std::{collections::HashMap, hash::Hash};

/// Whose a stream is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StreamOwner<T, A> {
    /// The tenant whose share the stream counts towards.
    pub tenant: T,
    /// The address of the tenant's client; `None` where the tenant is the address.
    pub address: Option<A>,
}

/// How many streams one server may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Of all tenants together.
    pub all: usize,
    /// Of one tenant.
    pub tenant: usize,
    /// Of one address of a tenant.
    pub address: usize,
}

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
    /// The limits for a server with so many connections, or places on shared connections. Everybody may have one, and of
    /// several connections one is left for requests.
    #[must_use]
    pub fn of(connections: usize) -> Self {
        let all = (connections / 2).max(1);
        let tenant = (connections / 8).max(1);
        Self { all, tenant, address: (tenant / 2).max(1) }
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
        if of_tenant >= limits.tenant {
            Err(StreamLimit::Tenant)
        } else if of_address >= limits.address {
            Err(StreamLimit::Address)
        } else if self.open >= limits.all {
            Err(StreamLimit::All)
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
    fn everybody_may_have_one_and_of_several_connections_one_is_left_for_requests() {
        let limits = |connections| {
            let StreamLimits { all, tenant, address } = StreamLimits::of(connections);
            (all, tenant, address)
        };
        assert_eq!(
            [0, 1, 2, 4, 5, 8, 16, 512].map(limits),
            [(1, 1, 1), (1, 1, 1), (1, 1, 1), (3, 1, 1), (4, 1, 1), (6, 2, 1), (12, 4, 2), (409, 128, 64)]
        );
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

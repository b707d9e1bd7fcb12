//! Addresses that go on asking far beyond their rate.
//!
//! A refusal is cheap, but not free. An address that is refused more often than `quotas.refusals_rps` is turned away for a
//! second: its connections end, and new ones are closed before a byte of them is read.

use std::{
    hash::RandomState,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use quota::{Bucket, Forgettable, Rate, ShardedBook};
use ron_transport::caps::ClientKey;
use types::Moment;

/// For how long an address is turned away.
const AWAY: Duration = Duration::from_secs(1);
/// Addresses whose refusals are counted; beyond them, nobody is turned away. About 120 bytes each.
const MAX_ADDRESSES: usize = 16_384;

/// The refusals of all addresses.
#[derive(Debug)]
pub(crate) struct Floods(ShardedBook<ClientKey, Refusals, RandomState>);

/// The refusals of one address.
#[derive(Debug, Default)]
struct Refusals {
    allowance: Bucket,
    /// Until when the address is turned away, in nanoseconds.
    away_until: AtomicU64,
}

impl Default for Floods {
    fn default() -> Self {
        Self(ShardedBook::new(MAX_ADDRESSES, RandomState::new()))
    }
}

impl Floods {
    /// Counts a refusal; says whether the address is turned away from now on.
    pub(crate) fn refused(&self, client: ClientKey, allowed: &Rate, now: Moment) -> bool {
        let Ok(refusals) = self.0.get_or_insert(&client, now, Refusals::default) else { return false };
        let is_flood = refusals.allowance.check(allowed, now).is_err();
        if is_flood {
            refusals.away_until.store(now.after(AWAY).as_nanos(), Ordering::Relaxed);
        }
        is_flood
    }

    /// Whether connections of this address are closed at once.
    pub(crate) fn turns_away(&self, client: ClientKey, now: Moment) -> bool {
        self.0.get(&client).is_some_and(|refusals| refusals.is_away(now))
    }
}

impl Refusals {
    fn is_away(&self, now: Moment) -> bool {
        now.as_nanos() < self.away_until.load(Ordering::Relaxed)
    }
}

impl Forgettable for Refusals {
    fn is_forgettable(&self, now: Moment) -> bool {
        self.allowance.is_forgettable(now) && !self.is_away(now)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_millis(millis))
    }

    #[test]
    fn an_address_that_is_refused_too_often_is_turned_away_for_a_second_and_no_other_is() {
        let [flooding, other] = [1, 2].map(|last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last)).into());
        let (floods, allowed) = (Floods::default(), Rate::per_second(10, 10).unwrap());
        assert!((0..10).all(|_| !floods.refused(flooding, &allowed, at(5000))));
        assert!(!floods.turns_away(flooding, at(5000)));
        assert!(floods.refused(flooding, &allowed, at(5000)));
        assert!(floods.turns_away(flooding, at(5999)) && !floods.turns_away(flooding, at(6000)));
        assert!(!floods.turns_away(other, at(5000)) && !floods.refused(other, &allowed, at(5000)));
        assert!(!floods.refused(flooding, &allowed, at(6000)), "the allowance is there again");
    }
}

//! Addresses that go on asking far beyond their rate.
//!
//! A refusal is cheap, but not free. An address that is refused more often than `quotas.refusals_rps` is turned away: its
//! connections end, and new ones are closed before a byte of them is read. The first time this lasts a second, and twice as
//! long each time that the address floods again soon after it was let back in. Up to half as much is added at random, so that
//! addresses that were turned away together do not come back together.

use std::{
    hash::RandomState,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use quota::{Bucket, Forgettable, Rate, ShardedBook};
use ron_transport::caps::ClientKey;
use types::Moment;

/// For how long an address is turned away the first time.
const AWAY: Duration = Duration::from_secs(1);
/// How often that time is doubled at most: eight seconds.
const MAX_DOUBLINGS: u32 = 3;
/// An address that has been let back in for so long without another flood is turned away for [`AWAY`] again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(30);
/// Addresses whose refusals are counted; beyond them, nobody is turned away. About 120 bytes each.
const MAX_ADDRESSES: usize = 16_384;

/// The refusals of all addresses.
#[derive(Debug)]
pub(crate) struct Floods(ShardedBook<ClientKey, Refusals, RandomState>);

/// The refusals of one address.
#[derive(Debug, Default)]
struct Refusals {
    allowance: Bucket,
    /// Until when the address is turned away, in nanoseconds; zero if it never was.
    away_until: AtomicU64,
    /// How often the time away has been doubled.
    doublings: AtomicU32,
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
        // Requests that were in progress when the address was turned away are part of the same flood.
        if is_flood && !refusals.is_away(now) {
            refusals.turn_away(now);
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

    fn is_forgiven(&self, now: Moment) -> bool {
        match self.away_until.load(Ordering::Relaxed) {
            0 => true,
            until => Moment::from_nanos(until).after(FORGIVEN_AFTER) <= now,
        }
    }

    fn turn_away(&self, now: Moment) {
        let doublings = match self.is_forgiven(now) {
            true => 0,
            false => (self.doublings.load(Ordering::Relaxed) + 1).min(MAX_DOUBLINGS),
        };
        self.doublings.store(doublings, Ordering::Relaxed);
        let away = AWAY * (1 << doublings);
        self.away_until.store(now.after(away + jitter(away, now)).as_nanos(), Ordering::Relaxed);
    }
}

/// Up to half of a time away. The microseconds of the moment at which somebody floods are random enough.
fn jitter(away: Duration, now: Moment) -> Duration {
    let part = u32::try_from(now.as_nanos() / 1000 % 1000).unwrap_or(0);
    away * part / 2000
}

impl Forgettable for Refusals {
    fn is_forgettable(&self, now: Moment) -> bool {
        self.allowance.is_forgettable(now) && self.is_forgiven(now)
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

    /// Floods from `millis` on until it is turned away; says for how long.
    fn turned_away_for(floods: &Floods, client: ClientKey, millis: u64) -> u64 {
        let allowed = Rate::per_second(10, 10).unwrap();
        assert!((0..=10).any(|_| floods.refused(client, &allowed, at(millis))));
        // What was in progress meanwhile makes it no longer.
        assert!(floods.refused(client, &allowed, at(millis + 1)));
        (1..).find(|after| !floods.turns_away(client, at(millis + after))).unwrap()
    }

    #[test]
    fn an_address_that_floods_again_is_turned_away_for_twice_as_long_until_it_is_forgiven() {
        let client = IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)).into();
        let floods = Floods::default();
        let mut now = 5000;
        // On whole milliseconds nothing is added.
        for expected in [1000, 2000, 4000, 8000, 8000] {
            let away = turned_away_for(&floods, client, now);
            assert_eq!(away, expected, "the flood at {now} ms");
            // It comes back one second after it may.
            now += away + 1000;
        }
        let forgiven = now - 1000 + 30_000;
        assert_eq!(turned_away_for(&floods, client, forgiven - 1), 8000);
        assert_eq!(turned_away_for(&floods, client, forgiven - 1 + 8000 + 30_000), 1000);
    }

    #[test]
    fn addresses_that_were_turned_away_together_come_back_at_different_times() {
        let after = |micros: u64| jitter(AWAY, Moment::from_nanos(7_000_000_000 + micros * 1000));
        let added: Vec<u128> = [0, 1, 500, 999].map(|micros| after(micros).as_micros()).into();
        assert_eq!(added, [0, 500, 250_000, 499_500]);
    }
}

//! What consistent hashing promises: few keys move, shares follow weights, and no server has more than its bound.
#![expect(clippy::unwrap_used, reason = "tests")]

use affinity::{Candidate, MaxLoad, choose, hash};
use proptest::prelude::*;

fn server(name: u64, weight: u32) -> Candidate {
    Candidate { id: hash(&name.to_be_bytes()), weight, load: 0 }
}

/// The server of each key.
fn owners(keys: u64, servers: &[Candidate]) -> Vec<u64> {
    (0..keys)
        .map(|key| servers[choose(hash(&key.to_be_bytes()), servers.iter().copied(), None).unwrap()].id)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_server_that_leaves_moves_only_its_own_keys(
        weights in prop::collection::vec(1_u32..10, 2..20),
        leaver in any::<prop::sample::Index>(),
    ) {
        let servers: Vec<_> = (0..).zip(&weights).map(|(name, weight)| server(name, *weight)).collect();
        let gone = servers[leaver.index(servers.len())];
        let rest: Vec<_> = servers.iter().copied().filter(|server| server.id != gone.id).collect();
        for (before, after) in owners(500, &servers).into_iter().zip(owners(500, &rest)) {
            prop_assert!(before == after || before == gone.id);
        }
    }

    #[test]
    fn a_server_that_joins_takes_its_share_and_moves_nothing_else(count in 1_u64..20) {
        let servers: Vec<_> = (0..count).map(|name| server(name, 1)).collect();
        let joined: Vec<_> = (0..=count).map(|name| server(name, 1)).collect();
        let newcomer = joined[joined.len() - 1].id;
        let keys = 2_000;
        let (before, after) = (owners(keys, &servers), owners(keys, &joined));
        let moved: Vec<u64> = before.iter().zip(&after).filter(|(b, a)| b != a).map(|(_, a)| *a).collect();
        prop_assert!(moved.iter().all(|owner| *owner == newcomer));
        let fair = keys / (count + 1);
        prop_assert!((moved.len() as u64) < fair * 3 / 2 + 40, "{} moved, {fair} are its share", moved.len());
    }

    #[test]
    fn the_order_of_the_servers_does_not_matter(count in 2_u64..10, key in any::<u64>()) {
        let servers: Vec<_> = (0..count).map(|name| server(name, 1)).collect();
        let reversed: Vec<_> = servers.iter().rev().copied().collect();
        let of = |servers: &[Candidate]| servers[choose(key, servers.iter().copied(), None).unwrap()].id;
        prop_assert_eq!(of(&servers), of(&reversed));
    }

    #[test]
    fn no_server_has_more_than_its_bound_however_the_keys_are_chosen(
        weights in prop::collection::vec(0_u32..8, 1..12),
        keys in prop::collection::vec(0_u64..3, 1..400),
        percent in 101_u32..300,
        finished in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
    ) {
        let mut servers: Vec<_> = (0..).zip(&weights).map(|(name, weight)| server(name, *weight)).collect();
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let bound = MaxLoad::percent(percent).unwrap();
        let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let mut finished = finished.into_iter();
        for (turn, key) in keys.into_iter().enumerate() {
            let total: u64 = servers.iter().map(|server| server.load).sum();
            let chosen = choose(hash(&key.to_be_bytes()), servers.iter().copied(), Some(bound));
            let chosen = &mut servers[chosen.expect("there is always room somewhere")];
            prop_assert!(chosen.weight > 0);
            chosen.load += 1;
            prop_assert!(chosen.load <= bound.limit(chosen.weight, total, sum));
            if turn % 7 == 0 && let Some(which) = finished.next() {
                let done = which.index(servers.len());
                servers[done].load = servers[done].load.saturating_sub(1);
            }
        }
    }
}

#[test]
fn shares_follow_weights() {
    let servers = [server(1, 1), server(2, 3), server(3, 6)];
    let owners = owners(20_000, &servers);
    for (server, expected) in servers.iter().zip([2_000_usize, 6_000, 12_000]) {
        let count = owners.iter().filter(|owner| **owner == server.id).count();
        assert!(count.abs_diff(expected) < 400, "{count} instead of {expected}");
    }
}

#[test]
fn nobody_is_chosen_where_nobody_has_a_weight() {
    assert_eq!(choose(7, [].into_iter(), None), None);
    assert_eq!(choose(7, [server(1, 0)].into_iter(), MaxLoad::percent(125)), None);
    assert_eq!(MaxLoad::percent(100), None);
    assert!(MaxLoad::percent(101).is_some());
}

/// Nodes of different versions must agree: these values never change.
#[test]
fn hashes_are_the_same_for_ever() {
    let hashes = [hash(b""), hash(b"a"), hash(b"10.0.0.7")];
    assert_eq!(hashes, [0xf52a_15e9_a9b5_e89b, 0x02c0_bdbf_4814_20f8, 0x7140_dfb1_5c70_ce5c]);
    let servers: Vec<_> = (0..5).map(|name| server(name, 1)).collect();
    let chosen: Vec<_> = (0..8).map(|key| choose(key, servers.iter().copied(), None).unwrap()).collect();
    assert_eq!(chosen, [1, 3, 3, 3, 4, 2, 3, 0]);
}

//! Connection caps: who is admitted, who is one client, what is given back.

use std::{collections::HashMap, net::IpAddr};

use proptest::prelude::*;
use ron_transport::{
    caps::{CapError, CapStats, ClientKey, ConnCaps, ConnPermit},
    stream::Peer,
};

fn client(ip: &str) -> ClientKey {
    ip.parse::<IpAddr>().unwrap().into()
}

#[test]
fn the_last_place_is_given_and_the_next_refused() {
    let caps = ConnCaps::new(2, 2);
    let first = caps.try_admit(client("192.0.2.1")).unwrap();
    let _second = caps.try_admit(client("192.0.2.2")).unwrap();
    assert_eq!(caps.try_admit(client("192.0.2.3")).unwrap_err(), CapError::Total { limit: 2 });
    drop(first);
    let _third = caps.try_admit(client("192.0.2.3")).unwrap();
    assert_eq!(caps.total(), 2);
}

#[test]
fn a_client_at_its_share_is_refused_while_others_enter() {
    let caps = ConnCaps::new(10, 2);
    let _held = [caps.try_admit(client("192.0.2.1")).unwrap(), caps.try_admit(client("192.0.2.1")).unwrap()];
    assert_eq!(caps.try_admit(client("192.0.2.1")).unwrap_err(), CapError::PerClient { limit: 2 });
    assert!(caps.try_admit(client("192.0.2.2")).is_ok());
}

#[test]
fn a_client_at_its_share_is_told_so_even_when_all_is_full() {
    let caps = ConnCaps::new(2, 2);
    let _held = [caps.try_admit(client("192.0.2.1")).unwrap(), caps.try_admit(client("192.0.2.1")).unwrap()];
    assert_eq!(caps.try_admit(client("192.0.2.1")).unwrap_err(), CapError::PerClient { limit: 2 });
    assert_eq!(caps.try_admit(client("192.0.2.2")).unwrap_err(), CapError::Total { limit: 2 });
}

#[test]
fn caps_of_zero_admit_nobody() {
    assert_eq!(ConnCaps::new(0, 1).try_admit(ClientKey::Unix).unwrap_err(), CapError::Total { limit: 0 });
    let none_each = ConnCaps::new(1, 0);
    assert_eq!(none_each.try_admit(client("192.0.2.1")).unwrap_err(), CapError::PerClient { limit: 0 });
}

#[tokio::test]
async fn at_the_cap_the_longest_parked_connection_of_the_largest_holder_makes_room() {
    let caps = ConnCaps::new(5, 5);
    let [small, large, newcomer] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(client);
    let (mut one, mut two) = (caps.try_admit(small).unwrap(), caps.try_admit(small).unwrap());
    let mut of_large = [0; 3].map(|_| caps.try_admit(large).unwrap());
    let [first, second, busy] = &mut of_large;
    let (one, two) = (one.park(), two.park());
    let (first, second) = (first.park(), second.park());
    let _third = caps.try_admit(newcomer).unwrap();
    first.evicted().await;
    first.give_up();
    assert_eq!((caps.total(), caps.held_by(large), caps.held_by(newcomer)), (5, 2, 1));
    // Equally large now: any of them may go, but not the one that is busy.
    let _fourth = caps.try_admit(newcomer).unwrap();
    let _fifth = caps.try_admit(client("192.0.2.4")).unwrap();
    assert_eq!((caps.total(), caps.held_by(small) + caps.held_by(large)), (5, 2));
    assert_eq!(caps.stats().evicted_total, 3);
    assert_eq!(busy.client(), large);
    drop((one, two, second));
}

#[test]
fn nobody_who_is_busy_makes_room() {
    let caps = ConnCaps::new(2, 2);
    let (mut first, _second) =
        (caps.try_admit(client("192.0.2.1")).unwrap(), caps.try_admit(client("192.0.2.1")).unwrap());
    drop(first.park());
    assert_eq!(caps.try_admit(client("192.0.2.2")).unwrap_err(), CapError::Total { limit: 2 });
    assert_eq!(caps.try_admit(client("192.0.2.1")).unwrap_err(), CapError::PerClient { limit: 2 });
    assert_eq!(caps.stats().evicted_total, 0);
}

#[tokio::test]
async fn a_client_at_its_share_takes_the_place_of_its_own_longest_parked_connection() {
    let caps = ConnCaps::new(4, 2);
    let own = client("192.0.2.1");
    let (mut first, mut second) = (caps.try_admit(own).unwrap(), caps.try_admit(own).unwrap());
    let (first, second) = (first.park(), second.park());
    let _third = caps.try_admit(own).unwrap();
    first.evicted().await;
    first.give_up();
    drop(second);
    assert_eq!((caps.held_by(own), caps.total(), caps.stats().evicted_total), (2, 2, 1));
    assert_eq!(caps.try_admit(own).unwrap_err(), CapError::PerClient { limit: 2 });
}

#[test]
fn a_client_at_its_share_takes_nobodys_place() {
    let caps = ConnCaps::new(3, 2);
    let _greedy = [0; 2].map(|_| caps.try_admit(client("192.0.2.1")).unwrap());
    let mut other = caps.try_admit(client("192.0.2.2")).unwrap();
    let parked = other.park();
    assert_eq!(caps.try_admit(client("192.0.2.1")).unwrap_err(), CapError::PerClient { limit: 2 });
    drop(parked);
    assert_eq!(caps.total(), 3);
}

#[test]
fn a_request_that_comes_as_the_place_is_taken_is_served_above_the_cap_and_then_the_cap_holds_again() {
    let caps = ConnCaps::new(1, 1);
    let mut parked = caps.try_admit(client("192.0.2.1")).unwrap();
    let guard = parked.park();
    let mut newcomer = caps.try_admit(client("192.0.2.2")).unwrap();
    drop(guard);
    assert_eq!(caps.total(), 2);
    let idle = newcomer.park();
    assert_eq!(caps.try_admit(client("192.0.2.3")).unwrap_err(), CapError::Total { limit: 1 });
    drop(idle);
    drop(parked);
    assert_eq!(caps.total(), 1);
    drop(newcomer);
    assert_eq!((caps.total(), caps.stats().clients), (0, 0));
}

#[test]
fn one_client_is_an_ipv4_address_or_an_ipv6_network_of_64_bits() {
    assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:ffff:ffff:ffff"));
    assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
    assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
    assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    assert_eq!(client("2001:db8:0:7::1").to_string(), "2001:db8:0:7::/64");
    assert_eq!(ClientKey::of(&Peer::tcp("[::ffff:192.0.2.1]:80".parse().unwrap())), client("192.0.2.1"));
    assert_eq!(ClientKey::of(&Peer::unix()), ClientKey::Unix);
    assert_eq!(ClientKey::of(&Peer { addr: None, unix: false }), ClientKey::Unknown);
}

#[test]
fn unix_peers_and_trusted_proxies_are_bound_by_the_total_alone() {
    for key in [ClientKey::Unix, ClientKey::TrustedProxy] {
        let caps = ConnCaps::new(3, 1);
        let _held = [(); 3].map(|()| caps.try_admit(key).unwrap());
        assert_eq!(caps.try_admit(key).unwrap_err(), CapError::Total { limit: 3 });
    }
    let caps = ConnCaps::new(3, 1);
    let _held = caps.try_admit(ClientKey::Unknown).unwrap();
    assert_eq!(caps.try_admit(ClientKey::Unknown).unwrap_err(), CapError::PerClient { limit: 1 });
}

#[test]
fn a_proxied_connection_moves_to_its_clients_account() {
    let caps = ConnCaps::new(4, 1);
    let mut proxied = caps.try_admit(ClientKey::TrustedProxy).unwrap();
    proxied.rekey(client("192.0.2.1")).unwrap();
    assert_eq!(proxied.client(), client("192.0.2.1"));
    proxied.rekey(client("192.0.2.1")).unwrap();
    assert_eq!((caps.total(), caps.held_by(ClientKey::TrustedProxy)), (1, 0));

    let mut second = caps.try_admit(ClientKey::TrustedProxy).unwrap();
    assert_eq!(second.rekey(client("192.0.2.1")).unwrap_err(), CapError::PerClient { limit: 1 });
    assert_eq!(second.client(), ClientKey::TrustedProxy);
    drop((proxied, second));
    assert_eq!(caps.stats(), CapStats { admitted_total: 2, refused_client_cap: 1, ..CapStats::default() });
}

#[test]
fn new_limits_hold_for_the_next_arrival_and_leave_the_present_alone() {
    let caps = ConnCaps::new(4, 4);
    let mut held: Vec<_> = (0..4).map(|_| caps.try_admit(client("192.0.2.1")).unwrap()).collect();
    caps.set_limits(2, 2);
    assert_eq!(caps.total(), 4);
    held.truncate(2);
    assert_eq!(caps.try_admit(client("192.0.2.2")).unwrap_err(), CapError::Total { limit: 2 });
    held.truncate(1);
    let _other = caps.try_admit(client("192.0.2.2")).unwrap();
    caps.set_limits(3, 2);
    held.push(caps.try_admit(client("192.0.2.1")).unwrap());
    assert_eq!(caps.total(), 3);
}

#[test]
fn the_default_share_is_a_quarter_and_at_least_one() {
    for (total, share) in [(0, 1), (1, 1), (3, 1), (4, 1), (7, 1), (8, 2), (1024, 256)] {
        assert_eq!(ConnCaps::default_per_client(total), share);
    }
    let caps = ConnCaps::with_default_share(8);
    let _held = [(); 2].map(|()| caps.try_admit(client("192.0.2.1")).unwrap());
    assert_eq!(caps.try_admit(client("192.0.2.1")).unwrap_err(), CapError::PerClient { limit: 2 });
}

#[test]
fn figures_count_admissions_and_both_kinds_of_refusal() {
    let caps = ConnCaps::new(2, 1);
    let _first = caps.try_admit(client("192.0.2.1")).unwrap();
    let _second = caps.try_admit(client("192.0.2.2")).unwrap();
    for _ in 0..3 {
        caps.try_admit(client("192.0.2.1")).unwrap_err();
    }
    caps.try_admit(client("192.0.2.3")).unwrap_err();
    assert_eq!(
        caps.stats(),
        CapStats {
            open: 2,
            clients: 2,
            admitted_total: 2,
            refused_total_cap: 1,
            refused_client_cap: 3,
            evicted_total: 0
        }
    );
}

#[test]
fn threads_that_race_for_places_never_exceed_the_cap() {
    let caps = ConnCaps::new(8, 8);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let caps = caps.clone();
            scope.spawn(move || {
                for _ in 0..2_000 {
                    let held: Vec<_> = (0..4)
                        .filter_map(|_| caps.try_admit(ClientKey::V4([10, 0, 0, thread].into())).ok())
                        .collect();
                    assert!(caps.total() <= 8);
                    drop(held);
                }
            });
        }
    });
    assert_eq!((caps.total(), caps.largest_holder()), (0, None));
}

proptest! {
    #[test]
    fn counts_agree_with_a_plain_model(
        operations in prop::collection::vec((any::<bool>(), 0_u8..6, any::<prop::sample::Index>()), 0..200),
        max_total in 0_usize..12,
        max_per_client in 0_usize..6,
    ) {
        let caps = ConnCaps::new(max_total, max_per_client);
        let mut held = Vec::new();
        for (admit, who, index) in operations {
            if admit {
                let key = ClientKey::V4([10, 0, 0, who].into());
                let of_client = held.iter().filter(|permit: &&ConnPermit| permit.client() == key).count();
                let expected = of_client < max_per_client && held.len() < max_total;
                match caps.try_admit(key) {
                    Ok(permit) => { prop_assert!(expected); held.push(permit); }
                    Err(_) => prop_assert!(!expected),
                }
            } else if !held.is_empty() {
                drop(held.swap_remove(index.index(held.len())));
            }
            let mut counts = HashMap::new();
            for permit in &held {
                *counts.entry(permit.client()).or_insert(0_usize) += 1;
            }
            prop_assert_eq!(caps.total(), held.len());
            prop_assert_eq!(caps.stats().clients, counts.len());
            prop_assert_eq!(caps.largest_holder().map(|(_, count)| count), counts.values().copied().max());
            if let Some((largest, count)) = caps.largest_holder() {
                prop_assert_eq!(counts[&largest], count);
            }
        }
    }
}

#[tokio::test]
async fn at_the_cap_the_largest_holder_gives_way_to_a_client_with_fewer() {
    let caps = ConnCaps::new(6, 4);
    let [small, large, newcomer] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(client);
    let mut held: Vec<_> = [small, small, large, large, large, large]
        .map(|of| caps.try_admit(of).unwrap())
        .into_iter()
        .collect();
    let told: Vec<_> = held.iter_mut().map(ConnPermit::give_way).collect();
    let first = caps.try_admit(newcomer).unwrap();
    // The one that was opened last.
    told[5].notified().await;
    assert_eq!((caps.total(), caps.held_by(large)), (6, 3));
    drop(held.pop());
    assert_eq!((caps.total(), caps.held_by(large)), (6, 3), "the place was given away before");
    let second = caps.try_admit(newcomer).unwrap();
    assert_eq!((caps.held_by(small), caps.held_by(large), caps.held_by(newcomer)), (2, 2, 2));
    let third = caps.try_admit(newcomer).unwrap_err();
    assert_eq!(third, CapError::Total { limit: 6 }, "nobody would have more than the newcomer");
    drop((first, second, held));
    assert_eq!((caps.total(), caps.stats().clients), (0, 0));
}

#[tokio::test]
async fn idle_connections_of_small_clients_do_not_make_room_for_all() {
    let caps = ConnCaps::new(8, 7);
    let [small, large, newcomer] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(client);
    let mut idle = caps.try_admit(small).unwrap();
    let _ = idle.give_way();
    let idle = idle.park();
    let mut busy: Vec<_> = (0..7).map(|_| caps.try_admit(large).unwrap()).collect();
    let told: Vec<_> = busy.iter_mut().map(ConnPermit::give_way).collect();
    let _first = caps.try_admit(newcomer).unwrap();
    told[6].notified().await;
    assert_eq!((caps.held_by(small), caps.held_by(large)), (1, 6));
    drop(idle);
    assert_eq!(caps.total(), 8);
}

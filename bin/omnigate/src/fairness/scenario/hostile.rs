//! The test about attackers: what hostile clients do must not move another tenant.

use super::{Bench, Case, Flow, Judge, Manner, Mode, case, solo, tenant, the_victim};
use crate::fairness::attack::Attack;

/// Connections of one attacker that does one thing.
const CONNS: usize = 64;
/// Connections of one attacker for each thing, if it does all of them.
const CONNS_OF_EACH: usize = 24;

/// Requests a second that one address may make: ten times the default, and five times what the victim sends. Who sends more
/// is refused before admission, which costs the gateway time all the same.
const PER_IP_RPS: u32 = 500;

/// Each attack from one and from eight addresses, then all of them at once.
pub(super) fn cases(bench: &Bench) -> Vec<Case> {
    let alone = solo("T10", "victim alone", the_victim(bench));
    let mut cases = vec![Case { per_ip_rps: PER_IP_RPS, ..alone }];
    for addresses in [1, 8] {
        for attack in Attack::ALL {
            cases.push(beside(
                bench,
                attack.name(),
                addresses,
                &[attack],
                CONNS / usize::from(addresses).min(4),
            ));
        }
        cases.push(beside(bench, "all at once", addresses, &Attack::ALL, CONNS_OF_EACH));
    }
    cases
}

fn beside(bench: &Bench, name: &str, addresses: u8, attacks: &[Attack], conns: usize) -> Case {
    let attackers = (0..addresses).flat_map(|address| {
        attacks.iter().map(move |attack| Flow {
            name: format!("attacker-{address}"),
            host: 2 + address,
            headers: String::new(),
            manner: Manner::Hostile(*attack),
            ..tenant(bench, "", 0.0, conns)
        })
    });
    let flows = [the_victim(bench)].into_iter().chain(attackers).collect();
    let name = format!("{name}, {addresses} address{}", if addresses == 1 { "" } else { "es" });
    let attacked = case("T10", name, flows, &[Mode::Fair], Judge::Victim);
    Case { per_ip_rps: PER_IP_RPS, ..attacked }
}

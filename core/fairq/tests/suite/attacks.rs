//! Hostile clients on the virtual clock: what each attack does to the slots, for a minute, from one and from eight addresses.
//!
//! How a slot ends is the gateway's part, and is modelled here: it takes the slot of a transfer whose client has kept it
//! waiting for `slow_after`, at its next look; a request whose client leaves keeps its slot until the server is done.

use crate::support::{CAPACITY, SERVICE, ms, settings};
use fairq::sim::{Load, Policy, Report, Scenario, Service, Tenant};
use std::time::Duration;

/// How long an attack lasts.
const LASTS: Duration = Duration::from_secs(61);
/// Connections of one attacker.
const CONNS: usize = 64;
/// How long an attacker waits before it comes back.
const COMES_BACK: Duration = ms(50);
/// What a slow request takes: beyond what counts as slow.
const SLOW: Duration = ms(300);
/// Quick requests that hide slow ones.
const HALF_QUICK: [Duration; 2] = [SLOW, ms(1)];

/// An attack: how often it comes, how long it holds a slot, and how long it waits for one.
#[derive(Clone, Copy, Debug)]
struct Attack {
    name: &'static str,
    clients: usize,
    pause: Duration,
    service: Service,
    patience: Duration,
}

const fn attack(name: &'static str, service: Service) -> Attack {
    Attack { name, clients: CONNS, pause: COMES_BACK, service, patience: Duration::from_secs(60) }
}

/// Those that take slots. Small uploads and endless heads take none.
fn attacks() -> Vec<Attack> {
    // What `slow_after` is, and how long the gateway takes to look.
    let (slow_after, look) = (settings().slow_after, ms(25));
    let reclaimed = Service::Uniform(slow_after, slow_after + look);
    let slow = Service::Fixed(SLOW);
    vec![
        attack("large uploads that trickle", reclaimed),
        attack("slow readers", Service::Uniform(SERVICE + slow_after, SERVICE + slow_after + look)),
        Attack { clients: 500 * CONNS / 16, ..attack("many streams", slow) },
        Attack { pause: ms(5), patience: ms(1), ..attack("deadline bombs", slow) },
        Attack { patience: ms(2), ..attack("abandoned requests", slow) },
        attack("quick requests among slow ones", Service::OneOf(&HALF_QUICK)),
        // Its slot ends with the head of the answer.
        attack("idle streams", Service::Fixed(ms(1))),
    ]
}

impl Attack {
    fn tenant(self, address: usize) -> Tenant {
        let load = Load::Flood { clients: self.clients, pause: self.pause, until: LASTS, then: self.pause };
        let tenant = Tenant::new(format!("{} {address}", self.name), load, self.service);
        // Nothing is known of who attacks.
        tenant.first_estimate(Duration::ZERO).patience(self.patience)
    }
}

fn run(policy: Policy, attackers: Vec<Tenant>) -> Report {
    let mut scenario = Scenario::new(settings(), 10);
    scenario.lasts = LASTS;
    let victim = Tenant::new("victim", Load::PerSecond(CAPACITY / 20.0), Service::Fixed(SERVICE));
    scenario.tenants = vec![victim];
    scenario.tenants.extend(attackers);
    scenario.run(policy)
}

/// Whether the victim was served as if it were alone, give or take one service time.
fn unharmed(policy: Policy, attackers: Vec<Tenant>) -> bool {
    let allowed = run(policy, Vec::new()).tenant("victim").percentile(99) + SERVICE;
    let report = run(policy, attackers);
    let victim = report.tenant("victim");
    let (p50, p99) = (victim.percentile(50), victim.percentile(99));
    println!("  victim p50 {p50:?} p99 {p99:?} (allowed {allowed:?}) success {:.4}", victim.success());
    p99 <= allowed && victim.success() >= 0.999
}

#[test]
fn no_attack_moves_another_tenant() {
    for addresses in [1, 8] {
        for attack in attacks() {
            println!("{} from {addresses}", attack.name);
            assert!(unharmed(Policy::Fair, (0..addresses).map(|at| attack.tenant(at)).collect()));
        }
    }
}

#[test]
fn all_attacks_at_once_do_not_move_another_tenant() {
    // One address is one tenant, whose requests are of all kinds; some of its clients wait for a slot, others do not.
    const OF_ALL_KINDS: [Duration; 6] = [ms(125), ms(135), SLOW, SLOW, SLOW, ms(1)];
    let mixed = Attack { clients: 6 * CONNS, ..attack("all at once", Service::OneOf(&OF_ALL_KINDS)) };
    for addresses in [1, 8] {
        println!("all at once from {addresses}");
        let patience = |at: usize| if at.is_multiple_of(2) { mixed.patience } else { ms(2) };
        let attackers = (0..addresses).map(|at| Attack { patience: patience(at), ..mixed }.tenant(at));
        assert!(unharmed(Policy::Fair, attackers.collect()));
    }
}

/// One long request, and then quick ones.
const fn one_in<const COUNT: usize>(long: Duration) -> [Duration; COUNT] {
    let mut times = [SERVICE; COUNT];
    times[0] = long;
    times
}

#[test]
fn a_few_slow_requests_among_many_quick_ones_do_not_move_another_tenant() {
    // A small part of the requests, and more than half of the slot-time.
    const MIXES: [&[Duration]; 3] = [&one_in::<6>(SLOW), &one_in::<12>(SLOW), &one_in::<24>(SLOW)];
    for times in MIXES {
        for addresses in [1, 8] {
            println!("one in {} is slow, from {addresses}", times.len());
            let attacker = attack("mixed", Service::OneOf(times));
            assert!(unharmed(Policy::Fair, (0..addresses).map(|at| attacker.tenant(at)).collect()));
        }
    }
}

#[test]
fn a_few_stalled_transfers_among_many_quick_requests_do_not_move_another_tenant() {
    const MIXES: [&[Duration]; 2] = [&one_in::<6>(ms(125)), &one_in::<24>(ms(125))];
    for times in MIXES {
        println!("one in {} stalls", times.len());
        let attacker = attack("stalls", Service::OneOf(times));
        assert!(unharmed(Policy::Fair, (0..8).map(|at| attacker.tenant(at).stalling()).collect()));
    }
}

#[test]
fn without_fairness_the_attacks_that_hold_slots_are_noticed() {
    for attack in attacks().iter().filter(|attack| attack.service.mean() > SERVICE) {
        println!("{}", attack.name);
        assert!(!unharmed(Policy::Fifo, vec![attack.tenant(0)]), "the test would not notice harm");
    }
}

//! One tenant floods or is slow; its neighbour must not notice. With fairness off, it must: else these tests show
//! nothing.

use crate::support::{CAPACITY, SERVICE, SLOTS, ms, seeds, settings};
use fairq::{
    ClassSettings, Settings,
    sim::{Load, Policy, Report, Scenario, Service, Tenant},
};
use std::time::Duration;

/// A twentieth of the capacity.
const VICTIM_LOAD: f64 = CAPACITY / 20.0;

fn victim() -> Tenant {
    Tenant::new("victim", Load::PerSecond(VICTIM_LOAD), Service::Fixed(SERVICE))
}

fn elephant(times_capacity: f64) -> Tenant {
    Tenant::new("elephant", Load::PerSecond(CAPACITY * times_capacity), Service::Fixed(SERVICE))
}

/// Runs the victim with these others.
fn run(policy: Policy, seed: u64, others: &[Tenant]) -> Report {
    let mut scenario = Scenario::new(settings(), seed);
    scenario.lasts = Duration::from_secs(6);
    scenario.tenants.push(victim());
    scenario.tenants.extend_from_slice(others);
    scenario.run(policy)
}

/// Whether the victim was served as if it were alone, give or take one service time.
fn unharmed(report: &Report, seed: u64) -> bool {
    let (victim, alone) = (report.tenant("victim"), run(Policy::Fair, seed, &[]));
    let allowed = alone.tenant("victim").percentile(99) + SERVICE;
    println!(
        "  victim p50 {:?} p99 {:?} (allowed {allowed:?}) success {:.4}",
        victim.percentile(50),
        victim.percentile(99),
        victim.success()
    );
    victim.percentile(99) <= allowed && victim.success() >= 0.999
}

#[test]
fn a_flooding_tenant_does_not_move_its_neighbour() {
    for seed in seeds() {
        for times in [0.0, 2.0, 5.0, 10.0] {
            println!("elephant {times} x, seed {seed}");
            assert!(unharmed(&run(Policy::Fair, seed, &[elephant(times)]), seed));
        }
    }
}

#[test]
fn without_fairness_the_same_flood_harms_the_neighbour() {
    let seed = 1;
    for policy in [Policy::Off, Policy::Fifo] {
        assert!(unharmed(&run(policy, seed, &[elephant(0.0)]), seed), "no flood, no harm");
        for times in [2.0, 5.0, 10.0] {
            println!("elephant {times} x, {policy:?}");
            assert!(
                !unharmed(&run(policy, seed, &[elephant(times)]), seed),
                "the test would not notice harm"
            );
        }
    }
}

#[test]
fn a_sparse_tenant_waits_for_one_slot_among_thousands_that_wait() {
    let mut scenario = Scenario::new(Settings { room: 10_000, ..settings() }, 1);
    // Half of its share: 2,000 a second among 1,001.
    scenario.tenants.push(Tenant::new("sparse", Load::Every(ms(1001)), Service::Fixed(SERVICE)));
    for crowd in 0..1_000 {
        let name = format!("crowd {crowd}");
        scenario.tenants.push(Tenant::new(name, Load::Clients(2), Service::Exponential(SERVICE)));
    }
    scenario.lasts = Duration::from_secs(20);
    scenario.patience = Duration::from_secs(20);
    let report = scenario.run(Policy::Fair);
    let sparse = report.tenant("sparse");
    assert_eq!((sparse.offered, sparse.served), (19, 19));
    assert!(sparse.percentile(100) <= SERVICE + ms(5), "{:?}", sparse.percentile(100));
}

#[test]
fn slow_requests_of_one_tenant_do_not_hold_up_the_others() {
    for seed in seeds() {
        let services = [
            ("a slow upstream", Service::Fixed(Duration::from_secs(1))),
            ("all kinds of slow", Service::Uniform(ms(110), Duration::from_secs(3))),
            ("slow readers", Service::Exponential(Duration::from_secs(2))),
        ];
        for (name, service) in services {
            println!("{name}, seed {seed}");
            let slow = |name| Tenant::new(name, Load::PerSecond(200.0), service);
            let held = |report: &Report, name| report.slots_held(report.tenant(name)) / f64::from(SLOTS);
            let report = run(Policy::Fair, seed, &[slow("slow")]);
            assert!(unharmed(&report, seed));
            let of_one = held(&report, "slow");
            assert!((0.45..0.501).contains(&of_one), "one slow tenant may hold half: {of_one}");
            let report = run(Policy::Fair, seed, &[slow("slow"), slow("slower")]);
            assert!(unharmed(&report, seed));
            let of_two = held(&report, "slow") + held(&report, "slower");
            assert!((0.75..0.801).contains(&of_two), "slow tenants may hold four fifths: {of_two}");
        }
    }
}

#[test]
fn slow_requests_harm_the_others_without_fairness() {
    for policy in [Policy::Off, Policy::Fifo] {
        let slow = Tenant::new("slow", Load::PerSecond(200.0), Service::Fixed(Duration::from_secs(1)));
        assert!(!unharmed(&run(policy, 1, &[slow]), 1));
    }
}

#[test]
fn requests_that_turn_out_slow_earn_no_favour_meanwhile() {
    // Both are thought to take 10 ms. One takes five times as long, within what counts as quick.
    for seed in seeds() {
        let mut scenario = Scenario::new(settings(), seed);
        let load = Load::Clients(40);
        scenario.tenants.push(Tenant::new("as thought", load, Service::Fixed(SERVICE)));
        let longer = Tenant::new("longer", load, Service::Uniform(ms(1), ms(99)));
        scenario.tenants.push(longer.first_estimate(SERVICE));
        let report = scenario.run(Policy::Fair);
        let held: Vec<_> = report.tenants.iter().map(|tenant| report.slots_held(tenant)).collect();
        println!("seed {seed}: {held:?}");
        assert!((held[0] / held[1] - 1.0).abs() < 0.01, "slots are shared equally: {held:?}");
    }
}

#[test]
fn an_elephant_that_splits_into_sixteen_keys_gains_nothing_on_other_classes() {
    let classes = vec![ClassSettings::weighing(1), ClassSettings::weighing(5), ClassSettings::weighing(10)];
    for seed in seeds().take(2) {
        for keys in [1, 16] {
            let mut scenario = Scenario::new(Settings { classes: classes.clone(), ..settings() }, seed);
            for key in 0..keys {
                let load = Load::PerSecond(CAPACITY * 10.0 / f64::from(keys));
                scenario.tenants.push(Tenant::new(format!("anon {key}"), load, Service::Fixed(SERVICE)));
            }
            let busy = Load::PerSecond(CAPACITY * 2.0);
            scenario.tenants.push(Tenant::new("authed", busy, Service::Exponential(SERVICE)).in_class(1));
            scenario.tenants.push(victim().in_class(2));
            let report = scenario.run(Policy::Fair);
            let anon = report.tenants.iter().filter(|tenant| tenant.name.starts_with("anon"));
            let (anon, authed): (f64, _) = (
                anon.map(|tenant| report.slots_held(tenant)).sum(),
                report.slots_held(report.tenant("authed")),
            );
            println!("{keys} keys, seed {seed}: anon {anon:.3}, authed {authed:.3}");
            assert!((authed / anon / 5.0 - 1.0).abs() < 0.03, "1 : 5 whatever the keys: {anon} : {authed}");
            assert!(unharmed(&report, seed));
        }
    }
}

/// Attackers that nothing is known of, each with as many requests at once as there are slots; no request ends within the
/// run.
fn holders(count: usize) -> Vec<Tenant> {
    let service = Service::Fixed(Duration::from_secs(100));
    let holder = |at| {
        let load = Load::Clients(SLOTS as usize);
        Tenant::new(format!("holder {at}"), load, service).first_estimate(Duration::ZERO)
    };
    (0..count).map(holder).collect()
}

#[test]
fn requests_that_never_end_do_not_take_all_slots() {
    for seed in seeds() {
        for count in [1, 2, 8] {
            println!("{count} holders, seed {seed}");
            assert!(unharmed(&run(Policy::Fair, seed, &holders(count)), seed));
        }
    }
}

#[test]
fn a_tenant_known_to_be_quick_does_not_take_the_last_slots_with_slow_requests() {
    for seed in seeds() {
        let load = Load::Burst { count: 200, at: Duration::from_secs(2) };
        let service = Service::Fixed(Duration::from_secs(100));
        let burst = Tenant::new("burst", load, service).first_estimate(SERVICE);
        let report = run(Policy::Fair, seed, &[burst]);
        assert!(unharmed(&report, seed));
        let held = report.slots_held(report.tenant("burst"));
        assert!(held > f64::from(SLOTS) / 2.0, "it was taken for quick: {held}");
    }
}

#[test]
fn requests_that_wait_when_their_tenant_turns_out_slow_are_held_to_it() {
    for seed in seeds() {
        // All of them come at once, thought to be quick, and wait until it shows that they are not.
        let load = Load::Clients(200);
        let burst =
            Tenant::new("burst", load, Service::Fixed(Duration::from_secs(1))).first_estimate(SERVICE);
        let mut scenario = Scenario::new(settings(), seed);
        scenario.lasts = Duration::from_secs(10);
        // Slots that were taken before the victim was known come back after a second, and what waited for them is served.
        scenario.warm_up = Duration::from_secs(2);
        scenario.patience = Duration::from_secs(60);
        scenario.tenants = vec![victim(), burst];
        let report = scenario.run(Policy::Fair);
        assert!(unharmed(&report, seed));
        let held = report.slots_held(report.tenant("burst"));
        assert!(held <= f64::from(SLOTS) / 2.0 + 0.01, "one slow tenant holds at most half: {held}");
    }
}

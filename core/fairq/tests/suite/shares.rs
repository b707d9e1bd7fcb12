//! Who gets how much, against the max-min (water-filling) oracle.

use crate::support::{CAPACITY, SERVICE, SLOTS, ms, seeds, settings};
use fairq::{
    ClassSettings, Settings,
    sim::{Load, Policy, Report, Scenario, Service, Tenant},
};
use std::time::Duration;

/// Max-min shares of `capacity` among demands with weights: nobody gets more than it wants, and what is left is shared
/// by weight among those who want more.
fn water_fill(capacity: f64, wants: &[(f64, f64)]) -> Vec<f64> {
    let mut shares = vec![None; wants.len()];
    loop {
        let open = || shares.iter().zip(wants).filter(|(share, _)| share.is_none());
        let weights: f64 = open().map(|(_, (_, weight))| weight).sum();
        let left = capacity - shares.iter().flatten().sum::<f64>();
        let level = if weights > 0.0 { left / weights } else { 0.0 };
        let content: Vec<usize> = (0..wants.len())
            .filter(|&at| shares[at].is_none() && wants[at].0 <= level * wants[at].1)
            .collect();
        if content.is_empty() {
            return shares.iter().zip(wants).map(|(share, want)| share.unwrap_or(level * want.1)).collect();
        }
        for at in content {
            shares[at] = Some(wants[at].0);
        }
    }
}

fn jain(per_weight: &[f64]) -> f64 {
    let (sum, squares) = (per_weight.iter().sum::<f64>(), per_weight.iter().map(|x| x * x).sum::<f64>());
    sum * sum / (per_weight.len() as f64 * squares)
}

fn held(report: &Report) -> Vec<f64> {
    report.tenants.iter().map(|tenant| report.slots_held(tenant)).collect()
}

fn assert_close(held: &[f64], expected: &[f64], tolerance: f64, seed: u64) {
    println!("seed {seed}: held {held:.3?}, oracle {expected:.3?}");
    for (held, expected) in held.iter().zip(expected) {
        assert!((held / expected - 1.0).abs() <= tolerance, "{held} instead of {expected}, seed {seed}");
    }
}

/// Runs tenants that always want more, with these weights and services.
fn backlogged(tenants: &[(u32, Service)], seed: u64) -> Report {
    let mut scenario = Scenario::new(settings(), seed);
    scenario.patience = Duration::from_secs(60);
    for (number, &(weight, service)) in tenants.iter().enumerate() {
        let tenant = Tenant::new(format!("tenant {number}"), Load::Clients(60), service);
        scenario.tenants.push(tenant.weighing(weight));
    }
    scenario.run(Policy::Fair)
}

#[test]
fn equal_weights_share_equally_whatever_their_requests_cost() {
    for seed in seeds() {
        let costs = [
            Service::Fixed(SERVICE),
            Service::Fixed(ms(3)),
            Service::Exponential(ms(25)),
            Service::Uniform(ms(1), ms(60)),
        ];
        let held = held(&backlogged(&costs.map(|cost| (1, cost)), seed));
        assert_close(&held, &[f64::from(SLOTS) / 4.0; 4], 0.01, seed);
        assert!(jain(&held) >= 0.99);
    }
}

#[test]
fn weights_of_one_two_and_four_share_so() {
    for seed in seeds() {
        for cost in [Service::Fixed(SERVICE), Service::Exponential(SERVICE)] {
            let held = held(&backlogged(&[(1, cost), (2, cost), (4, cost)], seed));
            let per_unit = f64::from(SLOTS) / 7.0;
            assert_close(&held, &[per_unit, 2.0 * per_unit, 4.0 * per_unit], 0.03, seed);
            assert!(jain(&[held[0], held[1] / 2.0, held[2] / 4.0]) >= 0.99);
        }
    }
}

#[test]
fn who_wants_less_gets_it_and_the_rest_is_shared_by_weight() {
    for seed in seeds() {
        // Shares of capacity wanted, and weights.
        let wants = [(0.05, 1), (0.15, 1), (0.9, 1), (2.0, 2), (0.3, 4)];
        let mut scenario = Scenario::new(settings(), seed);
        scenario.lasts = Duration::from_secs(21);
        scenario.patience = Duration::from_secs(60);
        for (number, (want, weight)) in wants.into_iter().enumerate() {
            let load = Load::PerSecond(CAPACITY * want);
            let tenant = Tenant::new(format!("tenant {number}"), load, Service::Fixed(SERVICE));
            scenario.tenants.push(tenant.weighing(weight));
        }
        let report = scenario.run(Policy::Fair);
        // What was wanted is what was sent, which chance made a little more or less than its mean.
        let sent = report.tenants.iter().map(|tenant| tenant.offered as f64 / 20.0 * SERVICE.as_secs_f64());
        let wants: Vec<_> = sent.zip(wants).map(|(sent, (_, weight))| (sent, f64::from(weight))).collect();
        assert_close(&held(&report), &water_fill(f64::from(SLOTS), &wants), 0.03, seed);
    }
}

#[test]
fn a_first_come_first_served_queue_fails_the_same_oracle() {
    let mut scenario = Scenario::new(settings(), 1);
    for (name, times) in [("modest", 0.6), ("greedy", 6.0)] {
        scenario.tenants.push(Tenant::new(name, Load::PerSecond(CAPACITY * times), Service::Fixed(SERVICE)));
    }
    let held = held(&scenario.run(Policy::Fifo));
    assert!((held[0] / held[1] - 1.0).abs() > 0.5, "{held:?}");
}

#[test]
fn classes_share_by_weight_and_their_tenants_within() {
    for seed in seeds() {
        let classes = [1, 5, 10].map(ClassSettings::weighing).to_vec();
        let mut scenario = Scenario::new(Settings { classes, ..settings() }, seed);
        scenario.patience = Duration::from_secs(60);
        for (class, tenants) in [(0, 3), (1, 2), (2, 1)] {
            for nth in 0..tenants {
                let tenant =
                    Tenant::new(format!("{class}.{nth}"), Load::Clients(60), Service::Exponential(SERVICE));
                scenario.tenants.push(tenant.in_class(class).weighing(nth + 1));
            }
        }
        let unit = f64::from(SLOTS) / 16.0;
        let expected = [unit / 6.0, unit / 3.0, unit / 2.0, unit * 5.0 / 3.0, unit * 10.0 / 3.0, unit * 10.0];
        assert_close(&held(&scenario.run(Policy::Fair)), &expected, 0.03, seed);
    }
}

#[test]
fn slow_tenants_share_their_part_equally_and_leave_the_rest() {
    for seed in seeds() {
        let mut scenario = Scenario::new(settings(), seed);
        scenario.lasts = Duration::from_secs(121);
        scenario.patience = Duration::from_secs(600);
        for (name, seconds) in [("slow", 1), ("slower", 3)] {
            let service =
                Service::Uniform(Duration::from_millis(500 * seconds), Duration::from_millis(1500 * seconds));
            scenario.tenants.push(Tenant::new(name, Load::Clients(60), service));
        }
        scenario.tenants.push(Tenant::new("quick", Load::PerSecond(100.0), Service::Fixed(SERVICE)));
        let held = held(&scenario.run(Policy::Fair));
        assert_close(&held[..2], &[8.0, 8.0], 0.05, seed);
    }
}

//! Clients that wait as long as they are told find place.

use crate::support::{CAPACITY, SERVICE, ms, seeds, settings};
use fairq::sim::{Load, Policy, Scenario, Service, Tenant};
use std::time::Duration;

/// A burst of this many, beside a neighbour that takes half of the capacity; clients wait the whole seconds they are told.
fn burst(count: usize, service: Service, seed: u64) -> (u64, u64) {
    let mut scenario = Scenario::new(settings(), seed);
    scenario.obey_retry_after = true;
    scenario.lasts = Duration::from_secs(60);
    scenario.patience = Duration::from_secs(60);
    scenario.tenants.push(Tenant::new("burst", Load::Burst { count, at: ms(2000) }, service));
    let steady = Load::PerSecond(CAPACITY / 2.0);
    scenario.tenants.push(Tenant::new("steady", steady, Service::Exponential(SERVICE)));
    let report = scenario.run(Policy::Fair);
    let burst = report.tenant("burst");
    assert_eq!(burst.served, count as u64, "everybody is served in the end, seed {seed}");
    assert!(report.tenant("steady").success() >= 0.999, "the neighbour does not notice, seed {seed}");
    println!("seed {seed}: {} of {} retries admitted", burst.retries_served, burst.retries);
    (burst.retries_served, burst.retries)
}

#[test]
fn at_least_nineteen_of_twenty_obeyed_retries_are_admitted() {
    for seed in seeds() {
        for (count, service) in [(1_000, Service::Fixed(SERVICE)), (8_000, Service::Exponential(SERVICE))] {
            let (served, retries) = burst(count, service, seed);
            assert!(retries > 0, "nobody was refused");
            assert!(served * 100 >= retries * 95, "{served} of {retries}");
        }
    }
}

/// The p99 of a tenant that asks for half of what there is, from `warm_up` on.
fn p99(load: Load, warm_up: Duration, seed: u64) -> Duration {
    let mut scenario = Scenario::new(settings(), seed);
    scenario.obey_retry_after = true;
    (scenario.warm_up, scenario.lasts) = (warm_up, warm_up + Duration::from_secs(5));
    scenario.tenants.push(Tenant::new("crowd", load, Service::Uniform(ms(8), ms(12))));
    let report = scenario.run(Policy::Fair);
    let crowd = report.tenant("crowd");
    assert!(crowd.success() >= 0.999, "{load:?}, seed {seed}");
    println!("seed {seed}: p99 {:?}, {} came back, {load:?}", crowd.percentile(99), crowd.retries);
    crowd.percentile(99)
}

#[test]
fn a_second_after_a_flood_it_is_as_if_there_had_been_none() {
    let clients = 1500_u16;
    let at_times = |times: f64| Duration::from_secs_f64(f64::from(clients) / (CAPACITY * times));
    for seed in seeds().chain(2..10) {
        let calm = p99(Load::PerSecond(CAPACITY / 2.0), Duration::from_secs(1), seed);
        for until in [3, 10].map(Duration::from_secs) {
            let clients = usize::from(clients);
            let flood = Load::Flood { clients, pause: at_times(10.0), until, then: at_times(0.5) };
            let after = p99(flood, until + Duration::from_secs(1), seed);
            assert!(
                after <= calm + SERVICE,
                "{after:?} after {until:?} of it, {calm:?} without, seed {seed}"
            );
        }
    }
}

//! The tests about overload: the server stays busy, refusals are quick and true, and reloads disturb nothing.

use std::time::Duration;

use super::{Bench, Case, Flow, Judge, Manner, Mode, case, solo, tenant, the_victim};

/// How many times the measured length a flood lasts.
const FLOOD: u32 = 3;
/// Clients of a flood.
const FLOODING: usize = 1500;
/// Clients of a burst, more than twice as many as there is room for.
const BURST: usize = 1500;
/// Tenants of a burst of many.
const TENANTS: usize = 100;
/// The time between two reloads.
const RELOAD_EVERY: Duration = Duration::from_millis(100);
/// Reloads that must come into force in a second; one that comes while another is read is answered together with it.
const RELOADS_PER_SECOND: f64 = 8.0;

pub(super) fn cases(bench: &Bench) -> Vec<Case> {
    [t2(bench), t3(bench), t9(bench), retry(bench)].into_iter().flatten().collect()
}

/// From half of the capacity to ten times as much.
fn t2(bench: &Bench) -> Vec<Case> {
    let load = |times: f64| vec![tenant(bench, "load", times, 900)];
    let offered = |times: f64| {
        case("T2", format!("load of {times}×"), load(times), &[Mode::Fair], Judge::Goodput(times))
    };
    [0.5, 1.0, 2.0, 5.0, 10.0].map(offered).into()
}

/// A flood of ten times the capacity that ends, by clients who come back when they are told to.
fn t3(bench: &Bench) -> Vec<Case> {
    let calm = tenant(bench, "victim", 0.5, FLOODING);
    let manner = Manner::Flood { rate: bench.capacity() * 10.0, lasts: bench.length * FLOOD };
    let after = Flow { manner, ..calm.clone() };
    let alone = solo("T3", "load of 0.5×", calm);
    vec![alone, case("T3", "1 s after 10×", vec![after], &[Mode::Fair], Judge::Victim)]
}

/// Ten reloads a second beside an elephant.
fn t9(bench: &Bench) -> Vec<Case> {
    let flows = vec![the_victim(bench), tenant(bench, "elephant", 10.0, 700)];
    let judge = Judge::Reloads(RELOADS_PER_SECOND);
    let reloads = case("T9", "reloads beside 10×", flows, &[Mode::Fair], judge);
    let alone = solo("T9", "victim alone", the_victim(bench));
    vec![alone, Case { reload_every: Some(RELOAD_EVERY), ..reloads }]
}

/// Clients that return as they are told: a burst beside a neighbour that takes half of the capacity, a burst of many tenants,
/// and an overload that lasts.
fn retry(bench: &Bench) -> Vec<Case> {
    let welcome = |name, flows| case("retry", name, flows, &[Mode::Fair], Judge::Welcome);
    let burst = |name: &str, clients| Flow { manner: Manner::Burst, ..tenant(bench, name, 1.0, clients) };
    let many = (0..TENANTS).map(|nth| burst(&format!("burst-{nth}"), BURST / TENANTS)).collect();
    let manner = Manner::Flood { rate: bench.capacity() * 3.0, lasts: bench.length * FLOOD };
    let steady = Flow { manner, ..tenant(bench, "load", 0.5, FLOODING) };
    vec![
        welcome("burst beside 0.5×", vec![burst("burst", BURST), tenant(bench, "steady", 0.5, 300)]),
        welcome("burst of 100 tenants", many),
        welcome("load of 3×", vec![steady]),
    ]
}

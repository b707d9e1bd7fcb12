//! The tests about neighbours: what one tenant does must not move another.

use std::time::Duration;

use super::{Bench, Case, Flow, Judge, Mode, case, solo, tenant, the_victim};
use crate::rig::{Pace, SLOW};

/// Into how many keys an elephant splits itself.
const KEYS: u8 = 16;
/// Without admission, first come first served, fairly.
const ALL: &[Mode] = &[Mode::Off, Mode::Fifo, Mode::Fair];

pub(super) fn cases(bench: &Bench) -> Vec<Case> {
    [t1(bench), t4(bench), t5(bench), t8(bench)].into_iter().flatten().collect()
}

/// An elephant at several times the capacity beside a victim.
fn t1(bench: &Bench) -> Vec<Case> {
    let beside = |times: f64| {
        let flows = vec![the_victim(bench), tenant(bench, "elephant", times, 700)];
        case("T1", format!("elephant at {times}×"), flows, ALL, Judge::Victim)
    };
    [solo("T1", "victim alone", the_victim(bench))].into_iter().chain([2.0, 5.0, 10.0].map(beside)).collect()
}

/// Greedy tenants of equal and of different weight.
fn t4(bench: &Bench) -> Vec<Case> {
    let greedy = |names: [&'static str; 3], shares: [f64; 3], name: &str| {
        let flows = names.map(|tenant_name| tenant(bench, tenant_name, 2.0, 300)).into();
        let judge = Judge::Shares(names.into_iter().zip(shares).collect());
        case("T4", name, flows, &[Mode::Fifo, Mode::Fair], judge)
    };
    vec![
        greedy(["ash", "birch", "cedar"], [1.0 / 3.0; 3], "weights 1:1:1"),
        greedy(["one", "two", "four"], [1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0], "weights 1:2:4"),
    ]
}

/// Slow requests, and slow readers of large answers, beside a victim.
#[expect(clippy::cast_precision_loss, reason = "a few slots")]
fn t5(bench: &Bench) -> Vec<Case> {
    let slow_rate = bench.slots as f64 / SLOW.as_secs_f64() * 2.0;
    let slow = Flow { path: "/slow", rate: slow_rate, ..tenant(bench, "elephant", 1.0, 700) };
    let readers = Flow {
        path: "/big",
        rate: slow_rate,
        pace: Pace::Slow(Duration::from_millis(20)),
        ..tenant(bench, "elephant", 1.0, 200)
    };
    let beside = |name: &str, flow: Flow| case("T5", name, vec![the_victim(bench), flow], ALL, Judge::Victim);
    let alone = solo("T5", "victim alone", the_victim(bench));
    vec![alone, beside("slow requests", slow), beside("slow readers", readers)]
}

/// An elephant that splits itself into many anonymous clients, beside one client with a name.
fn t8(bench: &Bench) -> Vec<Case> {
    let keys = (0..KEYS).map(|key| Flow {
        name: format!("anon-{key}"),
        host: 2 + key,
        headers: String::new(),
        ..tenant(bench, "", 10.0 / f64::from(KEYS), 50)
    });
    let flows = keys.chain([tenant(bench, "named", 2.0, 400)]).collect();
    let judge = Judge::Shares(vec![("named", 5.0 / 6.0), ("anon-", 1.0 / 6.0)]);
    vec![case("T8", format!("elephant as {KEYS} keys"), flows, &[Mode::Fifo, Mode::Fair], judge)]
}

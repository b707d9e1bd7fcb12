//! The tests: who sends how much, beside what, and in which modes.

mod hostile;
mod neighbours;
mod overload;

use std::time::Duration;

use super::{
    judge::Judge,
    load::{Flow, Lane, Manner},
};
use crate::rig::Pace;

/// The names of all tests.
pub(crate) const TESTS: [&str; 9] = ["T1", "T2", "T3", "T4", "T5", "T8", "T9", "T10", "retry"];

/// The admission mode of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It does not: everything goes upstream.
    Off,
    /// First come, first served.
    Fifo,
    /// Fair queueing by tenant.
    Fair,
}

impl Mode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Fifo => "fifo",
            Self::Fair => "fair",
        }
    }

    /// Whether what must hold is to hold in this mode; the others show what would be without.
    pub(super) const fn is_judged(self) -> bool {
        matches!(self, Self::Fair)
    }
}

/// What is measured against: the sleeping server, how long a run lasts, and who weighs what.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    pub(super) slots: usize,
    pub(super) service_time: Duration,
    pub(super) length: Duration,
    /// Tenants that do not weigh 1.
    pub(super) weights: Vec<(&'static str, u32)>,
}

impl Bench {
    /// Requests a second that the server can answer.
    #[expect(clippy::cast_precision_loss, reason = "a few slots")]
    pub(super) fn capacity(&self) -> f64 {
        self.slots as f64 / self.service_time.as_secs_f64()
    }
}

/// One case: the load, in which modes it is run, and how it is judged when admission is fair.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) test: &'static str,
    pub(super) name: String,
    pub(super) flows: Vec<Flow>,
    pub(super) modes: &'static [Mode],
    pub(super) judge: Judge,
    /// The time between two reloads, if there are any.
    pub(super) reload_every: Option<Duration>,
    /// Requests a second that one address may make; 0 for no limit, so that admission alone decides.
    pub(super) per_ip_rps: u32,
}

/// All cases of the tests named in `only`; without a name, of those about neighbours. With `part`, only those whose names
/// contain it, and those that they are measured against.
pub(super) fn cases(bench: &Bench, only: &[String], part: Option<&str>) -> Vec<Case> {
    let mut cases = neighbours::cases(bench);
    if !only.is_empty() {
        cases.extend(overload::cases(bench).into_iter().chain(hostile::cases(bench)));
        cases.retain(|case| only.iter().any(|test| test.eq_ignore_ascii_case(case.test)));
    }
    if let Some(part) = part {
        cases.retain(|case| matches!(case.judge, Judge::Solo) || case.name.contains(part));
    }
    cases
}

/// A flow that asks for `times` the capacity under the tenant name it is called by.
fn tenant(bench: &Bench, name: &str, times: f64, conns: usize) -> Flow {
    Flow {
        name: name.to_owned(),
        host: 1,
        path: "/",
        headers: format!("x-tenant: {name}\r\n"),
        rate: bench.capacity() * times,
        conns,
        pace: Pace::Fast,
        manner: Manner::Heedless,
        lane: Lane::Crowd,
    }
}

/// Who must not be hurt: 5 % of the capacity.
fn the_victim(bench: &Bench) -> Flow {
    Flow { lane: Lane::Own, ..tenant(bench, "victim", 0.05, 64) }
}

/// The victim alone, to compare with.
fn solo(test: &'static str, name: &str, victim: Flow) -> Case {
    case(test, name, vec![victim], &[Mode::Fair], Judge::Solo)
}

fn case(
    test: &'static str,
    name: impl Into<String>,
    flows: Vec<Flow>,
    modes: &'static [Mode],
    judge: Judge,
) -> Case {
    Case { test, name: name.into(), flows, modes, judge, reload_every: None, per_ip_rps: 0 }
}

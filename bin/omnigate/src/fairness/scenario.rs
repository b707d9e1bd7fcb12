//! The noisy-neighbour tests: who sends how much, and what must hold of what comes back.

use std::time::Duration;

use super::{
    client::Pace,
    load::{Flow, Outcome},
    sleeper::SLOW,
};

/// Success that a tenant within its share is owed.
const MIN_SUCCESS: f64 = 0.999;
/// How far a share may be from the max-min one.
const SHARE_TOLERANCE: f64 = 0.03;
/// Into how many keys an elephant splits itself.
const KEYS: u8 = 16;

/// How the gateway admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It does not: everything goes upstream.
    Off,
    /// First come, first served.
    Fifo,
    /// Fairly.
    Fair,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::Off, Self::Fifo, Self::Fair];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Fifo => "fifo",
            Self::Fair => "fair",
        }
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
}

/// What must hold.
#[derive(Clone, Debug)]
pub(super) enum Judge {
    /// This is the victim alone; others are measured against it.
    Solo,
    /// The victim's p99 is at most one service time above what it is alone, and it is served.
    Victim,
    /// Each flow group gets this share of what is served.
    Shares(Vec<(&'static str, f64)>),
}

/// What a run showed, flow by flow.
pub(super) type Outcomes = Vec<(String, Outcome)>;

impl Judge {
    /// Whether it holds, given the victim's p99 alone.
    pub(super) fn holds(&self, bench: &Bench, outcomes: &Outcomes, solo: Duration) -> bool {
        match self {
            Self::Solo => victim(outcomes).is_some_and(|v| v.success() >= MIN_SUCCESS),
            Self::Victim => victim(outcomes)
                .is_some_and(|v| v.success() >= MIN_SUCCESS && v.percentile(99) <= solo + bench.service_time),
            Self::Shares(expected) => expected
                .iter()
                .all(|(group, share)| (share_of(outcomes, group) - share).abs() <= SHARE_TOLERANCE * share),
        }
    }
}

/// The victim's outcome.
pub(super) fn victim(outcomes: &Outcomes) -> Option<&Outcome> {
    outcomes.iter().find(|(name, _)| name == "victim").map(|(_, outcome)| outcome)
}

/// The share of all served requests that went to the flows whose names begin with `group`.
#[expect(clippy::cast_precision_loss, reason = "counts of one run")]
pub(super) fn share_of(outcomes: &Outcomes, group: &str) -> f64 {
    let served = |of: &dyn Fn(&str) -> bool| -> usize {
        outcomes.iter().filter(|(name, _)| of(name)).map(|(_, outcome)| outcome.served()).sum()
    };
    served(&|name| name.starts_with(group)) as f64 / (served(&|_| true) as f64).max(1.0)
}

/// All cases of the tests named in `only`, or of all of them.
pub(super) fn cases(bench: &Bench, only: &[String]) -> Vec<Case> {
    let all = [t1(bench), t4(bench), t5(bench), t8(bench)].into_iter().flatten();
    all.filter(|case| only.is_empty() || only.iter().any(|t| t.eq_ignore_ascii_case(case.test))).collect()
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
    }
}

/// Who must not be hurt: 5 % of the capacity.
fn the_victim(bench: &Bench) -> Flow {
    tenant(bench, "victim", 0.05, 64)
}

fn solo(bench: &Bench, test: &'static str) -> Case {
    let flows = vec![the_victim(bench)];
    Case { test, name: "victim alone".to_owned(), flows, modes: &[Mode::Fair], judge: Judge::Solo }
}

/// An elephant at several times the capacity beside a victim.
fn t1(bench: &Bench) -> Vec<Case> {
    let beside = |times: f64| Case {
        test: "T1",
        name: format!("elephant at {times}×"),
        flows: vec![the_victim(bench), tenant(bench, "elephant", times, 700)],
        modes: &Mode::ALL,
        judge: Judge::Victim,
    };
    [solo(bench, "T1")].into_iter().chain([2.0, 5.0, 10.0].map(beside)).collect()
}

/// Greedy tenants of equal and of different weight.
fn t4(bench: &Bench) -> Vec<Case> {
    let greedy = |names: [&'static str; 3], shares: [f64; 3], name: &str| Case {
        test: "T4",
        name: name.to_owned(),
        flows: names.map(|tenant_name| tenant(bench, tenant_name, 2.0, 300)).into(),
        modes: &[Mode::Fifo, Mode::Fair],
        judge: Judge::Shares(names.into_iter().zip(shares).collect()),
    };
    vec![
        greedy(["ash", "birch", "cedar"], [1.0 / 3.0; 3], "weights 1:1:1"),
        greedy(["one", "two", "four"], [1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0], "weights 1:2:4"),
    ]
}

/// Slow requests, and slow readers of large answers, beside a victim.
fn t5(bench: &Bench) -> Vec<Case> {
    let slow_rate = bench.slots as f64 / SLOW.as_secs_f64() * 2.0;
    let slow = Flow { path: "/slow", rate: slow_rate, ..tenant(bench, "elephant", 1.0, 700) };
    let readers = Flow {
        path: "/big",
        rate: slow_rate,
        pace: Pace::Slow(Duration::from_millis(20)),
        ..tenant(bench, "elephant", 1.0, 200)
    };
    let beside = |name: &str, flow: Flow| Case {
        test: "T5",
        name: name.to_owned(),
        flows: vec![the_victim(bench), flow],
        modes: &Mode::ALL,
        judge: Judge::Victim,
    };
    vec![solo(bench, "T5"), beside("slow requests", slow), beside("slow readers", readers)]
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
    vec![Case {
        test: "T8",
        name: format!("elephant as {KEYS} keys"),
        flows,
        modes: &[Mode::Fifo, Mode::Fair],
        judge: Judge::Shares(vec![("named", 5.0 / 6.0), ("anon-", 1.0 / 6.0)]),
    }]
}

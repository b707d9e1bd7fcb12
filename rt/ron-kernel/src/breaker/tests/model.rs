//! Random sequences of steps, against a model that keeps every result in a list.

use proptest::prelude::*;

use super::*;

/// What the breaker should do, in the plainest way: a list of results and an admission number.
struct Model {
    policy: BreakerPolicy,
    mode: Mode,
    results: Vec<(Moment, Outcome)>,
    row: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Closed { since: usize },
    Open { until: Moment, failed_probes: u32 },
    HalfOpen { probe: usize, until: Moment, failed_probes: u32 },
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Probe,
    Open(Duration),
}

impl Model {
    fn new(policy: BreakerPolicy) -> Self {
        Self { policy, mode: Mode::Closed { since: 0 }, results: Vec::new(), row: 0 }
    }

    /// The verdict on admission number `id`.
    fn check(&mut self, id: usize, now: Moment) -> Verdict {
        match self.mode {
            Mode::Closed { .. } => Verdict::Pass,
            Mode::Open { until, .. } | Mode::HalfOpen { until, .. } if now < until => {
                Verdict::Open(until.since(now))
            }
            Mode::Open { failed_probes, .. } | Mode::HalfOpen { failed_probes, .. } => {
                self.mode =
                    Mode::HalfOpen { probe: id, until: now.after(self.policy.open_for), failed_probes };
                Verdict::Probe
            }
        }
    }

    /// Takes the result of admission number `id`, when `admissions` were made so far.
    fn record(&mut self, id: usize, admissions: usize, outcome: Outcome, now: Moment) {
        match self.mode {
            Mode::Closed { since } if id >= since => self.count(outcome, now),
            Mode::HalfOpen { probe, failed_probes, .. } if id == probe => match outcome {
                Outcome::Success => {
                    self.mode = Mode::Closed { since: admissions };
                    self.results.clear();
                    self.row = 0;
                }
                Outcome::Failure => {
                    let doubled = self.policy.open_for * 2_u32.pow((failed_probes + 1).min(20));
                    let until = now.after(doubled.min(self.policy.open_cap));
                    self.mode = Mode::Open { until, failed_probes: failed_probes + 1 };
                }
            },
            _ => {}
        }
    }

    fn count(&mut self, outcome: Outcome, now: Moment) {
        self.results.push((now, outcome));
        if outcome == Outcome::Success {
            self.row = 0;
            return;
        }
        self.row += 1;
        let half_of = |moment: Moment| u128::from(moment.as_nanos()) / (self.policy.window.as_nanos() / 2);
        let recent: Vec<_> = self.results.iter().filter(|r| half_of(r.0) + 1 >= half_of(now)).collect();
        let failures = recent.iter().filter(|r| r.1 == Outcome::Failure).count();
        let rate = failures as f64 / recent.len() as f64;
        let enough = recent.len() >= self.policy.min_samples as usize;
        if self.row >= self.policy.consecutive
            || enough && rate >= f64::from(self.policy.error_permille) / 1000.0
        {
            self.mode = Mode::Open { until: now.after(self.policy.open_for), failed_probes: 0 };
        }
    }

    fn state(&self) -> State {
        match self.mode {
            Mode::Closed { .. } => State::Closed,
            Mode::Open { .. } => State::Open,
            Mode::HalfOpen { .. } => State::HalfOpen,
        }
    }
}

/// One thing that happens to a breaker.
#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Check,
    /// One of the outstanding requests ends.
    End(prop::sample::Index, Outcome),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![Just(Outcome::Success), Just(Outcome::Failure)];
    let step = prop_oneof![
        2 => prop_oneof![0..20_u64, 0..3_000_u64].prop_map(Step::Wait),
        4 => Just(Step::Check),
        4 => (any::<prop::sample::Index>(), outcome).prop_map(|(which, outcome)| Step::End(which, outcome)),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    #[test]
    fn any_sequence_of_steps_goes_as_the_model_says(
        steps in steps(),
        error_permille in prop::sample::select(vec![1, 250, 500, 1000]),
        min_samples in 1..8_u32,
        consecutive in 1..6_u32,
    ) {
        let policy = BreakerPolicy {
            error_permille, min_samples, consecutive,
            window: Duration::from_secs(2), open_for: Duration::from_secs(1), open_cap: Duration::from_secs(3),
        };
        let (breaker, mut model) = (Breaker::new(policy), Model::new(policy));
        let (mut now, mut admissions, mut running) = (at(0), 0, Vec::new());
        for step in steps {
            match step {
                Step::Wait(millis) => now = now.after(Duration::from_millis(millis)),
                Step::Check => {
                    let verdict = match breaker.check(now) {
                        Admit::Pass(ticket) => { running.push((admissions, ticket)); Verdict::Pass }
                        Admit::Probe(ticket) => { running.push((admissions, ticket)); Verdict::Probe }
                        Admit::Open { retry_after } => Verdict::Open(retry_after),
                    };
                    prop_assert_eq!(verdict, model.check(admissions, now));
                    admissions += 1;
                }
                Step::End(_, _) if running.is_empty() => {}
                Step::End(which, outcome) => {
                    let (id, ticket) = running.swap_remove(which.index(running.len()));
                    let before = model.state();
                    model.record(id, admissions, outcome, now);
                    let changed = breaker.record(ticket, outcome, now);
                    prop_assert_eq!(changed, (model.state() != before).then(|| model.state()));
                }
            }
            prop_assert_eq!(breaker.state(), model.state());
        }
    }
}

//! What must hold of a run, and what is shown of it.

use std::time::Duration;

use super::{
    outcome::{Outcome, percentile, share},
    scenario::Bench,
};

/// Success that a tenant within its share is owed.
const MIN_SUCCESS: f64 = 0.999;
/// How many of the victim's requests may have gone untimed, because who timed them stood still.
const MAX_UNTIMED: f64 = 0.05;
/// How far a share may be from the max-min one.
const SHARE_TOLERANCE: f64 = 0.03;
/// How much of what the server can do must be done, however much more is asked.
const MIN_GOODPUT: f64 = 0.95;
/// How quickly a refusal must come.
const REFUSED_WITHIN: Duration = Duration::from_millis(5);
/// How many of those who come back when told to must be served.
const MIN_WELCOME: f64 = 0.95;

/// The condition that a case must meet.
#[derive(Clone, Debug)]
pub(super) enum Judge {
    /// This is the victim alone; others are measured against it.
    Solo,
    /// The victim's p99 is at most one service time above what it is alone, and it is served.
    Victim,
    /// Each flow group gets this share of what is served.
    Shares(Vec<(&'static str, f64)>),
    /// So many times its capacity is asked of the server: it is kept busy, or answers all of it, and refusals are quick.
    Goodput(f64),
    /// Those who come back when they were told to are served.
    Welcome,
    /// The victim is as unmoved as ever, nothing breaks, and so many configurations a second came into force.
    Reloads(f64),
}

/// The results of a run.
#[derive(Debug)]
pub(super) struct Outcomes {
    /// Flow by flow.
    pub(super) flows: Vec<(String, Outcome)>,
    /// How busy the server's slots were, 1 being all the time: what it did of what it could.
    pub(super) busy: f64,
    /// Configurations that came into force meanwhile.
    pub(super) reloads: u64,
}

/// What later runs are measured against.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Baseline {
    /// The victim's p99 alone.
    p99: Duration,
}

/// What is shown of a run.
#[derive(Debug)]
pub(super) enum Shown {
    Victim { p50: Duration, p99: Duration, success: f64, share: f64, untimed: u64 },
    Shares(Vec<(&'static str, f64, f64)>),
    Goodput { per_second: f64, busy: f64, refused: usize, refused_p99: Duration },
    Welcome { returned: u64, welcome: f64 },
    Reloads { p99: Duration, success: f64, reloads: u64, failed: u64 },
}

impl Judge {
    /// Looks at a run: what is to be shown, and whether it is as it must be. What others are measured against is noted
    /// in `baseline`.
    pub(super) fn look(&self, bench: &Bench, outcomes: &Outcomes, baseline: &mut Baseline) -> (Shown, bool) {
        match self {
            Self::Solo => {
                baseline.p99 = outcomes.victim_p99();
                (outcomes.shown_victim(), outcomes.victim_success() >= MIN_SUCCESS)
            }
            Self::Victim => (outcomes.shown_victim(), outcomes.victim_is_unmoved(bench, baseline)),
            Self::Shares(expected) => look_at_shares(expected, outcomes),
            Self::Goodput(times) => {
                let all_of_it = outcomes.served_per_second(bench) >= bench.capacity() * times * MIN_GOODPUT;
                let holds =
                    (all_of_it || outcomes.busy >= MIN_GOODPUT) && outcomes.refused_p99() < REFUSED_WITHIN;
                (outcomes.shown_goodput(bench), holds)
            }
            Self::Welcome => look_at_welcome(outcomes),
            Self::Reloads(at_least) => {
                let (reloads, failed) = (outcomes.reloads, outcomes.failed());
                let (p99, success) = (outcomes.victim_p99(), outcomes.victim_success());
                let often = share(reloads, 1) >= at_least * bench.length.as_secs_f64();
                let holds = outcomes.victim_is_unmoved(bench, baseline) && failed == 0 && often;
                (Shown::Reloads { p99, success, reloads, failed }, holds)
            }
        }
    }
}

fn look_at_shares(expected: &[(&'static str, f64)], outcomes: &Outcomes) -> (Shown, bool) {
    let got: Vec<_> =
        expected.iter().map(|(group, share)| (*group, *share, outcomes.share_of(group))).collect();
    let holds = got.iter().all(|(_, share, got)| (got - share).abs() <= SHARE_TOLERANCE * share);
    (Shown::Shares(got), holds)
}

fn look_at_welcome(outcomes: &Outcomes) -> (Shown, bool) {
    let returned = outcomes.all().map(|outcome| outcome.returned).sum();
    let welcome = share(outcomes.all().map(|outcome| outcome.welcome).sum(), returned);
    (Shown::Welcome { returned, welcome }, returned > 0 && welcome >= MIN_WELCOME)
}

impl Outcomes {
    fn all(&self) -> impl Iterator<Item = &Outcome> {
        self.flows.iter().map(|(_, outcome)| outcome)
    }

    fn victim(&self) -> Option<&Outcome> {
        self.flows.iter().find(|(name, _)| name == "victim").map(|(_, outcome)| outcome)
    }

    fn victim_p99(&self) -> Duration {
        self.victim().map(|victim| percentile(&victim.served, 99)).unwrap_or_default()
    }

    fn victim_success(&self) -> f64 {
        self.victim().map_or(0.0, Outcome::success)
    }

    fn victim_is_unmoved(&self, bench: &Bench, baseline: &Baseline) -> bool {
        self.victim_success() >= MIN_SUCCESS
            && self.victim().is_some_and(|victim| victim.untimed_share() <= MAX_UNTIMED)
            && self.victim_p99() <= baseline.p99 + bench.service_time
    }

    fn shown_victim(&self) -> Shown {
        Shown::Victim {
            p50: self.victim().map(|victim| percentile(&victim.served, 50)).unwrap_or_default(),
            p99: self.victim_p99(),
            success: self.victim_success(),
            share: self.share_of("victim"),
            untimed: self.victim().map_or(0, |victim| victim.untimed),
        }
    }

    /// The share of all served requests that went to the flows whose names begin with `group`. Answers count when they
    /// come: those of a flow that has fallen behind were due long before.
    fn share_of(&self, group: &str) -> f64 {
        let served = |of: &dyn Fn(&str) -> bool| -> u64 {
            self.flows.iter().filter(|(name, _)| of(name)).map(|(_, outcome)| outcome.served_in_time).sum()
        };
        share(served(&|name| name.starts_with(group)), served(&|_| true))
    }

    fn served_per_second(&self, bench: &Bench) -> f64 {
        let served = self.all().map(|outcome| outcome.served_in_time).sum();
        share(served, 1) / bench.length.as_secs_f64()
    }

    /// Of the flow whose refusals took longest.
    fn refused_p99(&self) -> Duration {
        self.all().map(|outcome| percentile(&outcome.refused, 99)).max().unwrap_or_default()
    }

    fn failed(&self) -> u64 {
        self.all().map(|outcome| outcome.failed).sum()
    }

    fn shown_goodput(&self, bench: &Bench) -> Shown {
        Shown::Goodput {
            per_second: self.served_per_second(bench),
            busy: self.busy,
            refused: self.all().map(|outcome| outcome.refused.len()).sum(),
            refused_p99: self.refused_p99(),
        }
    }
}

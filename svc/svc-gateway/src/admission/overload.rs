//! Whether there is too much work for everybody: tenants that ask for no more than their share are turned away, for some
//! time, and no class is spared.
//!
//! A flood is not that. Whoever floods is turned away for more than its share, and those beside it are served.

use std::time::Duration;

use fairq::Counts;
use ron_kernel::{
    Scope,
    lock::Ranked,
    readiness::{Condition, Effect},
};
use types::Moment;

use crate::{locks, tenant::Class};

/// How long the overload must last before writes are shed.
const SUSTAINED: Duration = Duration::from_secs(3);
/// A pause of this length ends it.
const PAUSE: Duration = Duration::from_secs(1);
/// A class that asked within this time and was not wronged is spared: for it there is enough.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How long it has to be over before writes are let in again.
const SETTLE: Duration = Duration::from_secs(3);

/// Raises the condition by what the room has counted.
#[derive(Debug)]
pub(super) struct OverloadWatch {
    condition: Condition,
    overload: Ranked<Overload>,
}

impl OverloadWatch {
    pub(super) fn new(scope: &Scope) -> Self {
        let condition = scope.condition("overload", Effect::ShedWrites, SETTLE);
        Self { condition, overload: Ranked::new(&locks::OVERLOAD, Overload::default()) }
    }

    /// Looks at what was counted up to now, class by class. Called by one task alone, some times a second.
    pub(super) fn look(&self, counts: [Counts; Class::ALL.len()], now: Moment) {
        let mut overload = self.overload.lock();
        match overload.look(counts, now) {
            true => self.condition.raise("tenants within their share are refused"),
            false if self.condition.stands() => self.condition.clear(),
            false => {}
        }
    }
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
struct Overload {
    before: [Counts; Class::ALL.len()],
    asked: [Option<Moment>; Class::ALL.len()],
    wronged: [Option<Moment>; Class::ALL.len()],
    since: Option<Moment>,
}

impl Overload {
    /// Whether it is too much for everybody, and has been for long enough.
    fn look(&mut self, counts: [Counts; Class::ALL.len()], now: Moment) -> bool {
        let before = std::mem::replace(&mut self.before, counts);
        for (class, (was, is)) in before.iter().zip(&counts).enumerate() {
            if was.queued + was.busy < is.queued + is.busy {
                self.asked[class] = Some(now);
            }
            if was.inside_share < is.inside_share {
                self.wronged[class] = Some(now);
            }
        }
        let within = |at: Option<Moment>, time: Duration| at.is_some_and(|at| now.since(at) < time);
        let goes_on = self.wronged.iter().any(|at| within(*at, PAUSE));
        self.since = if goes_on { self.since.or(Some(now)) } else { None };
        let is_spared = |(asked, wronged)| within(asked, REMEMBERED) && !within(wronged, REMEMBERED);
        let spared = self.asked.iter().copied().zip(self.wronged).any(is_spared);
        !spared && self.since.is_some_and(|since| now.since(since) >= SUSTAINED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(250);

    /// Looks again and again while each class asks, and is wronged, as often as `each` says; returns every verdict.
    fn looks(overload: &mut Overload, from: Moment, times: u32, each: [(u64, u64); 3]) -> Vec<bool> {
        (1..=times)
            .map(|look| {
                let mut counts = overload.before;
                for (counts, (asked, wronged)) in counts.iter_mut().zip(each) {
                    counts.queued += asked;
                    counts.inside_share += wronged;
                }
                overload.look(counts, from.after(LOOK * look))
            })
            .collect()
    }

    #[test]
    fn it_takes_three_seconds_and_a_second_without_ends_it() {
        let (mut overload, began) = (Overload::default(), Moment::ORIGIN.after(SUSTAINED));
        let verdicts = looks(&mut overload, began, 16, [(5, 1), (0, 0), (0, 0)]);
        assert_eq!(verdicts.iter().position(|overloaded| *overloaded), Some(12), "{verdicts:?}");
        assert!(verdicts[12..].iter().all(|overloaded| *overloaded), "{verdicts:?}");
        let later = began.after(LOOK * 16);
        let verdicts = looks(&mut overload, later, 8, [(5, 0), (0, 0), (0, 0)]);
        assert_eq!(verdicts, [true, true, true, false, false, false, false, false]);
        let later = later.after(LOOK * 8);
        let verdicts = looks(&mut overload, later, 13, [(5, 1), (0, 0), (0, 0)]);
        assert_eq!(verdicts.iter().position(|overloaded| *overloaded), Some(12), "it begins anew");
    }

    #[test]
    fn refusals_of_those_who_ask_for_more_count_for_nothing() {
        let verdicts = looks(&mut Overload::default(), Moment::ORIGIN, 100, [(1000, 0), (1, 0), (0, 0)]);
        assert!(verdicts.iter().all(|overloaded| !overloaded), "{verdicts:?}");
    }

    #[test]
    fn a_class_for_which_there_is_enough_keeps_its_writes() {
        let mut overload = Overload::default();
        let mut now = Moment::ORIGIN;
        // Once in eight seconds somebody of another class asks, and is served.
        for _ in 0..4 {
            let seldom = looks(&mut overload, now, 1, [(50, 9), (1, 0), (0, 0)]);
            let verdicts = looks(&mut overload, now.after(LOOK), 31, [(50, 9), (0, 0), (0, 0)]);
            assert!(seldom.iter().chain(&verdicts).all(|overloaded| !overloaded), "{verdicts:?}");
            now = now.after(LOOK * 32);
        }
        let verdicts = looks(&mut overload, now, 20, [(50, 9), (0, 0), (0, 0)]);
        assert!(!verdicts[0] && verdicts[19], "not seen for ten seconds: {verdicts:?}");
    }

    #[test]
    fn when_every_class_is_wronged_it_is_too_much() {
        let verdicts = looks(&mut Overload::default(), Moment::ORIGIN, 20, [(50, 9), (5, 1), (0, 0)]);
        assert!(verdicts[19], "{verdicts:?}");
    }
}

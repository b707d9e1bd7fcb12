//! Whether there is too much to do for everybody: clients that have no place find none, for some time.
//!
//! A flood of some clients is not that: places are kept for those who have none.

use std::{sync::Arc, time::Duration};

use ron_kernel::{Scope, lock::Ranked, readiness::Effect};
use types::Moment;

use crate::{ingress::Ingress, locks};

/// How long it must last before readiness tells.
const SUSTAINED: Duration = Duration::from_secs(3);
/// A pause of this length ends it.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it has to be over before readiness is content.
const SETTLE: Duration = Duration::from_secs(3);

/// Has readiness tell of it, by what the door counts.
pub(crate) fn watch(scope: &Scope, ingress: &Arc<Ingress>) {
    let condition = scope.condition("overload", Effect::ShedWrites, SETTLE);
    let (clock, ingress) = (scope.clock(), Arc::clone(ingress));
    let overload = Ranked::new(&locks::OVERLOAD, Overload::default());
    scope.sampled(move || {
        let mut overload = overload.lock();
        match overload.look(ingress.turned_away(), clock.now()) {
            true => condition.raise("clients that have no request in progress are refused"),
            false if condition.stands() => condition.clear(),
            false => {}
        }
    });
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
struct Overload {
    /// How many were turned away up to the last look.
    before: u64,
    /// When somebody was turned away last.
    last: Option<Moment>,
    since: Option<Moment>,
}

impl Overload {
    /// Whether it is too much, and has been for long enough.
    fn look(&mut self, turned_away: u64, now: Moment) -> bool {
        if std::mem::replace(&mut self.before, turned_away) < turned_away {
            self.last = Some(now);
        }
        let goes_on = self.last.is_some_and(|last| now.since(last) < PAUSE);
        self.since = if goes_on { self.since.or(Some(now)) } else { None };
        self.since.is_some_and(|since| now.since(since) >= SUSTAINED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(250);

    /// What each look says while so many more are turned away before each.
    fn looks(overload: &mut Overload, first: u32, more: &[u64]) -> Vec<bool> {
        let mut at = first;
        let look = |more: &u64| {
            at += 1;
            overload.look(overload.before + more, Moment::ORIGIN.after(LOOK * at))
        };
        more.iter().map(look).collect()
    }

    #[test]
    fn it_takes_three_seconds_and_a_second_without_ends_it() {
        let mut overload = Overload::default();
        let verdicts = looks(&mut overload, 0, &[1; 16]);
        assert_eq!(verdicts.iter().position(|is_overload| *is_overload), Some(12), "{verdicts:?}");
        assert_eq!(looks(&mut overload, 16, &[0; 6]), [true, true, true, false, false, false]);
        let verdicts = looks(&mut overload, 22, &[1; 13]);
        assert_eq!(verdicts.iter().position(|is_overload| *is_overload), Some(12), "it begins anew");
    }

    #[test]
    fn some_that_are_turned_away_now_and_then_are_no_overload() {
        let mut overload = Overload::default();
        let seldom: Vec<u64> = (0..100).map(|look| u64::from(look % 5 == 0)).collect();
        assert!(looks(&mut overload, 0, &seldom).iter().all(|is_overload| !is_overload));
    }
}

//! When the thread that measures stood still: a machine that is shared takes its processors away for tens of
//! milliseconds, and what a stopped thread times then says nothing about the gateway.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ron_kernel::{Clock, Scope};
use types::Moment;

use super::{LOAD, pause};

/// How often the witness looks at the clock.
const LOOK: Duration = Duration::from_millis(2);
/// How late it may be before its thread is said to have stood still; timers are late by a millisecond or two anyway.
const STALL: Duration = Duration::from_millis(5);
/// Stalls that are kept; a machine with more is no place to measure anything, and the rest counts against the gateway.
const KEPT: usize = 1000;

/// A witness on the thread that measures, and what it saw.
#[derive(Debug)]
pub(super) struct Witness {
    seen: Arc<Mutex<Stalls>>,
}

/// The stretches of time in which a thread stood still.
#[derive(Clone, Debug, Default)]
pub(super) struct Stalls(Vec<(Moment, Moment)>);

impl Witness {
    /// Starts one on the first core, which sends nothing but what is measured, for so long.
    pub(super) fn start(scope: &Scope, lasts: Duration) -> Self {
        let seen = Arc::new(Mutex::new(Stalls::default()));
        let witness = watch(scope.clock(), lasts, Arc::clone(&seen));
        if let Some(core) = scope.planes().cores().first() {
            scope.children(&LOAD).spawn_on(core, witness);
        }
        Self { seen }
    }

    /// Returns the stalls seen so far.
    pub(super) fn stalls(&self) -> Stalls {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Stalls {
    /// Whether the thread stood still at some time from `since` on for so long.
    pub(super) fn touch(&self, since: Moment, took: Duration) -> bool {
        let until = since.after(took);
        self.0.iter().any(|(from, to)| *from < until && since < *to)
    }

    fn note(&mut self, from: Moment, to: Moment) {
        if to.since(from) > STALL && self.0.len() < KEPT {
            self.0.push((from, to));
        }
    }
}

async fn watch(clock: Clock, lasts: Duration, seen: Arc<Mutex<Stalls>>) {
    let end = clock.within(lasts);
    while !end.has_passed(clock.now()) {
        let due = clock.now().after(LOOK);
        pause(clock, types::Deadline::at(due)).await;
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.note(due, clock.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_millis(millis))
    }

    #[test]
    fn only_what_overlaps_a_stall_is_touched_by_it() {
        let mut stalls = Stalls::default();
        stalls.note(at(100), at(105));
        assert!(!stalls.touch(at(90), Duration::from_millis(50)), "timers are late by as much");
        stalls.note(at(200), at(240));
        assert!(!stalls.touch(at(180), Duration::from_millis(20)));
        assert!(stalls.touch(at(180), Duration::from_millis(21)));
        assert!(stalls.touch(at(239), Duration::from_millis(1)));
        assert!(!stalls.touch(at(240), Duration::from_millis(10)));
    }
}

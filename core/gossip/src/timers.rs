//! Everything the engine waits for, the earliest first.

use std::collections::BTreeSet;

use types::Moment;

/// What is waited for. Numbers are places in the engine's list of topics, and in a topic's list of publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Announcements of a topic have been gathered long enough.
    Announce(usize),
    /// The heartbeat of the topic with this index.
    Beat(usize),
    /// A topic's oldest publication without a verdict.
    Verdict(usize),
    /// This node's publications in a topic that it has not signed yet.
    Sign(usize),
    /// Topics that peers could not be told of.
    Tell,
    /// Missing publications of a publisher.
    Search(usize, usize),
}

/// One moment per timer at most.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    waiting: BTreeSet<(Moment, Timer)>,
}

impl Timers {
    /// Moves a timer whose owner remembers in `slot` when it is set to.
    pub(crate) fn set(&mut self, timer: Timer, slot: &mut Option<Moment>, at: Option<Moment>) {
        if *slot == at {
            return;
        }
        if let Some(before) = slot.take() {
            self.waiting.remove(&(before, timer));
        }
        if let Some(at) = at {
            self.waiting.insert((at, timer));
        }
        *slot = at;
    }

    /// Returns the time of the earliest timer.
    pub(crate) fn first(&self) -> Option<Moment> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// Takes out a timer whose moment has come. Its owner's slot still says when that was.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<Timer> {
        let due = self.waiting.first().filter(|(at, _)| *at <= now).copied()?;
        self.waiting.remove(&due);
        Some(due.1)
    }
}

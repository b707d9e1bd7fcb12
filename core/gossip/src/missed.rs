//! What one peer of a topic was to get and did not: owed while it is kept and can be asked for, then named, and only once.

use std::{collections::VecDeque, sync::Arc};

use oap::{MessageId, Topic};
use types::NodeId;

use crate::{
    event::{Action, Loss, LossReason, Queue},
    track::Origin,
};

/// Runs that are told apart. Beyond it the oldest of those owed are named, though they may still be asked for, and the
/// oldest of those named are forgotten.
const RUNS_MAX: usize = 64;

/// Publications of one publisher that share a fate, numbered from `from` to `to`.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    origin: Arc<Origin>,
    from: u64,
    to: u64,
    reason: LossReason,
}

/// Runs in the order they began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(VecDeque<Run>);

/// What one peer missed in one topic. Bounded by runs, not by publications.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missed {
    /// Not sent, and kept when last looked at.
    owed: Runs,
    /// Named, so as not to be named again.
    named: Runs,
}

impl Missed {
    /// Returns true if the peer is still owed a publication.
    pub(crate) fn owes(&self) -> bool {
        !self.owed.0.is_empty()
    }

    /// A publication that is kept was not sent. Returns what has to be named because there is no room to remember it.
    pub(crate) fn owe(&mut self, origin: &Arc<Origin>, seq: u64, reason: LossReason) -> Option<Run> {
        self.owed.add(origin, seq, reason);
        if self.owed.0.len() <= RUNS_MAX {
            return None;
        }
        let oldest = self.owed.0.pop_front()?;
        self.remember(oldest.clone());
        Some(oldest)
    }

    /// A publication is on its way after all.
    pub(crate) fn settle(&mut self, origin: &Origin, seq: u64) {
        self.owed.remove(origin.uid, seq);
    }

    /// A publication can never be sent; whether that is to be named now, because it was not before.
    pub(crate) fn name(&mut self, origin: &Arc<Origin>, seq: u64, reason: LossReason) -> bool {
        self.owed.remove(origin.uid, seq);
        if self.named.contains(origin.uid, seq) {
            return false;
        }
        self.named.add(origin, seq, reason);
        self.forget_oldest();
        true
    }

    /// Takes what is owed and not kept any more, to be named: the older part of each run, because the oldest go first.
    pub(crate) fn sweep(&mut self, is_kept: impl Fn(&Origin, u64) -> bool) -> Runs {
        let mut gone = Runs::default();
        for run in &mut self.owed.0 {
            let left = (run.from..=run.to).find(|seq| is_kept(&run.origin, *seq)).unwrap_or(run.to + 1);
            if left > run.from {
                gone.0.push_back(Run { to: left - 1, ..run.clone() });
                run.from = left;
            }
        }
        self.owed.0.retain(|run| run.from <= run.to);
        gone.0.iter().for_each(|run| self.remember(run.clone()));
        gone
    }

    /// Takes everything that is owed: the peer will not ask any more.
    pub(crate) fn take_owed(&mut self) -> Runs {
        std::mem::take(&mut self.owed)
    }

    fn remember(&mut self, run: Run) {
        self.named.0.push_back(run);
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        while self.named.0.len() > RUNS_MAX {
            self.named.0.pop_front();
        }
    }
}

impl Runs {
    /// Adds a number that is in none of the runs, to one that it continues or as a new one.
    pub(crate) fn add(&mut self, origin: &Arc<Origin>, seq: u64, reason: LossReason) {
        let same = |run: &&mut Run| run.origin.uid == origin.uid && run.reason == reason;
        // What comes now rarely continues what was there long ago.
        for run in self.0.iter_mut().rev().take(RUNS_MAX).filter(same) {
            if run.to + 1 == seq {
                run.to = seq;
                return;
            }
            if seq + 1 == run.from {
                run.from = seq;
                return;
            }
        }
        self.0.push_back(Run::one(origin, seq, reason));
    }

    /// One loss for each run.
    pub(crate) fn losses(self, topic: &Topic, peer: NodeId) -> impl Iterator<Item = Action> {
        self.0.into_iter().map(move |run| run.loss(topic, peer))
    }

    fn contains(&self, uid: u64, seq: u64) -> bool {
        self.0.iter().any(|run| run.has(uid, seq))
    }

    /// Takes a number out, which may leave a run in two.
    fn remove(&mut self, uid: u64, seq: u64) {
        let Some(at) = self.0.iter().position(|run| run.has(uid, seq)) else { return };
        let run = &mut self.0[at];
        match (run.from == seq, run.to == seq) {
            (true, true) => drop(self.0.remove(at)),
            (true, false) => run.from += 1,
            (false, true) => run.to -= 1,
            (false, false) => {
                let older = Run { to: seq - 1, ..run.clone() };
                run.from = seq + 1;
                self.0.insert(at, older);
            }
        }
    }
}

impl Run {
    /// Makes a run of one publication.
    pub(crate) fn one(origin: &Arc<Origin>, seq: u64, reason: LossReason) -> Self {
        Self { origin: Arc::clone(origin), from: seq, to: seq, reason }
    }

    /// Returns the run as a loss report.
    pub(crate) fn loss(self, topic: &Topic, peer: NodeId) -> Action {
        let Origin { publisher, incarnation, .. } = *self.origin;
        let queue = match self.reason {
            LossReason::Evicted => Queue::Cache,
            LossReason::Refused => Queue::PeerIngress,
            _ => Queue::Egress,
        };
        let id = MessageId { publisher, incarnation, topic: topic.clone(), seq: self.from };
        Action::Lost(Loss { id, last: self.to, queue, peer, reason: self.reason })
    }

    fn has(&self, uid: u64, seq: u64) -> bool {
        self.origin.uid == uid && (self.from..=self.to).contains(&seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(uid: u64) -> Arc<Origin> {
        Arc::new(Origin { publisher: NodeId::new([1; 32]), incarnation: 1, uid })
    }

    fn spans(runs: Runs) -> Vec<(u64, u64)> {
        runs.0.into_iter().map(|run| (run.from, run.to)).collect()
    }

    #[test]
    fn numbers_in_a_row_are_one_run_and_one_that_is_sent_leaves_two() {
        let (mut missed, of) = (Missed::default(), origin(1));
        (1..=9).for_each(|seq| assert!(missed.owe(&of, seq, LossReason::Budget).is_none()));
        missed.settle(&of, 4);
        missed.settle(&of, 9);
        assert_eq!(spans(missed.take_owed()), [(1, 3), (5, 8)]);
        assert!(!missed.owes());
    }

    #[test]
    fn what_is_not_kept_any_more_is_taken_once_and_the_rest_stays_owed() {
        let (mut missed, of) = (Missed::default(), origin(1));
        (1..=9).for_each(|seq| assert!(missed.owe(&of, seq, LossReason::Full).is_none()));
        assert_eq!(spans(missed.sweep(|_, seq| seq > 6)), [(1, 6)]);
        assert_eq!(spans(missed.sweep(|_, seq| seq > 6)), []);
        assert!(!missed.name(&of, 6, LossReason::Evicted), "named already");
        assert!(missed.name(&of, 7, LossReason::Evicted));
        assert_eq!(spans(missed.take_owed()), [(8, 9)]);
    }

    #[test]
    fn beyond_the_most_runs_the_oldest_is_named_early() {
        let (mut missed, of) = (Missed::default(), origin(1));
        let odd = |number: usize| number as u64 * 2 + 1;
        for number in 0..RUNS_MAX {
            assert!(missed.owe(&of, odd(number), LossReason::Budget).is_none(), "{number}");
        }
        let named = missed.owe(&of, odd(RUNS_MAX), LossReason::Budget).expect("one too many");
        assert_eq!((named.from, named.to), (1, 1));
        assert!(!missed.name(&of, 1, LossReason::Evicted), "named already");
    }
}

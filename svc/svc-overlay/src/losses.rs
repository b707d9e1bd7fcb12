//! The loss report: what was given up, by whom and why, bounded, newest last.

use std::{collections::VecDeque, time::Duration};

use oap::MessageId;
use ron_kernel::{Clock, Scope, lock::Ranked, topology::LockSpec};
use types::NodeId;

use crate::metrics::OverlayMetrics;

/// Entries that are kept; older ones are only counted.
pub(crate) const KEPT: usize = 4096;

/// The report's lock.
pub(crate) const METRICS_BUFFER: LockSpec = LockSpec {
    name: "metrics_buffer",
    rank: 30,
    doc: "the loss report: written when something is lost, read by operators; held for one push or one copy",
};

/// Why publications do not get through.
pub(crate) const REASONS: [&str; 13] = [
    "busy",
    "backpressure",
    "closed",
    "quota",
    "lagging",
    "full",
    "budget",
    "refused",
    "evicted",
    "mismatch",
    "forged",
    "not_subscribed",
    "publishers",
];

/// One entry of the report.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Its number, from one; a reader that sees a jump knows how many it missed.
    pub number: u64,
    /// Unix time.
    pub at: Duration,
    /// What was lost.
    pub id: MessageId,
    /// Where: the queue's name.
    pub queue: &'static str,
    /// On the way to or from whom; [`None`] if to a subscriber of this node.
    pub peer: Option<NodeId>,
    /// Why.
    pub reason: &'static str,
}

/// The report of a node.
#[derive(Debug)]
pub(crate) struct LossReport {
    clock: Clock,
    metrics: OverlayMetrics,
    entries: Ranked<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    last_number: u64,
    kept: VecDeque<Loss>,
}

impl LossReport {
    pub(crate) fn new(scope: &Scope, metrics: OverlayMetrics) -> Self {
        Self { clock: scope.clock(), metrics, entries: scope.lock(&METRICS_BUFFER, Entries::default()) }
    }

    /// Writes a loss down and counts it.
    pub(crate) fn add(&self, id: MessageId, queue: &'static str, peer: Option<NodeId>, reason: &'static str) {
        self.metrics.lost(reason);
        let at = self.clock.unix();
        let mut entries = self.entries.lock();
        entries.last_number += 1;
        let number = entries.last_number;
        let oldest = if entries.kept.len() == KEPT { entries.kept.pop_front() } else { None };
        entries.kept.push_back(Loss { number, at, id, queue, peer, reason });
        drop(entries);
        drop(oldest);
    }

    /// How many there were, and those of them that are kept and have a higher number than `after`, oldest first.
    pub(crate) fn since(&self, after: u64) -> (u64, Vec<Loss>) {
        let entries = self.entries.lock();
        let newer = entries.kept.iter().filter(|loss| loss.number > after).cloned().collect();
        (entries.last_number, newer)
    }
}

//! The loss report: what was given up, by whom and why, bounded, newest last; and how much of it in all, by peer and topic.
//!
//! Its room is shared by peer. A peer that causes losses without end displaces its own entries, and not those of others.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use oap::{MessageId, Topic};
use ron_kernel::{Clock, Scope, lock::Ranked, topology::LockSpec};
use types::NodeId;

use crate::{
    gossip::Gap,
    metrics::OverlayMetrics,
    toll::{Party, Toll},
};

/// Entries that are kept. Beyond it, the oldest one of the peer that has the most is only counted.
pub(crate) const KEPT: usize = 4096;

/// Gaps that are kept; older ones are only counted, in `overlay_gaps_total`.
pub(crate) const KEPT_GAPS: usize = 1024;

/// The latest entries of a peer: one of them grows by what follows it in number and has the same fate.
const LATEST: usize = 16;

/// Sums that are kept, each of a peer, a topic and a reason. Beyond it, of the peer that has the most, the one that did not grow
/// for the longest is added to the others.
pub(crate) const SUMS: usize = 1024;

/// The lock of the loss report.
pub(crate) const METRICS_BUFFER: LockSpec = LockSpec {
    name: "metrics_buffer",
    rank: 30,
    doc: "the loss report: written when something is lost, read by operators; held for one push or one copy",
};

/// Why publications do not get through.
pub(crate) const REASONS: [&str; 15] = [
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
    "unproven",
    "unlisted",
    "unsigned",
];

/// One entry of the report: publications of one publisher, numbered in a row.
#[derive(Clone, Debug)]
pub struct Loss {
    /// How many publications were lost up to this entry's last one. An entry that grows has a new number, so a reader that
    /// asks for what is behind the highest it has seen gets it again.
    pub number: u64,
    /// When the first was lost, in Unix time.
    pub at: Duration,
    /// The first that was lost.
    pub id: MessageId,
    /// The number of the last one.
    pub last: u64,
    /// The name of the queue that lost them.
    pub queue: &'static str,
    /// On the way to or from whom; [`None`] if to a subscriber of this node.
    pub peer: Option<NodeId>,
    /// The reason for the loss.
    pub reason: &'static str,
}

/// How many publications were lost for one peer in one topic, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossSum {
    /// On the way to or from whom; [`None`] if to a subscriber of this node.
    pub peer: Option<NodeId>,
    /// The topic of the lost publications.
    pub topic: Topic,
    /// The reason for the loss.
    pub reason: &'static str,
    /// Number of lost publications.
    pub count: u64,
}

/// A gap that subscribers here were told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedGap {
    /// Unix time of the gap.
    pub at: Duration,
    /// The missing publications and the reason.
    pub gap: Gap,
}

/// How many publications were lost in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossSums {
    /// Totals by peer, topic and reason.
    pub sums: Vec<LossSum>,
    /// Those of sums that made way for others.
    pub others: u64,
}

impl Loss {
    /// Returns the number of publications in the run.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.last.saturating_sub(self.id.seq).saturating_add(1)
    }

    fn continues(&self, earlier: &Self) -> bool {
        let fate = |loss: &Self| (loss.peer, loss.queue, loss.reason, loss.id.publisher, loss.id.incarnation);
        earlier.last.checked_add(1) == Some(self.id.seq)
            && fate(self) == fate(earlier)
            && self.id.topic == earlier.id.topic
    }
}

/// The report of a node.
#[derive(Debug)]
pub(crate) struct LossReport {
    clock: Clock,
    metrics: OverlayMetrics,
    entries: Ranked<Entries>,
    toll: Arc<Toll>,
}

#[derive(Debug, Default)]
struct Entries {
    last_number: u64,
    /// By peer; none is empty.
    kept: BTreeMap<Option<NodeId>, VecDeque<Loss>>,
    /// How many each peer has; the last one makes way.
    by_count: BTreeSet<(usize, Option<NodeId>)>,
    count: usize,
    gaps: VecDeque<NamedGap>,
    sums: BTreeMap<SumKey, Sum>,
    others: u64,
}

/// The peer, the topic and the reason.
type SumKey = (Option<NodeId>, Topic, &'static str);

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    /// The report's number when it last grew.
    grew: u64,
}

impl LossReport {
    pub(crate) fn new(scope: &Scope, metrics: OverlayMetrics) -> Self {
        let entries = scope.lock(&METRICS_BUFFER, Entries::default());
        Self { clock: scope.clock(), metrics, entries, toll: Toll::new(scope.shutdown().clone()) }
    }

    /// For somebody who may have losses to report: a drain is not over before it goes.
    pub(crate) fn party(&self) -> Party {
        self.toll.party()
    }

    /// Writes the loss of one publication down and counts it.
    pub(crate) fn add(&self, id: MessageId, queue: &'static str, peer: Option<NodeId>, reason: &'static str) {
        let last = id.seq;
        self.add_run(id, last, queue, peer, reason);
    }

    /// Writes the loss of publications down, from the number of `id` to `last`, and counts them.
    pub(crate) fn add_run(
        &self,
        id: MessageId,
        last: u64,
        queue: &'static str,
        peer: Option<NodeId>,
        reason: &'static str,
    ) {
        self.write_down(Loss { number: 0, at: self.clock.unix(), id, last, queue, peer, reason }, 1);
    }

    /// Writes down that so many subscribers of this node did not get a publication: one entry, however many they are.
    pub(crate) fn add_lagging(&self, id: MessageId, queue: &'static str, subscribers: u64) {
        let (at, last) = (self.clock.unix(), id.seq);
        self.write_down(Loss { number: 0, at, id, last, queue, peer: None, reason: "lagging" }, subscribers);
    }

    /// Keeps a loss that happened to `times` receivers.
    fn write_down(&self, mut loss: Loss, times: u64) {
        let count = loss.count().saturating_mul(times);
        self.metrics.lost(loss.reason, count);
        self.toll.add(&loss.id.topic, count);
        let mut entries = self.entries.lock();
        entries.last_number = entries.last_number.saturating_add(count);
        loss.number = entries.last_number;
        entries.sum_up(&loss, count);
        let oldest = entries.keep(loss);
        drop(entries);
        drop(oldest);
    }

    /// Keeps a gap that subscribers here are told of.
    pub(crate) fn add_gap(&self, gap: &Gap) {
        let named = NamedGap { at: self.clock.unix(), gap: gap.clone() };
        let mut entries = self.entries.lock();
        let oldest = if entries.gaps.len() == KEPT_GAPS { entries.gaps.pop_front() } else { None };
        entries.gaps.push_back(named);
        drop(entries);
        drop(oldest);
    }

    /// The gaps that are kept, oldest first.
    pub(crate) fn gaps(&self) -> Vec<NamedGap> {
        self.entries.lock().gaps.iter().cloned().collect()
    }

    /// How many there were, and those of them that are kept and have a higher number than `after`, oldest first.
    pub(crate) fn since(&self, after: u64) -> (u64, Vec<Loss>) {
        let entries = self.entries.lock();
        let kept = entries.kept.values().flatten();
        let mut newer: Vec<Loss> = kept.filter(|loss| loss.number > after).cloned().collect();
        let last_number = entries.last_number;
        drop(entries);
        newer.sort_unstable_by_key(|loss| loss.number);
        (last_number, newer)
    }

    /// How many were lost in all, by peer, topic and reason.
    pub(crate) fn sums(&self) -> LossSums {
        let entries = self.entries.lock();
        let sums = entries.sums.iter().map(|(&(peer, ref topic, reason), sum)| LossSum {
            peer,
            topic: topic.clone(),
            reason,
            count: sum.count,
        });
        LossSums { sums: sums.collect(), others: entries.others }
    }
}

impl Entries {
    /// Keeps a loss, as a part of the one that it continues or for itself; returns what makes way.
    fn keep(&mut self, loss: Loss) -> Option<Loss> {
        let peer = loss.peer;
        let of_peer = self.kept.entry(peer).or_default();
        let continued = of_peer.iter_mut().rev().take(LATEST).find(|earlier| loss.continues(earlier));
        if let Some(earlier) = continued {
            (earlier.last, earlier.number) = (loss.last, loss.number);
            return Some(loss);
        }
        of_peer.push_back(loss);
        let count = of_peer.len();
        self.recount(peer, count - 1, count);
        self.count += 1;
        if self.count > KEPT { self.drop_oldest() } else { None }
    }

    /// Drops the oldest entry of the peer that has the most.
    fn drop_oldest(&mut self) -> Option<Loss> {
        let (count, peer) = self.by_count.last().copied()?;
        let of_peer = self.kept.get_mut(&peer)?;
        let oldest = of_peer.pop_front()?;
        if of_peer.is_empty() {
            self.kept.remove(&peer);
        }
        self.recount(peer, count, count - 1);
        self.count -= 1;
        Some(oldest)
    }

    fn recount(&mut self, peer: Option<NodeId>, before: usize, after: usize) {
        self.by_count.remove(&(before, peer));
        if after > 0 {
            self.by_count.insert((after, peer));
        }
    }

    fn sum_up(&mut self, loss: &Loss, count: u64) {
        let key = (loss.peer, loss.id.topic.clone(), loss.reason);
        if self.sums.len() >= SUMS && !self.sums.contains_key(&key) {
            let made_way = self.quietest().and_then(|key| self.sums.remove(&key));
            self.others = self.others.saturating_add(made_way.map_or(0, |sum| sum.count));
        }
        let sum = self.sums.entry(key).or_default();
        sum.count = sum.count.saturating_add(count);
        sum.grew = loss.number;
    }

    /// Of the peer that has the most sums, the one that did not grow for the longest.
    fn quietest(&self) -> Option<SumKey> {
        let mut counts = BTreeMap::<Option<NodeId>, usize>::new();
        self.sums.keys().for_each(|(peer, ..)| *counts.entry(*peer).or_default() += 1);
        let rank = |((peer, ..), sum): &(&SumKey, &Sum)| (Reverse(counts.get(peer).copied()), sum.grew);
        self.sums.iter().min_by_key(rank).map(|(key, _)| key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(peer: u64, seq: u64, last: u64) -> Loss {
        let topic = Topic::new("news").expect("a good name");
        let mut node = [0; 32];
        node[..8].copy_from_slice(&peer.to_be_bytes());
        let peer = NodeId::new(node);
        let id = MessageId { publisher: peer, incarnation: 1, topic, seq };
        Loss {
            number: seq,
            at: Duration::ZERO,
            id,
            last,
            queue: "gossip_egress",
            peer: Some(peer),
            reason: "full",
        }
    }

    #[test]
    fn losses_in_a_row_are_one_entry_and_of_entries_the_oldest_goes() {
        let mut entries = Entries::default();
        for (peer, seq) in [(1, 1), (2, 7), (1, 2), (1, 3), (2, 9)] {
            entries.keep(loss(peer, seq, seq));
        }
        let spans: Vec<_> =
            entries.kept.values().flatten().map(|loss| (loss.id.seq, loss.last, loss.number)).collect();
        assert_eq!(spans, [(1, 3, 3), (7, 7, 7), (9, 9, 9)]);
        (10..KEPT as u64 * 2).for_each(|number| drop(entries.keep(loss(number, number, number))));
        assert_eq!((entries.kept.values().map(VecDeque::len).sum::<usize>(), entries.count), (KEPT, KEPT));
    }

    #[test]
    fn a_peer_with_losses_without_end_displaces_its_own_entries_and_sums_alone() {
        let mut entries = Entries::default();
        for peer in 1..=100 {
            let lost = loss(peer, 5, 5);
            entries.sum_up(&lost, 1);
            entries.keep(lost);
        }
        for number in 0..KEPT as u64 * 3 {
            let mut lost = loss(7, number * 2 + 100, number * 2 + 100);
            lost.id.topic = Topic::new(&format!("junk/{number}")).expect("a good name");
            entries.sum_up(&lost, 1);
            entries.keep(lost);
        }
        let named = |peer: u64| {
            entries.kept.values().flatten().any(|it| it.id.seq == 5 && it.peer == loss(peer, 5, 5).peer)
        };
        assert!((1..=100).all(|peer| peer == 7 || named(peer)));
        assert_eq!((entries.count, entries.sums.len()), (KEPT, SUMS));
        let honest = entries.sums.keys().filter(|(peer, ..)| *peer != loss(7, 5, 5).peer).count();
        assert_eq!(honest, 99);
        assert_eq!(entries.others + SUMS as u64, KEPT as u64 * 3 + 100);
    }

    #[test]
    fn the_highest_number_there_is_continues_nothing_and_is_continued_by_nothing() {
        let mut entries = Entries::default();
        for seq in [u64::MAX, 1, u64::MAX - 1, u64::MAX, 0] {
            let lost = loss(1, seq, seq);
            entries.sum_up(&lost, 1);
            entries.keep(lost);
        }
        let spans: Vec<_> = entries.kept.values().flatten().map(|loss| (loss.id.seq, loss.last)).collect();
        let last = u64::MAX;
        assert_eq!(spans, [(last, last), (1, 1), (last - 1, last), (0, 0)]);
    }

    #[test]
    fn sums_are_kept_by_peer_and_beyond_the_most_the_quietest_makes_way() {
        let mut entries = Entries::default();
        for peer in 0..SUMS as u64 {
            entries.sum_up(&loss(peer, peer * 10 + 1, peer * 10 + 5), 5);
        }
        entries.sum_up(&loss(0, 100_000, 100_001), 2);
        assert_eq!((entries.sums.len(), entries.others), (SUMS, 0));
        entries.sum_up(&loss(SUMS as u64, 200_000, 200_000), 1);
        // The first one grew meanwhile, so the second makes way.
        assert_eq!((entries.sums.len(), entries.others), (SUMS, 5));
        let total: u64 = entries.sums.values().map(|sum| sum.count).sum();
        assert_eq!(total + entries.others, SUMS as u64 * 5 + 2 + 1);
    }
}

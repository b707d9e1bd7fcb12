//! How much work a peer may cause by what it says: signatures that are checked, publications that are looked up, publishers that
//! make room for others, and heads that it is told when it joins a topic.

use std::{collections::VecDeque, time::Duration};

use types::{Moment, NodeId};

/// Signatures of heads that are checked for one peer in a second; half a core's work would be some ten times as many.
const CHECKS: u32 = 1024;
/// Publications that one peer may ask for in a second.
const LOOKUPS: u32 = 4096;
/// Publishers that make room in a second for those that one peer tells of; to find one costs a look at all.
const EVICTIONS: u32 = 16;
/// Heads that one peer is told in a second because it joins topics, in units of [`HEADS_PER_UNIT`]; each topic counts for one more.
const TELLINGS: u32 = 256;
/// Heads that count for as much as a topic.
const HEADS_PER_UNIT: usize = 64;
/// So many seconds of each may be used at once.
const SECONDS_AT_ONCE: u32 = 4;
/// Peers that have gone and are remembered, at most; about 100 bytes each.
const DEPARTED_MAX: usize = 1024;

/// What is left to one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    checks: Allowance,
    lookups: Allowance,
    evictions: Allowance,
    tellings: Allowance,
}

/// A number that is used up and grows back.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    rate: u32,
    left: u32,
    /// Up to when it has grown.
    at: Moment,
}

impl Effort {
    /// All of it, for a peer that has come now.
    pub(crate) fn new(now: Moment) -> Self {
        let whole = |rate| Allowance { rate, left: rate * SECONDS_AT_ONCE, at: now };
        Self {
            checks: whole(CHECKS),
            lookups: whole(LOOKUPS),
            evictions: whole(EVICTIONS),
            tellings: whole(TELLINGS),
        }
    }

    /// Whether all of it has grown back, whatever was used.
    fn is_whole(&self, now: Moment) -> bool {
        let time = Duration::from_secs(SECONDS_AT_ONCE.into());
        [&self.checks, &self.lookups, &self.evictions, &self.tellings]
            .iter()
            .all(|it| now.since(it.at) >= time)
    }

    /// Whether another signature may be checked for this peer.
    pub(crate) fn take_check(&mut self, now: Moment) -> bool {
        self.checks.take(1, now) == 1
    }

    /// Whether another publisher may make room for one that this peer tells of.
    pub(crate) fn take_eviction(&mut self, now: Moment) -> bool {
        self.evictions.take(1, now) == 1
    }

    /// Whether this peer, which joins a topic, may be told so many heads at once.
    pub(crate) fn take_telling(&mut self, heads: usize, now: Moment) -> bool {
        let cost = u32::try_from(heads / HEADS_PER_UNIT).unwrap_or(u32::MAX).saturating_add(1);
        self.tellings.take(cost, now) == cost
    }

    /// How many of the publications that this peer asks for are looked up.
    pub(crate) fn take_lookups(&mut self, wanted: usize, now: Moment) -> usize {
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        self.lookups.take(wanted, now) as usize
    }
}

/// What was left to peers that have gone, oldest first: one that comes back has no more than that and what has grown since.
#[derive(Debug, Default)]
pub(crate) struct Departed(VecDeque<(NodeId, Effort)>);

impl Departed {
    /// A peer goes.
    pub(crate) fn add(&mut self, node: NodeId, left: Effort) {
        if self.0.len() == DEPARTED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((node, left));
    }

    /// What is left to a peer that comes. Those who have all of it again are forgotten.
    pub(crate) fn take(&mut self, node: NodeId, now: Moment) -> Option<Effort> {
        self.0.retain(|(_, left)| !left.is_whole(now));
        let at = self.0.iter().rposition(|(who, _)| *who == node)?;
        self.0.remove(at).map(|(_, left)| left)
    }
}

impl Allowance {
    /// Takes as much of this as is left.
    fn take(&mut self, wanted: u32, now: Moment) -> u32 {
        let step = Duration::from_secs(1) / self.rate;
        let grown = now.since(self.at).as_nanos() / step.as_nanos().max(1);
        if grown > 0 {
            let grown = u32::try_from(grown).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(grown).min(self.rate * SECONDS_AT_ONCE);
            self.at = now;
        }
        let taken = wanted.min(self.left);
        self.left -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_grows_back_and_no_further_than_it_was() {
        let start = Moment::ORIGIN.after(Duration::from_secs(9));
        let mut effort = Effort::new(start);
        let whole = (CHECKS * SECONDS_AT_ONCE) as usize;
        assert_eq!((0..whole + 9).filter(|_| effort.take_check(start)).count(), whole);
        let later = start.after(Duration::from_secs(1));
        let grown = (0..whole).filter(|_| effort.take_check(later)).count();
        assert!(grown.abs_diff(CHECKS as usize) <= 1, "{grown}");
        let much_later = later.after(Duration::from_secs(3600));
        assert_eq!((0..whole * 2).filter(|_| effort.take_check(much_later)).count(), whole);
        assert_eq!(effort.take_lookups(10, start), 10, "either has its own");
        assert_eq!(effort.take_lookups(1 << 20, start), (LOOKUPS * SECONDS_AT_ONCE) as usize - 10);
    }

    #[test]
    fn a_peer_that_comes_back_has_what_was_left_to_it() {
        let (start, node) =
            (Moment::ORIGIN.after(Duration::from_secs(9)), |number| NodeId::new([number; 32]));
        let (mut departed, mut used_up) = (Departed::default(), Effort::new(start));
        while used_up.take_check(start) {}
        departed.add(node(1), used_up);
        assert!(departed.take(node(2), start).is_none());
        let mut back = departed.take(node(1), start).expect("it was here");
        assert!(!back.take_check(start) && departed.take(node(1), start).is_none());
        departed.add(node(1), back);
        let later = start.after(Duration::from_secs(SECONDS_AT_ONCE.into()));
        assert!(departed.take(node(1), later).is_none() && departed.0.is_empty(), "it has all of it again");
        (0..=DEPARTED_MAX).for_each(|_| departed.add(node(3), used_up));
        assert_eq!(departed.0.len(), DEPARTED_MAX);
    }
}

//! Patterns of topics that peers want to hear of, and what each peer is told of them: a pattern is passed on from node to node,
//! with one link less each time, so that it ends even where nodes form a ring.

use std::collections::{BTreeMap, BTreeSet};

use oap::{PATTERNS_MAX, WantedPattern};
use topics::Pattern;

use crate::event::PeerKey;

/// Patterns of peers that topics are compared with; beyond it, each peer has as many as the others.
const ACTIVE_MAX: usize = 256;
/// Patterns of all peers that are considered for passing on. No peer is told its own, of which it has at most
/// [`PATTERNS_MAX`], so that as many are left for each of them.
const PASSED_ON_MAX: usize = 2 * PATTERNS_MAX;

/// Patterns, each with how many links it may still be passed on over.
type Wanted = BTreeMap<Box<str>, u8>;

/// The patterns of peers.
#[derive(Debug, Default)]
pub struct PeerPatterns {
    theirs: BTreeMap<PeerKey, Wanted>,
    /// Those that topics are compared with, and the peers that want them.
    active: BTreeMap<Box<str>, BTreeSet<PeerKey>>,
    /// What each peer was told last.
    told: BTreeMap<PeerKey, Wanted>,
}

/// What all peers are told, except that none is told its own: made once for all of them, because a node may have thousands.
#[derive(Debug)]
pub struct Announcement {
    /// Patterns of subscribers of this node.
    here: Wanted,
    /// Patterns of peers, in the order in which they are passed on.
    passed_on: Vec<PassedOn>,
}

/// A pattern of peers.
#[derive(Debug)]
struct PassedOn {
    pattern: Box<str>,
    /// The peer that wants it over the most links, and over how many it is passed on.
    first: (PeerKey, u8),
    /// Over how many links it is passed on for the others; zero if there are none.
    others: u8,
}

impl PassedOn {
    /// Over how many links a peer is told to pass it on; none if nobody else wants it.
    fn hops_for(&self, peer: PeerKey) -> Option<u8> {
        let (first, hops) = self.first;
        Some(if first == peer { self.others } else { hops }).filter(|hops| *hops > 0)
    }

    fn add(&mut self, peer: PeerKey, hops: u8) {
        if hops > self.first.1 {
            self.others = self.first.1;
            self.first = (peer, hops);
        } else {
            self.others = self.others.max(hops);
        }
    }
}

impl PeerPatterns {
    /// A peer wants these from now on, and no others. Whether that changes anything.
    pub fn hear(&mut self, peer: PeerKey, list: Vec<WantedPattern>) -> bool {
        let wanted: Wanted = list.into_iter().map(|wanted| (wanted.pattern, wanted.hops)).collect();
        if self.theirs.get(&peer).unwrap_or(&Wanted::new()) == &wanted {
            return false;
        }
        self.theirs.insert(peer, wanted);
        true
    }

    /// A peer has gone. Whether that changes anything.
    pub fn gone(&mut self, peer: PeerKey) -> bool {
        self.told.remove(&peer);
        self.theirs.remove(&peer).is_some_and(|wanted| !wanted.is_empty())
    }

    /// Chooses those that topics are compared with: takes from each peer in turn, until there are enough. Not for every change:
    /// it looks at all of them.
    pub fn choose(&mut self) {
        self.active.clear();
        let mut lists: Vec<_> = self.theirs.iter().map(|(peer, wanted)| (*peer, wanted.keys())).collect();
        for _ in 0..PATTERNS_MAX {
            for (peer, patterns) in &mut lists {
                let Some(pattern) = patterns.next() else { continue };
                if let Some(peers) = self.active.get_mut(pattern) {
                    peers.insert(*peer);
                } else if self.active.len() < ACTIVE_MAX {
                    self.active.insert(pattern.clone(), BTreeSet::from([*peer]));
                }
            }
        }
    }

    /// Returns true if a peer wants to hear of a topic, by those that were chosen.
    #[must_use]
    pub fn mean(&self, topic: &str) -> bool {
        self.active.keys().any(|text| matches(text, topic))
    }

    /// The peers that want to hear of a topic, by those that were chosen.
    #[must_use]
    pub fn wanters(&self, topic: &str) -> Vec<PeerKey> {
        let meant = self.active.iter().filter(|(text, _)| matches(text, topic));
        let peers: BTreeSet<PeerKey> = meant.flat_map(|(_, peers)| peers.iter().copied()).collect();
        peers.into_iter().collect()
    }

    /// What peers are to be told: what is wanted here, for `hops` links, and what other peers want, for one link less than they
    /// say and than what is wanted here. If there are too many, what is wanted here comes first, and then one of each peer in
    /// turn, those for the most links first.
    #[must_use]
    pub fn announcement<'a>(&self, here: impl IntoIterator<Item = &'a str>, hops: u8) -> Announcement {
        let here = here.into_iter().take(PATTERNS_MAX).map(|pattern| (pattern.into(), hops)).collect();
        Announcement { here, passed_on: self.passed_on(hops.saturating_sub(1).max(1)) }
    }

    /// Patterns of peers with a link less each, at most `most` of them: one of each peer in turn.
    fn passed_on(&self, most: u8) -> Vec<PassedOn> {
        let mut lists: Vec<_> = self
            .theirs
            .iter()
            .map(|(peer, wanted)| {
                let mut left: Vec<(&str, u8)> = wanted
                    .iter()
                    .filter(|(_, left)| **left > 1)
                    .map(|(text, left)| (&**text, *left))
                    .collect();
                left.sort_by_key(|(_, left)| std::cmp::Reverse(*left));
                (*peer, left.into_iter())
            })
            .collect();
        let (mut list, mut places) = (Vec::<PassedOn>::new(), BTreeMap::<&str, usize>::new());
        for _ in 0..PATTERNS_MAX {
            for (peer, left) in &mut lists {
                let Some((text, left)) = left.next() else { continue };
                let hops = (left - 1).min(most);
                if let Some(at) = places.get(text) {
                    list[*at].add(*peer, hops);
                } else if list.len() < PASSED_ON_MAX {
                    places.insert(text, list.len());
                    list.push(PassedOn { pattern: text.into(), first: (*peer, hops), others: 0 });
                }
            }
        }
        list
    }

    /// What a peer is to be told of an announcement; [`None`] if it knows, unless it is to be told `again`.
    pub fn news_for(
        &mut self,
        peer: PeerKey,
        news: &Announcement,
        again: bool,
    ) -> Option<Vec<WantedPattern>> {
        let wanted = news.to(peer);
        let known = self.told.get(&peer).filter(|known| !known.is_empty());
        let is_news = known.map_or(!wanted.is_empty(), |known| again || *known != wanted);
        if !is_news {
            return None;
        }
        self.told.insert(peer, wanted.clone());
        Some(wanted.into_iter().map(|(pattern, hops)| WantedPattern { pattern, hops }).collect())
    }

    /// Returns true if a peer was told of any.
    #[must_use]
    pub fn are_told(&self) -> bool {
        self.told.values().any(|wanted| !wanted.is_empty())
    }
}

impl Announcement {
    /// What one peer is told.
    fn to(&self, peer: PeerKey) -> Wanted {
        let mut wanted = self.here.clone();
        for passed_on in &self.passed_on {
            let Some(hops) = passed_on.hops_for(peer) else { continue };
            if let Some(present) = wanted.get_mut(&passed_on.pattern) {
                *present = (*present).max(hops);
            } else if wanted.len() < PATTERNS_MAX {
                wanted.insert(passed_on.pattern.clone(), hops);
            }
        }
        wanted
    }
}

fn matches(pattern: &str, topic: &str) -> bool {
    Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(texts: &[(&str, u8)]) -> Vec<WantedPattern> {
        texts.iter().map(|(text, hops)| WantedPattern { pattern: (*text).into(), hops: *hops }).collect()
    }

    fn news(patterns: &mut PeerPatterns, peer: u32, here: &[&str]) -> Option<Vec<WantedPattern>> {
        let announcement = patterns.announcement(here.iter().copied(), 4);
        patterns.news_for(PeerKey(peer), &announcement, false)
    }

    #[test]
    fn what_peers_want_is_compared_with_topics_until_they_want_it_no_more() {
        let mut patterns = PeerPatterns::default();
        assert!(!patterns.hear(PeerKey(1), Vec::new()) && !patterns.mean("metrics.db"));
        assert!(patterns.hear(PeerKey(1), wanted(&[("metrics.>", 2)])));
        assert!(!patterns.hear(PeerKey(1), wanted(&[("metrics.>", 2)])), "nothing new");
        assert!(patterns.hear(PeerKey(2), wanted(&[("news.*", 1)])));
        patterns.choose();
        assert!(patterns.mean("metrics.db") && patterns.mean("news.eu") && !patterns.mean("news"));
        assert!(patterns.hear(PeerKey(3), wanted(&[(">", 1)])));
        patterns.choose();
        assert_eq!(patterns.wanters("metrics.db"), [PeerKey(1), PeerKey(3)]);
        assert!(patterns.gone(PeerKey(3)));
        patterns.choose();
        assert!(patterns.gone(PeerKey(1)) && !patterns.gone(PeerKey(1)));
        patterns.choose();
        assert!(!patterns.mean("metrics.db") && patterns.mean("news.eu"));
        assert!(patterns.hear(PeerKey(2), Vec::new()));
        patterns.choose();
        assert!(!patterns.mean("news.eu"));
    }

    #[test]
    fn a_peer_is_told_what_others_want_with_a_link_less_and_only_what_is_new() {
        let mut patterns = PeerPatterns::default();
        patterns.hear(PeerKey(1), wanted(&[("a.>", 3), ("b.>", 1)]));
        patterns.hear(PeerKey(2), wanted(&[("a.>", 2), ("c.>", 8)]));
        assert_eq!(news(&mut patterns, 3, &["d.>"]), Some(wanted(&[("a.>", 2), ("c.>", 3), ("d.>", 4)])));
        assert_eq!(news(&mut patterns, 3, &["d.>"]), None);
        assert_eq!(news(&mut patterns, 1, &[]), Some(wanted(&[("a.>", 1), ("c.>", 3)])), "not its own");
        let again = patterns.announcement([], 4);
        assert_eq!(patterns.news_for(PeerKey(1), &again, true), Some(wanted(&[("a.>", 1), ("c.>", 3)])));
        patterns.gone(PeerKey(2));
        assert_eq!(news(&mut patterns, 1, &[]), Some(Vec::new()), "it is told that nothing is left");
        assert_eq!(news(&mut patterns, 1, &[]), None);
    }

    #[test]
    fn one_peer_with_many_patterns_keeps_nobody_elses_out() {
        let mut patterns = PeerPatterns::default();
        for peer in 0..20 {
            let many: Vec<String> =
                (0..PATTERNS_MAX).map(|number| format!("p{peer}.n{number:02}.*")).collect();
            let many: Vec<_> = many.iter().map(|text| (text.as_str(), 4)).collect();
            patterns.hear(PeerKey(peer), wanted(&many));
        }
        patterns.hear(PeerKey(99), wanted(&[("quiet.*", 4)]));
        patterns.choose();
        assert_eq!(patterns.active.len(), ACTIVE_MAX);
        assert!(patterns.mean("quiet.one") && (0..20).all(|peer| patterns.mean(&format!("p{peer}.n00.x"))));
        let told = news(&mut patterns, 5, &["here.>"]).unwrap_or_default();
        assert_eq!(told.len(), PATTERNS_MAX);
        assert!(told.iter().any(|wanted| &*wanted.pattern == "here.>"), "this node's own come first");
        assert!(told.iter().any(|wanted| &*wanted.pattern == "quiet.*"), "then one of each peer");
        // One that asks for as many links as there may be comes before nobody.
        let mut patterns = PeerPatterns::default();
        let many: Vec<String> = (0..PATTERNS_MAX).map(|number| format!("*.{number:02}")).collect();
        let many: Vec<_> = many.iter().map(|text| (text.as_str(), 8)).collect();
        patterns.hear(PeerKey(1), wanted(&many));
        let told = news(&mut patterns, 2, &["here.>", "there.>"]).unwrap_or_default();
        let own = told.iter().filter(|wanted| wanted.hops == 4).map(|wanted| &*wanted.pattern);
        assert_eq!((told.len(), own.collect::<Vec<_>>()), (PATTERNS_MAX, vec!["here.>", "there.>"]));
    }

    /// Three nodes in a ring, each a peer of the other two.
    #[test]
    fn in_a_ring_a_pattern_that_nobody_wants_any_more_is_forgotten() {
        let mut nodes = [PeerPatterns::default(), PeerPatterns::default(), PeerPatterns::default()];
        let mut here: [&[&str]; 3] = [&[], &[], &["a.>"]];
        let exchange = |nodes: &mut [PeerPatterns; 3], here: [&[&str]; 3]| {
            let mut said = Vec::new();
            for (from, wants) in (0_u32..).zip(here) {
                for to in (0..3).filter(|to| *to != from) {
                    said.extend(news(&mut nodes[from as usize], to, wants).map(|list| (from, to, list)));
                }
            }
            let is_quiet = said.is_empty();
            for (from, to, list) in said {
                nodes[to as usize].hear(PeerKey(from), list);
            }
            nodes.iter_mut().for_each(PeerPatterns::choose);
            is_quiet
        };
        for _ in 0..10 {
            exchange(&mut nodes, here);
        }
        assert!(nodes[0].mean("a.b") && nodes[1].mean("a.b"));
        here[2] = &[];
        let rounds = (0..20).take_while(|_| !exchange(&mut nodes, here)).count();
        assert!(rounds <= 8, "{rounds}");
        assert!(nodes.iter().all(|node| !node.mean("a.b") && !node.are_told()));
    }
}

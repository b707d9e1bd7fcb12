//! Patterns of topics that peers want to hear of, and what each peer is told of them: a pattern is passed on from node to node,
//! with one link less each time, so that it ends even where nodes form a ring.

use std::collections::{BTreeMap, BTreeSet};

use oap::{PATTERNS_MAX, WantedPattern};
use topics::Pattern;

/// Patterns of peers that topics are compared with; beyond it, each peer has as many as the others.
const ACTIVE_MAX: usize = 256;

/// Patterns, each with how many links it may still be passed on over.
type Wanted = BTreeMap<Box<str>, u8>;

/// What peers want, by their small numbers.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    theirs: BTreeMap<u32, Wanted>,
    /// Those that topics are compared with.
    active: BTreeSet<Box<str>>,
    /// What each peer was told last.
    told: BTreeMap<u32, Wanted>,
}

impl Patterns {
    /// A peer wants these from now on, and no others. Whether that changes anything.
    pub(super) fn hear(&mut self, peer: u32, list: Vec<WantedPattern>) -> bool {
        let wanted: Wanted = list.into_iter().map(|wanted| (wanted.pattern, wanted.hops)).collect();
        if self.theirs.get(&peer).unwrap_or(&Wanted::new()) == &wanted {
            return false;
        }
        self.theirs.insert(peer, wanted);
        true
    }

    /// A peer has gone. Whether that changes anything.
    pub(super) fn gone(&mut self, peer: u32) -> bool {
        self.told.remove(&peer);
        self.theirs.remove(&peer).is_some_and(|wanted| !wanted.is_empty())
    }

    /// Chooses those that topics are compared with: takes from each peer in turn, until there are enough. Not for every change:
    /// it looks at all of them.
    pub(super) fn choose(&mut self) {
        self.active.clear();
        for turn in 0..PATTERNS_MAX {
            for pattern in self.theirs.values().filter_map(|wanted| wanted.keys().nth(turn)) {
                if self.active.len() == ACTIVE_MAX {
                    return;
                }
                if !self.active.contains(pattern) {
                    self.active.insert(pattern.clone());
                }
            }
        }
    }

    /// Whether a peer wants to hear of a topic, by those that were chosen.
    pub(super) fn mean(&self, topic: &str) -> bool {
        self.active.iter().any(|text| Pattern::new(text).is_ok_and(|pattern| pattern.matches(topic)))
    }

    /// What a peer is to be told: what is wanted here, for `hops` links, and what the other peers want, for one link less than
    /// they say and than what is wanted here. If there are too many, what is wanted here comes first, and then one of each peer
    /// in turn, those for the most links first. [`None`] if it knows, unless it is to be told `again`.
    pub(super) fn news_for<'a>(
        &mut self,
        peer: u32,
        here: impl Iterator<Item = &'a str>,
        hops: u8,
        again: bool,
    ) -> Option<Vec<WantedPattern>> {
        let here: BTreeSet<&str> = here.collect();
        let mut wanted: Wanted =
            here.into_iter().take(PATTERNS_MAX).map(|pattern| (pattern.into(), hops)).collect();
        self.add_of_others(peer, hops, &mut wanted);
        let known = self.told.get(&peer).filter(|known| !known.is_empty());
        let is_news = known.map_or(!wanted.is_empty(), |known| again || *known != wanted);
        if !is_news {
            return None;
        }
        self.told.insert(peer, wanted.clone());
        Some(wanted.into_iter().map(|(pattern, hops)| WantedPattern { pattern, hops }).collect())
    }

    /// Adds what peers other than this one want, one of each in turn, as long as there is room.
    fn add_of_others(&self, peer: u32, hops: u8, wanted: &mut Wanted) {
        let most = hops.saturating_sub(1).max(1);
        let passed_on = |theirs: &'_ Wanted| {
            let left = theirs.iter().filter(|(_, left)| **left > 1);
            let mut left: Vec<(Box<str>, u8)> =
                left.map(|(pattern, left)| (pattern.clone(), (left - 1).min(most))).collect();
            left.sort_by_key(|(_, left)| std::cmp::Reverse(*left));
            left
        };
        let others = self.theirs.iter().filter(|(other, _)| **other != peer);
        let others: Vec<_> = others.map(|(_, theirs)| passed_on(theirs)).collect();
        for turn in 0..PATTERNS_MAX {
            for (pattern, left) in others.iter().filter_map(|theirs| theirs.get(turn)) {
                if let Some(present) = wanted.get_mut(pattern) {
                    *present = (*present).max(*left);
                } else if wanted.len() < PATTERNS_MAX {
                    wanted.insert(pattern.clone(), *left);
                }
            }
        }
    }

    /// Whether a peer was told of any.
    pub(super) fn are_told(&self) -> bool {
        self.told.values().any(|wanted| !wanted.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(texts: &[(&str, u8)]) -> Vec<WantedPattern> {
        texts.iter().map(|(text, hops)| WantedPattern { pattern: (*text).into(), hops: *hops }).collect()
    }

    fn news(patterns: &mut Patterns, peer: u32, here: &[&str]) -> Option<Vec<WantedPattern>> {
        patterns.news_for(peer, here.iter().copied(), 4, false)
    }

    #[test]
    fn what_peers_want_is_compared_with_topics_until_they_want_it_no_more() {
        let mut patterns = Patterns::default();
        assert!(!patterns.hear(1, Vec::new()) && !patterns.mean("metrics.db"));
        assert!(patterns.hear(1, wanted(&[("metrics.>", 2)])));
        assert!(!patterns.hear(1, wanted(&[("metrics.>", 2)])), "nothing new");
        assert!(patterns.hear(2, wanted(&[("news.*", 1)])));
        patterns.choose();
        assert!(patterns.mean("metrics.db") && patterns.mean("news.eu") && !patterns.mean("news"));
        assert!(patterns.gone(1) && !patterns.gone(1));
        patterns.choose();
        assert!(!patterns.mean("metrics.db") && patterns.mean("news.eu"));
        assert!(patterns.hear(2, Vec::new()));
        patterns.choose();
        assert!(!patterns.mean("news.eu"));
    }

    #[test]
    fn a_peer_is_told_what_others_want_with_a_link_less_and_only_what_is_new() {
        let mut patterns = Patterns::default();
        patterns.hear(1, wanted(&[("a.>", 3), ("b.>", 1)]));
        patterns.hear(2, wanted(&[("a.>", 2), ("c.>", 8)]));
        assert_eq!(news(&mut patterns, 3, &["d.>"]), Some(wanted(&[("a.>", 2), ("c.>", 3), ("d.>", 4)])));
        assert_eq!(news(&mut patterns, 3, &["d.>"]), None);
        assert_eq!(news(&mut patterns, 1, &[]), Some(wanted(&[("a.>", 1), ("c.>", 3)])), "not its own");
        assert_eq!(
            patterns.news_for(1, std::iter::empty(), 4, true),
            Some(wanted(&[("a.>", 1), ("c.>", 3)]))
        );
        patterns.gone(2);
        assert_eq!(news(&mut patterns, 1, &[]), Some(Vec::new()), "it is told that nothing is left");
        assert_eq!(news(&mut patterns, 1, &[]), None);
    }

    #[test]
    fn one_peer_with_many_patterns_keeps_nobody_elses_out() {
        let mut patterns = Patterns::default();
        for peer in 0..20 {
            let many: Vec<String> =
                (0..PATTERNS_MAX).map(|number| format!("p{peer}.n{number:02}.*")).collect();
            let many: Vec<_> = many.iter().map(|text| (text.as_str(), 4)).collect();
            patterns.hear(peer, wanted(&many));
        }
        patterns.hear(99, wanted(&[("quiet.*", 4)]));
        patterns.choose();
        assert_eq!(patterns.active.len(), ACTIVE_MAX);
        assert!(patterns.mean("quiet.one") && (0..20).all(|peer| patterns.mean(&format!("p{peer}.n00.x"))));
        let told = news(&mut patterns, 5, &["here.>"]).unwrap_or_default();
        assert_eq!(told.len(), PATTERNS_MAX);
        assert!(told.iter().any(|wanted| &*wanted.pattern == "here.>"), "this node's own come first");
        assert!(told.iter().any(|wanted| &*wanted.pattern == "quiet.*"), "then one of each peer");
        // One that asks for as many links as there may be comes before nobody.
        let mut patterns = Patterns::default();
        let many: Vec<String> = (0..PATTERNS_MAX).map(|number| format!("*.{number:02}")).collect();
        let many: Vec<_> = many.iter().map(|text| (text.as_str(), 8)).collect();
        patterns.hear(1, wanted(&many));
        let told = news(&mut patterns, 2, &["here.>", "there.>"]).unwrap_or_default();
        let own = told.iter().filter(|wanted| wanted.hops == 4).map(|wanted| &*wanted.pattern);
        assert_eq!((told.len(), own.collect::<Vec<_>>()), (PATTERNS_MAX, vec!["here.>", "there.>"]));
    }

    /// Three nodes in a ring, each a peer of the other two.
    #[test]
    fn in_a_ring_a_pattern_that_nobody_wants_any_more_is_forgotten() {
        let mut nodes = [Patterns::default(), Patterns::default(), Patterns::default()];
        let mut here: [&[&str]; 3] = [&[], &[], &["a.>"]];
        let exchange = |nodes: &mut [Patterns; 3], here: [&[&str]; 3]| {
            let mut said = Vec::new();
            for (from, wants) in (0_u32..).zip(here) {
                for to in (0..3).filter(|to| *to != from) {
                    said.extend(news(&mut nodes[from as usize], to, wants).map(|list| (from, to, list)));
                }
            }
            let is_quiet = said.is_empty();
            for (from, to, list) in said {
                nodes[to as usize].hear(from, list);
            }
            nodes.iter_mut().for_each(Patterns::choose);
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

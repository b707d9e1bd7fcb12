//! Which topics a node relays only for the patterns of its peers. There is room for a few, which is shared between the peers
//! that want them, and in the share of each between the peers that take part in them.
//!
//! Both are needed. A peer with wide patterns must not displace what others want, and a peer that takes part in topics that it
//! made up must not displace the topics that the pattern of another one is meant for.

use std::collections::{BTreeMap, BTreeSet};

use oap::Topic;

use crate::event::PeerKey;

/// The peer that takes part in a topic; none if it is this node, or if the peer is gone.
type Source = Option<PeerKey>;

/// Topics that are relayed, each counted for one peer that wants it.
#[derive(Debug)]
pub struct RelayShares {
    most: usize,
    charges: BTreeMap<Topic, (PeerKey, Source)>,
    wanters: BTreeMap<PeerKey, BTreeMap<Source, BTreeSet<Topic>>>,
}

/// Whether a topic is relayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relay {
    /// No peer wants it but the one that takes part in it.
    Unwanted,
    /// It is relayed.
    Added,
    /// It is relayed, and this one makes way.
    Instead(Topic),
    /// There is no room, and nobody has so much more that a topic would make way.
    Refused,
}

impl RelayShares {
    /// Room for `most` topics.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, charges: BTreeMap::new(), wanters: BTreeMap::new() }
    }

    /// Returns the number of topics that are relayed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.charges.len()
    }

    /// Returns true if no topic is relayed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.charges.is_empty()
    }

    /// Returns true if the topic is relayed.
    #[must_use]
    pub fn contains(&self, topic: &Topic) -> bool {
        self.charges.contains_key(topic)
    }

    /// Relays a topic that these peers want and `source` takes part in, if there is room or somebody has so much more that one
    /// of its topics makes way.
    pub fn add(&mut self, topic: &Topic, wanters: &[PeerKey], source: Option<PeerKey>) -> Relay {
        // Nothing comes for a peer out of a topic in which only the peer itself takes part.
        let others = wanters.iter().copied().filter(|wanter| Some(*wanter) != source);
        let Some(wanter) = others.min_by_key(|wanter| self.held_by(*wanter)) else {
            return Relay::Unwanted;
        };
        if self.contains(topic) {
            return Relay::Added;
        }
        let mut relay = Relay::Added;
        if self.len() >= self.most {
            let Some(other) = self.to_make_way(wanter, source) else { return Relay::Refused };
            self.remove(&other);
            relay = Relay::Instead(other);
        }
        self.charge(topic.clone(), wanter, source);
        relay
    }

    /// The topic is not relayed any more.
    pub fn remove(&mut self, topic: &Topic) {
        let Some((wanter, source)) = self.charges.remove(topic) else { return };
        let Some(sources) = self.wanters.get_mut(&wanter) else { return };
        if let Some(topics) = sources.get_mut(&source) {
            topics.remove(topic);
            if topics.is_empty() {
                sources.remove(&source);
            }
        }
        if sources.is_empty() {
            self.wanters.remove(&wanter);
        }
    }

    /// Peers want other topics than before: one that its peer does not want any more counts for another peer that does. If
    /// there is none, it stays where it is until it is removed.
    pub fn recount(&mut self, wanters: impl Fn(&Topic) -> Vec<PeerKey>) {
        let charges: Vec<(Topic, (PeerKey, Source))> =
            self.charges.iter().map(|(topic, charge)| (topic.clone(), *charge)).collect();
        for (topic, (wanter, source)) in charges {
            let now = wanters(&topic);
            if now.contains(&wanter) {
                continue;
            }
            if let Some(other) = now.into_iter().min_by_key(|other| self.held_by(*other)) {
                self.remove(&topic);
                self.charge(topic, other, source);
            }
        }
    }

    /// A peer is gone; its number may be another one's soon.
    pub fn forget_source(&mut self, peer: PeerKey) {
        let is_its = |(_, (_, source)): &(&Topic, &(PeerKey, Source))| *source == Some(peer);
        let its: Vec<(Topic, PeerKey)> =
            self.charges.iter().filter(is_its).map(|(topic, (wanter, _))| (topic.clone(), *wanter)).collect();
        for (topic, wanter) in its {
            self.remove(&topic);
            self.charge(topic, wanter, None);
        }
    }

    fn charge(&mut self, topic: Topic, wanter: PeerKey, source: Source) {
        self.wanters.entry(wanter).or_default().entry(source).or_default().insert(topic.clone());
        self.charges.insert(topic, (wanter, source));
    }

    fn held_by(&self, wanter: PeerKey) -> usize {
        self.wanters.get(&wanter).map_or(0, count)
    }

    /// The topic that makes way for another one: of the peer for which the most are relayed, if these are more than the
    /// newcomer's peer would have. Else of that peer itself: one of the source that has the most of its share, by the same rule.
    fn to_make_way(&self, wanter: PeerKey, source: Source) -> Option<Topic> {
        let held = self.held_by(wanter);
        let greediest = self.wanters.values().max_by_key(|sources| count(sources))?;
        if count(greediest) > held + 1 {
            return largest(greediest)?.last().cloned();
        }
        let own = self.wanters.get(&wanter)?;
        let of_source = own.get(&source).map_or(0, BTreeSet::len);
        largest(own).filter(|topics| topics.len() > of_source + 1)?.last().cloned()
    }
}

fn count(sources: &BTreeMap<Source, BTreeSet<Topic>>) -> usize {
    sources.values().map(BTreeSet::len).sum()
}

fn largest(sources: &BTreeMap<Source, BTreeSet<Topic>>) -> Option<&BTreeSet<Topic>> {
    sources.values().max_by_key(|topics| topics.len())
}

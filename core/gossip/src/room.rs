//! Room for topics: a part is reserved for this node's own, and the rest is shared.
//!
//! | topic | room |
//! |---|---|
//! | this node's own ([`Claim::Own`]) | all of it; a quarter is for nothing else |
//! | of an application ([`Claim::Application`]) | three quarters, of which each has a share, and peers keep a quarter |
//! | relayed for patterns of peers ([`Claim::Peers`]) | three quarters; the caller allows fewer |
//! | in which only peers take part | three quarters; if it is used up, the peer that has the most makes way |

use std::collections::BTreeMap;

use oap::Topic;
use topics::has_share;

use crate::{
    engine::Engine,
    event::{Action, Claim, PeerKey},
    topic::TopicState,
};

/// This part of the topics, one in so many, is reserved for this node's own.
const FOR_OWN_TOPICS: usize = 4;
/// This part of them, one in so many, is left to topics in which only peers take part, as far as there are so many.
const FOR_PEERS: usize = 4;

impl Engine {
    /// On whose behalf this node takes part in a topic, or has published in it.
    pub(crate) fn claim_of(&self, name: &Topic) -> Option<Claim> {
        self.by_name.get(name).and_then(|ix| self.topics[*ix].claim)
    }

    /// Returns true if this node could take part in a topic with that claim: somebody has a claim already, or there is room.
    #[must_use]
    pub fn has_room_for(&self, name: &Topic, claim: Claim) -> bool {
        let has_claim = self.claim_of(name).is_some();
        match claim {
            Claim::Own | Claim::Peers if has_claim => true,
            Claim::Own => self.knows_topic(name) || !self.is_full() || self.foreign().next().is_some(),
            Claim::Application(number) => self.application_with_room(name, [number]).is_some(),
            Claim::Peers => self.knows_topic(name) || !self.is_full_for_guests(),
        }
    }

    /// The first of these applications whose share has room for a topic; the first of all if somebody has a claim to it already.
    pub fn application_with_room(
        &self,
        name: &Topic,
        applications: impl IntoIterator<Item = u64>,
    ) -> Option<u64> {
        if self.claim_of(name).is_some() {
            return applications.into_iter().next();
        }
        let mut held = BTreeMap::<u64, usize>::new();
        let (mut foreign, mut claimed) = (0, 0);
        for topic in self.known() {
            match topic.claim {
                None => foreign += usize::from(topic.name != *name),
                Some(Claim::Own) => {}
                Some(Claim::Peers) => claimed += 1,
                Some(Claim::Application(number)) => {
                    claimed += 1;
                    *held.entry(number).or_default() += 1;
                }
            }
        }
        let left_to_peers = foreign.min(self.settings.max_topics / FOR_PEERS);
        let free = self.room_for_guests().saturating_sub(claimed + left_to_peers);
        applications.into_iter().find(|number| has_share(held.get(number).copied().unwrap_or(0), free))
    }

    /// The peers that take part in a topic.
    pub fn peers_in(&self, name: &Topic) -> impl Iterator<Item = PeerKey> {
        self.by_name.get(name).into_iter().flat_map(|ix| self.topics[*ix].members.peers())
    }

    /// The place of a topic that this node takes part in or publishes in.
    pub(crate) fn open_claimed(
        &mut self,
        name: &Topic,
        claim: Claim,
        out: &mut Vec<Action>,
    ) -> Option<usize> {
        if self.find(name).is_none() {
            let is_full = if claim == Claim::Own { self.is_full() } else { self.is_full_for_guests() };
            if is_full {
                self.make_way(None, out)?;
            }
        }
        let ix = self.open(name)?;
        let kept = match (self.topics[ix].claim, claim) {
            (Some(first @ Claim::Application(_)), Claim::Application(_)) => first,
            _ => claim,
        };
        self.topics[ix].claim = Some(kept);
        Some(ix)
    }

    /// The place of a topic that a peer takes part in. Without one the peer is not heard; it is not dismissed, because it may take
    /// part on behalf of its applications, and cannot know how much room there is.
    pub(crate) fn open_for(
        &mut self,
        peer: PeerKey,
        name: &Topic,
        out: &mut Vec<Action>,
    ) -> Result<usize, Action> {
        if let Some(ix) = self.find(name) {
            return Ok(ix);
        }
        if self.is_full_for_guests() && self.make_way(Some(peer), out).is_none() {
            return Err(Action::NoRoomForPeer { peer });
        }
        self.open(name).ok_or(Action::NoRoomForPeer { peer })
    }

    /// Forgets a topic in which only one peer takes part: the peer that has the most such topics. For another peer's topic, it
    /// must have more than the other would have. [`None`] if no topic was forgotten.
    fn make_way(&mut self, claimant: Option<PeerKey>, out: &mut Vec<Action>) -> Option<()> {
        let counts = self.foreign_by_peer();
        let floor = claimant.map_or(0, |peer| counts.get(&peer).copied().unwrap_or(0) + 1);
        let (greediest, _) =
            counts.into_iter().filter(|(_, held)| *held > floor).max_by_key(|(_, held)| *held)?;
        let is_its_alone =
            |topic: &TopicState| topic.claim.is_none() && topic.members.peers().eq([greediest]);
        let ix = self.by_name.values().copied().find(|ix| is_its_alone(&self.topics[*ix]))?;
        self.drop_member(ix, greediest, out);
        Some(())
    }

    /// How many topics in which only peers take part each of them has.
    fn foreign_by_peer(&self) -> BTreeMap<PeerKey, usize> {
        let mut counts = BTreeMap::new();
        for member in self.foreign().flat_map(|topic| topic.members.peers()) {
            *counts.entry(member).or_default() += 1;
        }
        counts
    }

    /// Whether there is no room for another topic that is not this node's own.
    fn is_full_for_guests(&self) -> bool {
        let is_own = |topic: &&TopicState| topic.claim == Some(Claim::Own);
        let guests = self.by_name.len() - self.known().filter(is_own).count();
        guests >= self.room_for_guests() || self.is_full()
    }

    fn room_for_guests(&self) -> usize {
        self.settings.max_topics - self.settings.max_topics / FOR_OWN_TOPICS
    }

    /// Topics in which only peers take part.
    fn foreign(&self) -> impl Iterator<Item = &TopicState> {
        self.known().filter(|topic| topic.claim.is_none())
    }

    fn known(&self) -> impl Iterator<Item = &TopicState> {
        self.by_name.values().map(|ix| &self.topics[*ix])
    }
}

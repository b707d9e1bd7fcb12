//! Telling peers which topics this node takes part in: a few at a time, so that very many topics neither fill a peer's queue nor
//! keep publications waiting.

use std::collections::BTreeSet;

use oap::{Message, Topic};
use types::Moment;

use crate::{
    engine::{Engine, send},
    event::{Action, Claim, PeerKey},
    packet::Packet,
    timers::Timer,
};

/// Frames about topics that are on their way to one peer, at most.
const IN_FLIGHT: u32 = 16;

/// Topics that a peer has not been told of, for each topic that there is room for, and some more. Beyond it, those that this
/// node does not take part in are not told: a peer that publishes in one of them is told then.
const UNTOLD_PER_TOPIC: usize = 2;
const UNTOLD_MIN: usize = 1024;

/// What one peer has not been told of the topics of this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Untold {
    /// This node's own topics come first.
    topics: BTreeSet<(Rank, Topic)>,
    in_flight: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Own,
    Other,
}

impl Engine {
    /// Tells all peers whether this node takes part in a topic.
    pub(crate) fn tell_all_of(&mut self, name: &Topic, out: &mut Vec<Action>) {
        for key in 0..self.peers.len() {
            if self.peers[key].is_some() {
                let peer = PeerKey(u32::try_from(key).unwrap_or(u32::MAX));
                self.tell_of(peer, name, out);
            }
        }
    }

    /// Tells a peer whether this node takes part in a topic: now, or once what it was told before has left.
    pub(crate) fn tell_of(&mut self, peer: PeerKey, name: &Topic, out: &mut Vec<Action>) {
        self.remember_to_tell(peer, name);
        self.tell_topics(peer, out);
    }

    /// A peer is to be told whether this node takes part in a topic.
    pub(crate) fn remember_to_tell(&mut self, peer: PeerKey, name: &Topic) {
        let rank = if self.claim_of(name) == Some(Claim::Own) { Rank::Own } else { Rank::Other };
        let most = self.settings.max_topics.saturating_mul(UNTOLD_PER_TOPIC).saturating_add(UNTOLD_MIN);
        let (by_name, topics) = (&self.by_name, &self.topics);
        let is_up = self.peers.get(peer.0 as usize).is_some_and(Option::is_some);
        let Some(untold) = self.untold.get_mut(peer.0 as usize).filter(|_| is_up) else { return };
        untold.topics.insert((rank, name.clone()));
        if untold.topics.len() > most {
            untold.topics.retain(|(_, name)| by_name.get(name).is_some_and(|ix| topics[*ix].joined));
        }
    }

    /// Sends a peer what it has not been told of topics, as far as there is room.
    pub(crate) fn tell_topics(&mut self, peer: PeerKey, out: &mut Vec<Action>) {
        let Some(untold) = self.untold.get_mut(peer.0 as usize) else { return };
        while untold.in_flight < IN_FLIGHT {
            let Some((_, name)) = untold.topics.pop_first() else { return };
            untold.in_flight += 1;
            let joined = self.by_name.get(&name).is_some_and(|ix| self.topics[*ix].joined);
            let message = if joined { Message::Subscribe(name) } else { Message::Unsubscribe(name) };
            send(out, peer, Packet::new(message));
        }
    }

    /// So many frames about topics have left for a peer.
    pub(crate) fn topics_told(&mut self, peer: PeerKey, count: u32, out: &mut Vec<Action>) {
        if let Some(untold) = self.untold.get_mut(peer.0 as usize) {
            untold.in_flight = untold.in_flight.saturating_sub(count);
        }
        self.tell_topics(peer, out);
    }

    /// A peer's queue had no room for a frame about a topic: the peer is told later.
    pub(crate) fn topic_not_told(&mut self, peer: PeerKey, name: &Topic, now: Moment) {
        self.remember_to_tell(peer, name);
        let Some(untold) = self.untold.get_mut(peer.0 as usize) else { return };
        untold.in_flight = untold.in_flight.saturating_sub(1);
        if untold.in_flight == 0 && self.tell_at.is_none() {
            // Nothing is on its way that would be reported as sent.
            let at = now.after(self.settings.pull_timeout);
            self.timers.set(Timer::Tell, &mut self.tell_at, Some(at));
        }
    }

    /// Tries again to tell peers whose queues had no room.
    pub(crate) fn tell_again(&mut self, out: &mut Vec<Action>) {
        self.timers.set(Timer::Tell, &mut self.tell_at, None);
        for key in 0..u32::try_from(self.untold.len()).unwrap_or(u32::MAX) {
            self.tell_topics(PeerKey(key), out);
        }
    }
}

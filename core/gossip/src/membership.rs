//! Who takes part: peers that come and go, topics that are joined and left, grafts and prunes.

use oap::{Graft, Message, Topic};
use types::{Moment, NodeId};

use crate::{
    effort::Effort,
    engine::{Engine, send},
    event::{Action, Claim, PeerKey},
    members::Member,
    packet::Packet,
    timers::Timer,
    untold::Untold,
};

impl Engine {
    pub(crate) fn peer_up(&mut self, peer: PeerKey, node: NodeId, now: Moment, out: &mut Vec<Action>) {
        let index = peer.0 as usize;
        let effort = self.effort_of_newcomer(node, now);
        if self.peers.len() <= index {
            self.peers.resize(index + 1, None);
            self.efforts.resize(index + 1, effort);
            self.untold.resize(index + 1, Untold::default());
        }
        self.untold[index] = Untold::default();
        self.efforts[index] = effort;
        self.peers[index] = Some(node);
        let joined = self.topics.iter().filter(|topic| topic.joined);
        let joined: Vec<Topic> = joined.map(|topic| topic.name.clone()).collect();
        joined.iter().for_each(|name| self.remember_to_tell(peer, name));
        self.tell_topics(peer, out);
    }

    /// What a peer that comes may cost: no more than was left to it when it went, or is left to a session of it that ends.
    fn effort_of_newcomer(&mut self, node: NodeId, now: Moment) -> Effort {
        let before = self.departed.take(node, now);
        let present = self.peers.iter().position(|present| *present == Some(node));
        let present = present.and_then(|at| self.efforts.get(at).copied());
        present.or(before).unwrap_or_else(|| Effort::new(now))
    }

    pub(crate) fn peer_down(&mut self, peer: PeerKey, out: &mut Vec<Action>) {
        let Some(node) = self.peers.get_mut(peer.0 as usize) else { return };
        let node = node.take();
        if let Some((node, effort)) = node.zip(self.efforts.get(peer.0 as usize)) {
            self.departed.add(node, *effort);
        }
        self.untold[peer.0 as usize] = Untold::default();
        self.acks.retain(|acks| acks.peer != peer);
        self.wants.retain(|wants| wants.peer != peer);
        for ix in 0..self.topics.len() {
            let member = self.drop_member(ix, peer, out);
            if let (Some(mut member), Some(node)) = (member, node) {
                out.extend(member.take_unsent().losses(&self.topics[ix].name, node));
            }
            for at in 0..self.topics[ix].tracks.places() {
                if let Some(track) = self.topics[ix].tracks.get_mut(at) {
                    track.forget(peer);
                }
            }
        }
    }

    pub(crate) fn subscribe(&mut self, name: &Topic, claim: Claim, now: Moment, out: &mut Vec<Action>) {
        let Some(ix) = self.open_claimed(name, claim, out) else {
            return out.push(Action::SubscribeRefused { topic: name.clone() });
        };
        if self.topics[ix].joined {
            return;
        }
        self.topics[ix].joined = true;
        self.start_beating(ix, now);
        self.tell_all_of(name, out);
    }

    pub(crate) fn unsubscribe(&mut self, name: &Topic, out: &mut Vec<Action>) {
        let Some(ix) = self.find(name).filter(|ix| self.topics[*ix].joined) else { return };
        self.topics[ix].joined = false;
        self.tell_all_of(name, out);
        for at in 0..self.topics[ix].tracks.places() {
            let is_other = |track: &crate::track::Track| track.origin.publisher != self.me;
            if self.topics[ix].tracks.get(at).is_some_and(is_other) {
                self.remove_track(ix, at);
            }
        }
        if !self.topics[ix].is_live() {
            self.topics[ix].claim = None;
        }
        self.close_if_unused(ix);
    }

    /// A peer takes part in a topic: it is told what there is, and pushed to if few are.
    pub(crate) fn peer_joined(&mut self, peer: PeerKey, name: &Topic, now: Moment, out: &mut Vec<Action>) {
        let ix = match self.open_for(peer, name, out) {
            Ok(ix) => ix,
            Err(refused) => return out.push(refused),
        };
        let topic = &mut self.topics[ix];
        if !topic.members.insert(peer) {
            return;
        }
        if topic.members.eager_len() < self.settings.relay_fanout {
            topic.members.set_eager(peer, true);
        }
        let heads = self.topics[ix].tracks.len();
        if self.effort(peer).is_some_and(|left| left.take_telling(heads, now)) {
            self.tell_everything(ix, peer, now, out);
        } else if let Some(member) = self.topics[ix].members.get_mut(peer) {
            // It joins too often to be told each time.
            member.owed = true;
            self.announce_by(ix, now.after(self.settings.pull_timeout));
        }
        self.start_beating(ix, now);
    }

    pub(crate) fn peer_left(&mut self, peer: PeerKey, name: &Topic, out: &mut Vec<Action>) {
        if let Some(ix) = self.find(name) {
            // What it did not get by now it does not want.
            drop(self.drop_member(ix, peer, out));
        }
    }

    /// A peer wants to be pushed to, and perhaps something it misses.
    pub(crate) fn grafted(&mut self, from: PeerKey, graft: &Graft, out: &mut Vec<Action>) {
        let Some(ix) = self.find(&graft.topic) else { return };
        let members = &mut self.topics[ix].members;
        members.insert(from);
        members.set_eager(from, true);
        if let Some(member) = members.get_mut(from) {
            member.pruned_at = None;
        }
        self.asked(from, &graft.topic, graft.missing.as_slice(), out);
    }

    /// A peer wants to be announced to.
    pub(crate) fn pruned(&mut self, from: PeerKey, name: &Topic) {
        if let Some(ix) = self.find(name) {
            self.topics[ix].members.set_eager(from, false);
        }
    }

    /// Asks a peer to push from now on, perhaps beginning with something that is missing here.
    pub(crate) fn graft(
        &mut self,
        ix: usize,
        peer: PeerKey,
        missing: Option<oap::Entry>,
        out: &mut Vec<Action>,
    ) {
        let topic = &mut self.topics[ix];
        topic.members.set_eager(peer, true);
        if let Some(member) = topic.members.get_mut(peer) {
            member.pruned_at = None;
        }
        let graft = Graft { topic: topic.name.clone(), missing };
        send(out, peer, Packet::new(Message::Graft(graft)));
    }

    /// A peer is gone from a topic. If it was pushed to, another takes its place before anything is missed.
    pub(crate) fn drop_member(&mut self, ix: usize, peer: PeerKey, out: &mut Vec<Action>) -> Option<Member> {
        let was_eager = self.topics[ix].members.is_eager(peer);
        let member = self.topics[ix].members.remove(peer);
        if was_eager
            && self.topics[ix].joined
            && let Some(other) = self.topics[ix].members.any_lazy(&mut self.rng)
        {
            self.graft(ix, other, None, out);
        }
        self.close_if_unused(ix);
        member
    }

    /// Tells all peers again that this node takes part, in case one of them did not hear it.
    pub(crate) fn subscribe_again(&mut self, ix: usize, out: &mut Vec<Action>) {
        if self.topics[ix].joined {
            let name = self.topics[ix].name.clone();
            self.tell_all_of(&name, out);
        }
    }

    /// Removes the state of a publisher in a topic.
    pub(crate) fn remove_track(&mut self, ix: usize, at: usize) -> Option<crate::track::Track> {
        let topic = &mut self.topics[ix];
        let mut track = topic.tracks.remove(at)?;
        topic.dirty.retain(|place| *place != at);
        topic.searching -= usize::from(track.search.is_some());
        self.timers.set(Timer::Search(ix, at), &mut track.search_at, None);
        Some(track)
    }
}

//! Lives of publishers that are not followed any more: what was published in them is told to peers, and named where it did not come.

use std::{collections::BTreeMap, time::Duration};

use oap::{Entry, Head};
use types::{Moment, NodeId};

use crate::{
    engine::Engine,
    event::{Action, Gap, GapReason, PeerKey},
    track::{Run, Track},
};

/// The most lives of one publisher in a topic that are remembered by their heads: the latest ones.
const LIVES_MAX: usize = 64;

/// One peer may have told of at most this part of the lives that are remembered: one in so many.
const PEER_SHARE: usize = 2;

/// The heads of lives that are not followed any more; about 200 bytes each.
#[derive(Debug, Default)]
pub(crate) struct PastLives(BTreeMap<(NodeId, u64), PastLife>);

#[derive(Clone, Copy, Debug)]
struct PastLife {
    /// Up to here everything was delivered or named.
    named: u64,
    /// The highest number with its publisher's word for it; absent if there never was one.
    head: Option<Head>,
    heard_at: Moment,
    /// The peer that told of it first; absent for this node itself.
    introducer: Option<NodeId>,
    /// It made room for another publisher, and not for a later life: it is followed again once it publishes.
    set_aside: bool,
}

/// Whether another life can be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Free,
    /// This life of the same publisher makes room.
    InPlaceOf(u64),
    None,
}

impl PastLives {
    /// Whether a life is one of those that ended: nothing of it is followed again.
    pub(crate) fn has(&self, publisher: NodeId, incarnation: u64) -> bool {
        self.0.get(&(publisher, incarnation)).is_some_and(|life| !life.set_aside)
    }

    /// The heads of lives that ended of which something was heard at most so long ago.
    pub(crate) fn heads(&self, now: Moment, remember: Duration) -> impl Iterator<Item = Head> {
        let is_recent = move |life: &&PastLife| !life.set_aside && now.since(life.heard_at) < remember;
        self.0.values().filter(is_recent).filter_map(|life| life.head)
    }

    /// Up to which number everything was delivered or named, of a life that made room for another publisher.
    pub(crate) fn named_before(&self, publisher: NodeId, incarnation: u64) -> Option<u64> {
        self.0.get(&(publisher, incarnation)).filter(|life| life.set_aside).map(|life| life.named)
    }

    /// A life is followed again.
    pub(crate) fn resume(&mut self, publisher: NodeId, incarnation: u64) {
        self.0.remove(&(publisher, incarnation));
    }

    /// A life is not followed any more, and everything known of it was delivered or named. One that is `set_aside` goes on.
    fn retire(&mut self, track: &Track, set_aside: bool, most: usize) {
        let Entry { publisher, incarnation, seq } = track.entry(track.seen().max(track.proven()));
        self.drop_oldest_set_aside(track.introducer, most);
        if self.make_room(publisher, incarnation, track.introducer, most) {
            let (head, heard_at, introducer) = (track.head(), track.heard_at, track.introducer);
            let life = PastLife { named: seq, head, heard_at, introducer, set_aside };
            self.0.insert((publisher, incarnation), life);
        }
    }

    /// If there is no room for another life, or its introducer has its share, the one that was set aside the longest makes room: of
    /// the same introducer then.
    fn drop_oldest_set_aside(&mut self, introducer: Option<NodeId>, most: usize) {
        let has_share = self.told_by(introducer) >= most.div_ceil(PEER_SHARE);
        if self.0.len() < most && !has_share {
            return;
        }
        let is_chosen = |life: &PastLife| life.set_aside && (!has_share || life.introducer == introducer);
        let chosen = self.0.iter().filter(|(_, life)| is_chosen(life));
        let oldest = chosen.min_by_key(|(_, life)| life.heard_at).map(|(key, _)| *key);
        if let Some(key) = oldest {
            self.0.remove(&key);
        }
    }

    fn told_by(&self, introducer: Option<NodeId>) -> usize {
        self.0.values().filter(|life| life.introducer == introducer).count()
    }

    /// Whether a head says more than is known, and there is room to remember that.
    fn is_news(&self, entry: &Entry, introducer: Option<NodeId>, most: usize) -> bool {
        match self.0.get(&(entry.publisher, entry.incarnation)) {
            Some(life) => entry.seq > life.named,
            None => self.room(entry.publisher, entry.incarnation, introducer, most) != Room::None,
        }
    }

    /// Takes note of a head whose proof was checked, and returns the numbers that are to be named because of it.
    fn hear(&mut self, head: Head, introducer: Option<NodeId>, now: Moment, most: usize) -> Option<Run> {
        let Entry { publisher, incarnation, seq } = head.entry;
        if !self.is_news(&head.entry, introducer, most)
            || !self.make_room(publisher, incarnation, introducer, most)
        {
            return None;
        }
        let life = PastLife { named: 0, head: None, heard_at: now, introducer, set_aside: false };
        let life = self.0.entry((publisher, incarnation)).or_insert(life);
        let from = std::mem::replace(&mut life.named, seq) + 1;
        (life.head, life.heard_at, life.set_aside) = (Some(head), now, false);
        Some((from, seq))
    }

    /// Forgets lives that ended of which nothing was heard for so long.
    pub(crate) fn forget_old(&mut self, now: Moment, time: Duration) {
        self.0.retain(|_, life| life.set_aside || now.since(life.heard_at) < time);
    }

    /// Where there is room for a life that is not among them. One that is before all that are remembered of its publisher, as many
    /// as there may be, was remembered before and would be named again.
    fn room(&self, publisher: NodeId, incarnation: u64, introducer: Option<NodeId>, most: usize) -> Room {
        let lives = self.lives(publisher).count();
        let is_full = self.0.len() >= most || self.told_by(introducer) >= most.div_ceil(PEER_SHARE);
        if lives < LIVES_MAX && !is_full {
            return Room::Free;
        }
        let earliest = self.lives(publisher).next().filter(|earliest| *earliest < incarnation);
        earliest.map_or(Room::None, Room::InPlaceOf)
    }

    /// Makes room for a life, if it has or gets a place.
    fn make_room(
        &mut self,
        publisher: NodeId,
        incarnation: u64,
        introducer: Option<NodeId>,
        most: usize,
    ) -> bool {
        if self.0.contains_key(&(publisher, incarnation)) {
            return true;
        }
        match self.room(publisher, incarnation, introducer, most) {
            Room::Free => true,
            Room::InPlaceOf(earliest) => self.0.remove(&(publisher, earliest)).is_some(),
            Room::None => false,
        }
    }

    fn lives(&self, publisher: NodeId) -> impl Iterator<Item = u64> {
        self.0.range((publisher, 0)..=(publisher, u64::MAX)).map(|((_, incarnation), _)| *incarnation)
    }
}

impl Engine {
    /// A life of a publisher makes room: for a later one, or, if it is `set_aside`, for another publisher. Of the latter it is
    /// remembered how far it had come: its last publications would be delivered twice else.
    pub(crate) fn retire_life(&mut self, ix: usize, at: usize, set_aside: bool) {
        let topic = &mut self.topics[ix];
        if let Some(track) = topic.tracks.get(at).filter(|track| !set_aside || track.deliveries > 0) {
            topic.past.retire(track, set_aside, self.settings.max_publishers);
        }
    }

    /// A peer tells of a life that is not followed. Whether the head is what its proof says, if it is checked.
    pub(crate) fn past_head_announced(
        &mut self,
        ix: usize,
        from: PeerKey,
        head: &Head,
        now: Moment,
        out: &mut Vec<Action>,
    ) -> bool {
        let (topic, introducer) = (&self.topics[ix], self.node(from));
        let id = head.entry.in_topic(&topic.name);
        if !topic.past.is_news(&head.entry, introducer, self.settings.max_publishers)
            || !self.effort(from).is_some_and(|left| left.take_check(now))
        {
            return true;
        }
        if !self.signatures.verify_head(&id, &head.proof) {
            return false;
        }
        self.meet_own_life(&id, out);
        self.name_past(ix, *head, introducer, now, out);
        true
    }

    /// Names what was published in a life that is not followed, as far as it was not named before.
    pub(crate) fn name_past(
        &mut self,
        ix: usize,
        head: Head,
        introducer: Option<NodeId>,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let (topic, most) = (&mut self.topics[ix], self.settings.max_publishers);
        let Some((from, to)) = topic.past.hear(head, introducer, now, most) else { return };
        // Others are told with the heartbeat, which is not to slow down now.
        topic.quiet_beats = 0;
        let (topic, reason) = (topic.name.clone(), GapReason::Forgotten);
        let Entry { publisher, incarnation, .. } = head.entry;
        out.push(Action::Gap(Gap { topic, publisher, incarnation, from, to, reason }));
    }
}

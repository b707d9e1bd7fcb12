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
    /// Whether a life is one of them.
    pub(crate) fn has(&self, publisher: NodeId, incarnation: u64) -> bool {
        self.0.contains_key(&(publisher, incarnation))
    }

    /// The heads of which something was heard at most so long ago.
    pub(crate) fn heads(&self, now: Moment, remember: Duration) -> impl Iterator<Item = Head> {
        let is_recent = move |life: &&PastLife| now.since(life.heard_at) < remember;
        self.0.values().filter(is_recent).filter_map(|life| life.head)
    }

    /// A life is not followed any more, and everything known of it was delivered or named.
    fn retire(&mut self, track: &Track, most: usize) {
        let Entry { publisher, incarnation, seq } = track.entry(track.seen().max(track.proven()));
        if self.make_room(publisher, incarnation, most) {
            let life = PastLife { named: seq, head: track.head(), heard_at: track.heard_at };
            self.0.insert((publisher, incarnation), life);
        }
    }

    /// Whether a head says more than is known, and there is room to remember that.
    fn is_news(&self, entry: &Entry, most: usize) -> bool {
        match self.0.get(&(entry.publisher, entry.incarnation)) {
            Some(life) => entry.seq > life.named,
            None => self.room(entry.publisher, entry.incarnation, most) != Room::None,
        }
    }

    /// Takes note of a head whose proof was checked, and returns the numbers that are to be named because of it.
    fn hear(&mut self, head: Head, now: Moment, most: usize) -> Option<Run> {
        let Entry { publisher, incarnation, seq } = head.entry;
        if !self.is_news(&head.entry, most) || !self.make_room(publisher, incarnation, most) {
            return None;
        }
        let life = PastLife { named: 0, head: None, heard_at: now };
        let life = self.0.entry((publisher, incarnation)).or_insert(life);
        let from = std::mem::replace(&mut life.named, seq) + 1;
        (life.head, life.heard_at) = (Some(head), now);
        Some((from, seq))
    }

    /// Forgets lives of which nothing was heard for so long.
    pub(crate) fn forget_old(&mut self, now: Moment, time: Duration) {
        self.0.retain(|_, life| now.since(life.heard_at) < time);
    }

    /// Where there is room for a life that is not among them. One that is before all that are remembered of its publisher, as many
    /// as there may be, was remembered before and would be named again.
    fn room(&self, publisher: NodeId, incarnation: u64, most: usize) -> Room {
        let earliest = self.lives(publisher).next();
        match earliest.filter(|earliest| *earliest < incarnation) {
            _ if self.0.len() < most && self.lives(publisher).count() < LIVES_MAX => Room::Free,
            Some(earliest) => Room::InPlaceOf(earliest),
            None => Room::None,
        }
    }

    /// Makes room for a life, if it has or gets a place.
    fn make_room(&mut self, publisher: NodeId, incarnation: u64, most: usize) -> bool {
        if self.has(publisher, incarnation) {
            return true;
        }
        match self.room(publisher, incarnation, most) {
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
    /// A life of a publisher makes room for a later one.
    pub(crate) fn retire_life(&mut self, ix: usize, at: usize) {
        let topic = &mut self.topics[ix];
        if let Some(track) = topic.tracks.get(at) {
            topic.past.retire(track, self.settings.max_publishers);
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
        let topic = &self.topics[ix];
        let id = head.entry.in_topic(&topic.name);
        if !topic.past.is_news(&head.entry, self.settings.max_publishers)
            || !self.effort(from).is_some_and(|left| left.take_check(now))
        {
            return true;
        }
        if !self.signatures.verify_head(&id, &head.proof) {
            return false;
        }
        self.meet_own_life(&id, out);
        self.name_past(ix, *head, now, out);
        true
    }

    /// Names what was published in a life that is not followed, as far as it was not named before.
    pub(crate) fn name_past(&mut self, ix: usize, head: Head, now: Moment, out: &mut Vec<Action>) {
        let topic = &mut self.topics[ix];
        let Some((from, to)) = topic.past.hear(head, now, self.settings.max_publishers) else { return };
        // Others are told with the heartbeat, which is not to slow down now.
        topic.quiet_beats = 0;
        let (topic, reason) = (topic.name.clone(), GapReason::Forgotten);
        let Entry { publisher, incarnation, .. } = head.entry;
        out.push(Action::Gap(Gap { topic, publisher, incarnation, from, to, reason }));
    }
}

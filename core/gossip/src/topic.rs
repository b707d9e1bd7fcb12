//! One topic: its peers, its publishers, and what of this node's own waits for a verdict.

use std::collections::{BTreeMap, VecDeque};

use oap::{Entry, Topic};
use types::{Moment, NodeId};

use crate::{event::Claim, members::Members, past_lives::PastLives, track::Track};

/// The state of one topic.
#[derive(Debug)]
pub(crate) struct TopicState {
    pub(crate) name: Topic,
    /// This node takes part.
    pub(crate) joined: bool,
    /// On whose behalf this node takes part, or has published; none if only peers take part.
    pub(crate) claim: Option<Claim>,
    pub(crate) members: Members,
    /// The number of this node's last publication.
    pub(crate) seq: u64,
    /// When this node last signed its head; absent before the first time.
    pub(crate) signed_at: Option<Moment>,
    /// The highest number of this node's own that all peers were given its word for.
    pub(crate) vouched: u64,
    /// When they were; absent before the first time.
    pub(crate) vouched_at: Option<Moment>,
    pub(crate) tracks: Tracks,
    /// Lives of publishers that made room for later ones.
    pub(crate) past: PastLives,
    /// How many of the tracks have a search.
    pub(crate) searching: usize,
    /// Places of the publishers whose heads have not been announced yet.
    pub(crate) dirty: Vec<usize>,
    /// Publications below their publisher's head that came after all, to be announced one by one.
    pub(crate) strays: Vec<Entry>,
    /// This node's own that wait for a verdict, oldest first.
    pub(crate) unacked: VecDeque<Unacked>,
    pub(crate) announce_at: Option<Moment>,
    pub(crate) beat_at: Option<Moment>,
    pub(crate) verdict_at: Option<Moment>,
    /// When to look whether this node has stopped publishing.
    pub(crate) sign_at: Option<Moment>,
    /// Where the next heartbeat's list begins.
    pub(crate) beat_cursor: usize,
    /// Number of heartbeats since the topic was created.
    pub(crate) beats: u32,
    /// Heartbeats since a head last changed.
    pub(crate) quiet_beats: u32,
}

/// A publication of this node's own that waits for its verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unacked {
    pub(crate) seq: u64,
    pub(crate) ticket: u64,
    pub(crate) until: Moment,
}

impl TopicState {
    pub(crate) fn new(name: Topic) -> Self {
        Self {
            name,
            joined: false,
            claim: None,
            members: Members::default(),
            seq: 0,
            signed_at: None,
            vouched: 0,
            vouched_at: None,
            tracks: Tracks::default(),
            past: PastLives::default(),
            searching: 0,
            dirty: Vec::new(),
            strays: Vec::new(),
            unacked: VecDeque::new(),
            announce_at: None,
            beat_at: None,
            verdict_at: None,
            sign_at: None,
            beat_cursor: 0,
            beats: 0,
            quiet_beats: 0,
        }
    }

    /// Whether there is anything to tell peers.
    pub(crate) fn is_live(&self) -> bool {
        self.joined || self.seq > 0
    }

    /// A publisher's head changed, so it is to be announced.
    pub(crate) fn mark_dirty(&mut self, at: usize) {
        if let Some(track) = self.tracks.get_mut(at).filter(|track| !track.dirty) {
            track.dirty = true;
            self.dirty.push(at);
            self.quiet_beats = 0;
        }
    }
}

/// The publishers of a topic. Their places stay the same until they are removed.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    list: Vec<Option<Track>>,
    places: BTreeMap<(NodeId, u64), usize>,
    free: Vec<usize>,
    /// The place that was asked for last: publications of one publisher often follow each other.
    last: usize,
}

impl Tracks {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// One more than the highest place in use so far.
    pub(crate) fn places(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Track> {
        self.list.get(at).and_then(Option::as_ref)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Track> {
        self.list.get_mut(at).and_then(Option::as_mut)
    }

    pub(crate) fn find(&mut self, publisher: NodeId, incarnation: u64) -> Option<usize> {
        let is_it =
            |track: &Track| track.origin.incarnation == incarnation && track.origin.publisher == publisher;
        if self.get(self.last).is_some_and(is_it) {
            return Some(self.last);
        }
        self.last = *self.places.get(&(publisher, incarnation))?;
        Some(self.last)
    }

    /// The lives of a publisher with their places, earliest first.
    pub(crate) fn lives(&self, publisher: NodeId) -> impl Iterator<Item = (u64, usize)> {
        let lives = self.places.range((publisher, 0)..=(publisher, u64::MAX));
        lives.map(|((_, incarnation), at)| (*incarnation, *at))
    }

    pub(crate) fn insert(&mut self, track: Track) -> usize {
        let key = (track.origin.publisher, track.origin.incarnation);
        let at = self.free.pop().unwrap_or(self.list.len());
        if at == self.list.len() {
            self.list.push(None);
        }
        self.list[at] = Some(track);
        self.places.insert(key, at);
        at
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<Track> {
        let track = self.list.get_mut(at)?.take()?;
        self.places.remove(&(track.origin.publisher, track.origin.incarnation));
        self.free.push(at);
        Some(track)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Track)> {
        self.list.iter().enumerate().filter_map(|(at, track)| Some((at, track.as_ref()?)))
    }
}

//! The bounds and rhythms of the engine, declared together and checked together.

use std::time::Duration;

use oap::{HEADS_MAX, LIST_MAX};

use crate::cache::CacheLimits;

/// What bounds an [`Engine`](crate::Engine). Memory of one engine: `cache_bytes`, and per publisher and topic
/// `dedupe_window / 8` bytes and about 300 more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many peers of a topic are pushed to before anybody pruned or grafted. A peer that grafts is pushed to anyway.
    pub relay_fanout: usize,
    /// Copies of what had come over so many links are not held against the peer that pushed them: the links they
    /// come over make a deep tree less deep.
    pub forgive_hops: u8,
    /// The most publications of one topic that are on their way to one peer, handed out and not yet
    /// [`Event::Sent`](crate::Event::Sent), so that no topic fills a peer's queue.
    pub burst_budget: u32,
    /// The most publications of one topic that are remembered for one peer, to follow those; 16 bytes each. Beyond it they
    /// are announced instead of pushed.
    pub backlog: usize,
    /// The most publications kept for peers that ask. If there are more, the publisher and topic with the largest share makes
    /// room, unless something is older than six times [`Settings::patience`]. What is asked for within [`Settings::patience`] should still be kept: by
    /// default 3,200 publications a second are.
    pub cache_messages: usize,
    /// The most bytes of frames kept for peers that ask.
    pub cache_bytes: usize,
    /// How many numbers of a publisher are told apart below the highest seen: a power of two, at least 64. What is missing is
    /// named once it is so far behind, so a publisher's publications of [`Settings::patience`] should fit: by default 3,200 a
    /// second do.
    pub dedupe_window: usize,
    /// How many publications before the first one heard of are asked for. Older ones are named as a gap.
    pub history: u64,
    /// The most topics, joined or only asked for by peers.
    pub max_topics: usize,
    /// The most publishers (each life of each) remembered per topic.
    pub max_publishers: usize,
    /// How long a publisher that is silent is told of in heartbeats, and safe from making place for another.
    pub remember: Duration,
    /// The most publications of this node's own, per topic, that wait for their verdict.
    pub max_unacked: usize,
    /// How long announcements are batched before they are sent.
    pub announce_after: Duration,
    /// How long a publication that was announced may take to come by itself.
    pub graft_after: Duration,
    /// How long a peer that was asked may take; doubles with every attempt, up to eight times.
    pub pull_timeout: Duration,
    /// The most publications of one publisher and topic that are asked for at once.
    pub pull_batch: usize,
    /// How long publications are looked for before they are named as a gap, after the last of them that came; twelve times as long
    /// at most.
    pub patience: Duration,
    /// How long a neighbour may take to acknowledge before a publication is called local only.
    pub accept_timeout: Duration,
    /// How often the highest numbers are told to every peer of a topic.
    pub heartbeat: Duration,
    /// How often once nothing has changed for ten heartbeats.
    pub idle_heartbeat: Duration,
    /// The most publishers told in one heartbeat; the others follow in the next ones.
    pub heads_per_beat: usize,
}

/// A publication is kept at the cost of larger shares for so many times the patience: longer than most cuts of a link last.
const FRESH: u32 = 6;

/// The settings contradict each other, or allow nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gossip settings: {0}")]
pub struct SettingsError(&'static str);

impl Default for Settings {
    fn default() -> Self {
        Self {
            relay_fanout: 8,
            forgive_hops: 8,
            burst_budget: 16,
            backlog: 1024,
            cache_messages: 32_768,
            cache_bytes: 64 << 20,
            dedupe_window: 32_768,
            history: 32,
            max_topics: 1024,
            max_publishers: 4096,
            remember: Duration::from_secs(600),
            max_unacked: 4096,
            announce_after: Duration::from_millis(20),
            graft_after: Duration::from_millis(200),
            pull_timeout: Duration::from_millis(300),
            pull_batch: 256,
            patience: Duration::from_secs(10),
            accept_timeout: Duration::from_secs(2),
            heartbeat: Duration::from_secs(1),
            idle_heartbeat: Duration::from_secs(15),
            heads_per_beat: 256,
        }
    }
}

impl Settings {
    /// What bounds the publications that are kept for peers that ask.
    pub(crate) fn cache_limits(&self) -> CacheLimits {
        let (messages, bytes) = (self.cache_messages, self.cache_bytes);
        CacheLimits { messages, bytes, fresh: self.patience * FRESH }
    }

    /// The settings, if an engine can live by them.
    ///
    /// # Errors
    /// [`SettingsError`] names the first rule that is broken.
    pub fn checked(self) -> Result<Self, SettingsError> {
        let positive = [
            self.relay_fanout,
            self.cache_messages,
            self.cache_bytes,
            self.max_topics,
            self.max_publishers,
            self.max_unacked,
            self.pull_batch,
            self.heads_per_beat,
        ];
        let rules = [
            (positive.iter().all(|&limit| limit > 0) && self.burst_budget > 0, "a limit is zero"),
            (
                self.dedupe_window.is_power_of_two() && (64..=1 << 20).contains(&self.dedupe_window),
                "dedupe_window is a power of two from 64 to 1048576",
            ),
            (self.history < self.dedupe_window as u64, "history is less than dedupe_window"),
            (
                self.pull_batch <= LIST_MAX && self.heads_per_beat <= HEADS_MAX,
                "a list is longer than a frame allows",
            ),
            (self.patience >= self.graft_after + self.pull_timeout, "patience leaves no time to ask"),
            (!self.heartbeat.is_zero() && self.idle_heartbeat >= self.heartbeat, "heartbeats out of order"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, broken)) => Err(SettingsError(broken)),
            None => Ok(self),
        }
    }
}

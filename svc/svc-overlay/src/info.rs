//! What operators see of peers and topics.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use oap::Topic;
use types::NodeId;

use crate::shared::Shared;

/// A peer with a session.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    /// The id of the peer.
    pub node: NodeId,
    /// The address of the peer.
    pub place: String,
    /// Whether this node dialled the peer.
    pub dialled: bool,
    /// The group whose keys were exchanged; none without TLS.
    pub key_exchange: Option<&'static str>,
    /// How long the session has lasted.
    pub up: Duration,
    /// How long ago the peer was heard.
    pub heard: Duration,
    /// Frames that came from it.
    pub frames_in: u64,
    /// Frames that were written to it.
    pub frames_out: u64,
    /// Publications that wait for it.
    pub queued: usize,
    /// Whether it said that it goes away.
    pub going: bool,
}

/// A topic that this node takes part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// The name of the topic.
    pub topic: Topic,
    /// Publications that came here since the node takes part.
    pub delivered: u64,
    /// Publications that subscribers here were told are missing; one gap counts for at most 1,024.
    pub missing: u64,
}

impl TopicInfo {
    /// Returns all topics, sorted by name.
    pub(crate) fn all(shared: &Shared) -> Vec<Self> {
        let counts = shared.supplies.counts().into_iter();
        counts.map(|(topic, (delivered, missing))| Self { topic, delivered, missing }).collect()
    }
}

impl PeerInfo {
    /// All of them, by node id.
    pub(crate) fn all(shared: &Shared) -> Vec<Self> {
        let now = shared.clock.now();
        let mut all: Vec<Self> = shared
            .peers
            .all()
            .into_iter()
            .map(|(_, conn)| Self {
                node: conn.peer,
                place: conn.place.clone(),
                dialled: conn.dialled,
                key_exchange: conn.key_exchange,
                up: now.since(conn.began),
                heard: now.since(conn.activity.last_heard()),
                frames_in: conn.frames_in.load(Relaxed),
                frames_out: conn.frames_out.load(Relaxed),
                queued: conn.outbox.queued(),
                going: conn.going.load(Relaxed),
            })
            .collect();
        all.sort_unstable_by_key(|peer| peer.node);
        all
    }
}

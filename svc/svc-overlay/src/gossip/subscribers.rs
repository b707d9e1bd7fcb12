//! Subscribers of this node, and what they hear.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use gossip::Packet;
use oap::{MessageId, Topic};
use ron_kernel::{
    queue::{SendError, Sender},
    topology::{Policy, QueueSpec},
};

use crate::{losses::LossReport, metrics::OverlayMetrics};
pub use gossip::Gap;

/// What a subscriber has not taken yet.
pub(crate) const SUBSCRIBER: QueueSpec = QueueSpec {
    name: "subscriber",
    capacity: 1024,
    policy: Policy::RejectNew,
    from: "gossip_shard",
    to: "one subscriber of this node",
    doc: "publications and gaps; a subscriber that falls behind is told how many it missed, and each is in the loss report",
};

/// What a subscriber hears.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// Something was published.
    Publication {
        /// Its name.
        id: MessageId,
        /// What was published.
        body: bytes::Bytes,
        /// How many links it came over; zero if it was published here.
        hops: u8,
        /// It was named in a gap before.
        late: bool,
    },
    /// Publications that will not be seen.
    Gap(Gap),
    /// The subscriber was too slow for so many publications.
    Lagging(u64),
}

/// A subscriber's end.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    pub(crate) number: u64,
    pub(crate) queue: Sender<Delivery>,
    /// Publications it was too slow for, and has not been told of.
    pub(crate) missed: Arc<AtomicU64>,
}

/// The subscribers of a shard, by topic.
#[derive(Debug, Default)]
pub(super) struct Subscribers(HashMap<Topic, Vec<Sink>>);

impl Subscribers {
    pub(super) fn add(&mut self, topic: Topic, sink: Sink) {
        self.0.entry(topic).or_default().push(sink);
    }

    /// Forgets a subscriber; returns whether the topic has another.
    pub(super) fn remove(&mut self, topic: &Topic, number: u64) -> bool {
        let Some(sinks) = self.0.get_mut(topic) else { return false };
        sinks.retain(|sink| sink.number != number);
        let is_left = !sinks.is_empty();
        if !is_left {
            self.0.remove(topic);
        }
        is_left
    }

    /// Nobody hears of the topic any more: subscriptions end.
    pub(super) fn end(&mut self, topic: &Topic) {
        self.0.remove(topic);
    }

    pub(super) fn has(&self, topic: &Topic) -> bool {
        self.0.contains_key(topic)
    }

    /// Hands a publication to everybody who wants it.
    pub(super) fn deliver(
        &self,
        packet: &Packet,
        hops: u8,
        late: bool,
        metrics: &OverlayMetrics,
        losses: &LossReport,
    ) {
        let Some(publication) = packet.publication() else { return };
        let Some(sinks) = self.0.get(&publication.id.topic) else { return };
        for sink in sinks {
            let (id, body) = (publication.id.clone(), publication.body.clone());
            match sink.queue.try_send(Delivery::Publication { id, body, hops, late }) {
                Ok(()) => drop(metrics.delivered.inc()),
                Err(SendError::Busy(_)) => {
                    sink.missed.fetch_add(1, Relaxed);
                    losses.add(publication.id.clone(), SUBSCRIBER.name, None, "lagging");
                }
                // Its end is being told.
                Err(SendError::Closed(_)) => {}
            }
        }
    }

    /// Tells everybody of a gap.
    pub(super) fn gap(&self, gap: &Gap, metrics: &OverlayMetrics) {
        let Some(sinks) = self.0.get(&gap.topic) else { return };
        let missing = gap.to.saturating_sub(gap.from).saturating_add(1);
        metrics.gaps.inc_by(missing);
        for sink in sinks {
            if let Err(SendError::Busy(_)) = sink.queue.try_send(Delivery::Gap(gap.clone())) {
                sink.missed.fetch_add(missing, Relaxed);
            }
        }
    }
}

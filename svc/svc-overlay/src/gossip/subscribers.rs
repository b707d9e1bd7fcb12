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

use types::Moment;

use super::retention::{EventId, Retained, Retention};
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
    /// The subscriber was too slow for so many publications, or came back too late for so many events.
    Lagging(u64),
    /// The subscriber came back, and what it heard last is not known here: the node was started again, or has left the topic
    /// meanwhile. What was published since then may be missing.
    NotResumed,
}

/// A subscriber's end.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    pub(crate) number: u64,
    pub(crate) queue: Sender<(EventId, Delivery)>,
    /// Publications it was too slow for, and has not been told of.
    pub(crate) missed: Arc<AtomicU64>,
}

/// The subscribers of a shard, by topic.
#[derive(Debug)]
pub(super) struct Subscribers {
    topics: HashMap<Topic, Audience>,
    /// The life of the node that events are numbered in.
    life: u64,
    /// How much is kept of each topic.
    retained: Retained,
}

/// Who hears of a topic, and what they were told lately.
#[derive(Debug)]
struct Audience {
    sinks: Vec<Sink>,
    retention: Retention,
    /// Nobody hears of it, and when that has lasted long enough.
    leave_at: Option<Moment>,
}

impl Subscribers {
    pub(super) fn new(life: u64, retained: Retained) -> Self {
        Self { topics: HashMap::new(), life, retained }
    }

    /// Events of a topic are kept from now on.
    pub(super) fn follow(&mut self, topic: Topic) {
        self.audience(topic).leave_at = None;
    }

    /// Adds a subscriber, which is told first what came after the event that it heard last.
    pub(super) fn add(&mut self, topic: Topic, sink: Sink, after: Option<EventId>) {
        let audience = self.audience(topic);
        audience.leave_at = None;
        if let Some(heard) = after {
            audience.resume(&sink, heard);
        }
        audience.sinks.push(sink);
    }

    /// Forgets a subscriber; whether it was the last, so that the topic may be left at `leave_at`.
    pub(super) fn remove(&mut self, topic: &Topic, number: u64, leave_at: Moment) -> bool {
        let Some(audience) = self.topics.get_mut(topic) else { return false };
        audience.sinks.retain(|sink| sink.number != number);
        let is_last = audience.sinks.is_empty();
        if is_last {
            audience.leave_at = Some(leave_at);
        }
        is_last
    }

    /// Whether anybody hears of a topic.
    pub(super) fn is_heard(&self, topic: &Topic) -> bool {
        self.topics.get(topic).is_some_and(|audience| !audience.sinks.is_empty())
    }

    /// When the first topic may be left.
    pub(super) fn next_leaving(&self) -> Option<Moment> {
        self.topics.values().filter_map(|audience| audience.leave_at).min()
    }

    /// Forgets the topics whose moment has come; those that are not configured are to be left.
    pub(super) fn take_unwanted(
        &mut self,
        now: Moment,
        is_configured: impl Fn(&Topic) -> bool,
    ) -> Vec<Topic> {
        let mut unwanted = Vec::new();
        self.topics.retain(|topic, audience| {
            let is_over = audience.leave_at.is_some_and(|at| at <= now);
            if is_over && is_configured(topic) {
                audience.leave_at = None;
                return true;
            }
            unwanted.extend(is_over.then(|| topic.clone()));
            !is_over
        });
        unwanted
    }

    /// Nobody hears of the topic any more: subscriptions end.
    pub(super) fn end(&mut self, topic: &Topic) {
        self.topics.remove(topic);
    }

    /// Whether a topic is wanted, or was until a while ago.
    pub(super) fn has(&self, topic: &Topic) -> bool {
        self.topics.contains_key(topic)
    }

    /// Hands a publication to everybody who wants it.
    pub(super) fn deliver(
        &mut self,
        packet: &Packet,
        hops: u8,
        late: bool,
        metrics: &OverlayMetrics,
        losses: &LossReport,
    ) {
        let Some(publication) = packet.publication() else { return };
        let Some(audience) = self.topics.get_mut(&publication.id.topic) else { return };
        let (id, body) = (publication.id.clone(), publication.body.clone());
        let delivery = Delivery::Publication { id, body, hops, late };
        let event = audience.retention.keep(delivery.clone());
        for sink in &audience.sinks {
            match sink.queue.try_send((event, delivery.clone())) {
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
    pub(super) fn gap(&mut self, gap: &Gap, metrics: &OverlayMetrics) {
        let Some(audience) = self.topics.get_mut(&gap.topic) else { return };
        let missing = gap.to.saturating_sub(gap.from).saturating_add(1);
        metrics.gaps.inc_by(missing);
        let event = audience.retention.keep(Delivery::Gap(gap.clone()));
        for sink in &audience.sinks {
            if let Err(SendError::Busy(_)) = sink.queue.try_send((event, Delivery::Gap(gap.clone()))) {
                sink.missed.fetch_add(missing, Relaxed);
            }
        }
    }

    fn audience(&mut self, topic: Topic) -> &mut Audience {
        let retention = || Retention::new(self.life, self.retained);
        let new = || Audience { sinks: Vec::new(), retention: retention(), leave_at: None };
        self.topics.entry(topic).or_insert_with(new)
    }
}

impl Audience {
    /// Tells a subscriber what came after an event. A new queue has room for all that is kept.
    fn resume(&self, sink: &Sink, heard: EventId) {
        let resumed = self.retention.after(heard);
        let first = match resumed.gone {
            Some(0) => None,
            Some(gone) => Some(Delivery::Lagging(gone)),
            None => Some(Delivery::NotResumed),
        };
        let first = first.map(|delivery| (heard, delivery));
        let kept = resumed.kept.into_iter().map(|(id, event)| (id, event.clone()));
        for event in first.into_iter().chain(kept) {
            if let Err(SendError::Busy(_)) = sink.queue.try_send(event) {
                sink.missed.fetch_add(1, Relaxed);
            }
        }
    }
}

//! A subscription of this node's own.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use oap::Topic;
use ron_kernel::queue::Receiver;

use crate::{
    error::OverlayError,
    gossip::{Delivery, EventId, SUBSCRIBER, Sink},
    shared::Shared,
};

/// What is published in a topic, from the moment it was asked for. Ends when dropped.
#[derive(Debug)]
pub struct Subscription {
    topic: Topic,
    number: u64,
    queue: Receiver<(EventId, Delivery)>,
    missed: Arc<AtomicU64>,
    /// Taken out of the queue, and said after that something was missed.
    held: Option<(EventId, Delivery)>,
    shared: Arc<Shared>,
}

impl Subscription {
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        topic: Topic,
        after: Option<EventId>,
    ) -> Result<Self, OverlayError> {
        let (sender, queue) = shared.scope.queue(&SUBSCRIBER, "subscribe");
        let (number, missed) = (shared.next_number(), Arc::<AtomicU64>::default());
        let sink = Sink { number, queue: sender, missed: Arc::clone(&missed) };
        let subscription =
            Self { topic: topic.clone(), number, queue, missed, held: None, shared: Arc::clone(shared) };
        shared.gossip.subscribe(topic, sink, after).await?;
        Ok(subscription)
    }

    /// What is heard next; [`None`] once the node takes part in nothing any more.
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.next_event().await.map(|(_, delivery)| delivery)
    }

    /// What is heard next, and where that is in what the node tells of the topic: with that id a subscriber that comes back
    /// goes on behind it. [`None`] once the node takes part in nothing any more.
    ///
    /// Cancel safe.
    pub async fn next_event(&mut self) -> Option<(EventId, Delivery)> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        let heard = self.queue.recv().await?;
        match self.missed.swap(0, Relaxed) {
            0 => Some(heard),
            missed => {
                // Whoever comes back after this has heard what was before it, and nothing of what was missed.
                let id = heard.0;
                self.held = Some(heard);
                Some((id.before(), Delivery::Lagging(missed)))
            }
        }
    }

    /// The topic.
    #[must_use]
    pub const fn topic(&self) -> &Topic {
        &self.topic
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.gossip.leave(self.topic.clone(), self.number);
    }
}

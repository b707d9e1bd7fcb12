//! A subscription of this node's own.

use std::sync::Arc;

use oap::Topic;
use ron_kernel::queue::Receiver;

use crate::{
    error::OverlayError,
    gossip::{By, Delivery, Due, EventId, Heard, SUBSCRIBER, Sink},
    shared::Shared,
};

/// What is published in a topic, from the moment it was asked for. Ends when dropped.
#[derive(Debug)]
pub struct Subscription {
    topic: Topic,
    number: u64,
    queue: Receiver<Heard>,
    due: Arc<Due>,
    /// Taken out of the queue, and said after that something was missed.
    held: Option<(EventId, Delivery)>,
    shared: Arc<Shared>,
}

impl Subscription {
    /// A subscription of which `room` bytes of bodies may wait.
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        topic: Topic,
        by: By,
        after: Option<EventId>,
        room: usize,
    ) -> Result<Self, OverlayError> {
        let (sender, queue) = shared.scope.queue(&SUBSCRIBER, "subscribe");
        let (number, due) = (shared.next_number(), Arc::<Due>::default());
        let sink = Sink::new(number, sender, &due, room);
        let subscription =
            Self { topic: topic.clone(), number, queue, due, held: None, shared: Arc::clone(shared) };
        shared.gossip.subscribe(topic, sink, by, after).await?;
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
        self.due.taken(&heard);
        let Heard { id, delivery, .. } = heard;
        match self.due.missed() {
            0 => Some((id, delivery)),
            missed => {
                // Whoever comes back after this has heard what was before it, and nothing of what was missed.
                self.held = Some((id, delivery));
                Some((id.before(), Delivery::Lagging(missed)))
            }
        }
    }

    /// Returns the topic of the subscription.
    #[must_use]
    pub const fn topic(&self) -> &Topic {
        &self.topic
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.gossip.leave_topic(&self.topic, self.number);
    }
}

//! The event bus: everybody hears everything, and a subscriber that falls behind knows how much it missed.

use std::sync::{Arc, OnceLock};

use tokio::sync::broadcast;

use crate::{Fault, metrics::Counter, readiness::Effect};
use ron_sync::phase::Phase;

/// Events kept for slow subscribers.
pub const BUS_CAPACITY: usize = 1024;

/// An event in the life of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelEvent {
    /// Somebody asks the node to stop. Publishing it is one of the ways to do so.
    Shutdown {
        /// The cause of the shutdown.
        cause: String,
    },
    /// The shutdown phase moved on.
    PhaseChanged(Phase),
    /// A supervised task failed and will be restarted.
    TaskFailed {
        /// The task, as `service/task`.
        task: String,
        /// How: a panic message, an error, `killed`.
        fault: String,
        /// Number of restarts so far.
        restarts: u32,
    },
    /// A supervised task failed too often and was given up.
    TaskGivenUp {
        /// The task, as `service/task`.
        task: String,
    },
    /// A readiness condition changed.
    Condition {
        /// The service that the condition belongs to.
        service: &'static str,
        /// The name of the condition.
        name: &'static str,
        /// What it does while it stands; `None` once it has cleared.
        effect: Option<Effect>,
        /// The reason why the condition is active.
        reason: String,
    },
    /// A new configuration is in force.
    ConfigApplied {
        /// Number of the configuration, counted from one.
        generation: u64,
        /// The settings that changed.
        changed: Vec<String>,
    },
    /// A configuration was refused; the old one stays in force.
    ConfigRefused {
        /// The problem with the configuration.
        problem: String,
    },
    /// A runtime has not answered for a second.
    CoreSilent {
        /// The name of the runtime.
        core: String,
    },
    /// A silent runtime answers again.
    CoreBack {
        /// The name of the runtime.
        core: String,
    },
}

/// The sending side. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bus {
    sender: broadcast::Sender<KernelEvent>,
    lagged: Counter,
    /// Why the node was first asked to stop. Kept, because a request made before the conductor listens, or lost in
    /// a burst, must not be lost.
    asked_to_stop: Arc<OnceLock<String>>,
}

impl Bus {
    /// A bus that counts what slow subscribers lose in `lagged`.
    #[must_use]
    pub fn new(lagged: Counter) -> Self {
        Self { sender: broadcast::channel(BUS_CAPACITY).0, lagged, asked_to_stop: Arc::default() }
    }

    /// Tells everybody who listens; nobody listening is fine.
    pub fn publish(&self, event: KernelEvent) {
        if let KernelEvent::Shutdown { cause } = &event {
            let _ = self.asked_to_stop.set(cause.clone());
        }
        let _ = self.sender.send(event);
    }

    /// The cause of the first [`KernelEvent::Shutdown`] ever published.
    pub(crate) fn asked_to_stop(&self) -> Option<&str> {
        self.asked_to_stop.get().map(String::as_str)
    }

    /// A subscription of one's own, from now on. Each task takes its own.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        Subscription { receiver: self.sender.subscribe(), lagged: self.lagged.clone() }
    }
}

/// The position of one subscriber in the stream of events.
#[derive(Debug)]
pub struct Subscription {
    receiver: broadcast::Receiver<KernelEvent>,
    lagged: Counter,
}

impl Subscription {
    /// The next event, or [`Fault::Lagging`] with how many were missed; `None` when the bus is gone.
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<Result<KernelEvent, Fault>> {
        match self.receiver.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                self.lagged.inc_by(missed);
                Some(Err(Fault::Lagging { missed }))
            }
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: usize) -> KernelEvent {
        KernelEvent::CoreBack { core: n.to_string() }
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_told_exactly_how_many_it_missed() {
        let bus = Bus::new(Counter::default());
        let mut slow = bus.subscribe();
        for n in 0..BUS_CAPACITY + 7 {
            bus.publish(event(n));
        }
        assert_eq!(slow.next().await, Some(Err(Fault::Lagging { missed: 7 })));
        assert_eq!(slow.next().await, Some(Ok(event(7))));
        assert_eq!(bus.lagged.get(), 7);
    }

    #[tokio::test]
    async fn a_bus_that_is_exactly_full_loses_nothing() {
        let bus = Bus::new(Counter::default());
        let mut subscriber = bus.subscribe();
        for n in 0..BUS_CAPACITY {
            bus.publish(event(n));
        }
        assert_eq!(subscriber.next().await, Some(Ok(event(0))));
        assert_eq!(bus.lagged.get(), 0);
    }

    #[tokio::test]
    async fn a_subscriber_hears_the_end_of_the_bus() {
        let bus = Bus::new(Counter::default());
        let mut subscriber = bus.subscribe();
        drop(bus);
        assert_eq!(subscriber.next().await, None);
    }
}

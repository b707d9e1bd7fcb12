//! Bounded queues, each with a declared policy for the moment it is full.
//!
//! There is one constructor, reached through [`crate::Scope`]: it takes the declaration, registers the depth sampler
//! and hands out both ends. A full queue counts `queue_dropped_total`, and `busy_rejections_total` where a caller
//! was told so.

mod receiver;
mod sender;

use std::{num::NonZeroUsize, sync::Arc};

pub use receiver::{Receiver, SharedReceiver};
pub use sender::{SendError, Sender};

use crate::{
    Scope,
    topology::{Policy, QueueSpec},
};

/// Makes a queue as declared; `told` gets what a `DropOldest` queue displaces.
pub(crate) fn build<T: Send + 'static>(
    scope: &Scope,
    spec: &'static QueueSpec,
    endpoint: &'static str,
    told: impl Fn(T) + Send + Sync + 'static,
) -> (Sender<T>, Receiver<T>) {
    let metrics = scope.metrics().queue(spec.name, endpoint);
    let depth = metrics.depth.clone();
    assert!(
        !matches!(spec.policy, Policy::Broadcast | Policy::Watch),
        "{}: this kind of channel is not a queue",
        spec.name
    );
    let capacity = NonZeroUsize::new(spec.capacity).expect("a queue holds at least one item");
    let (tx, rx) = ron_sync::queue::channel(capacity);
    let (sender, receiver) = (Sender::new(tx, spec, metrics, told), Receiver::new(rx));
    // Weak, so that sampling does not keep a queue open that all its senders have left.
    let weak = Arc::downgrade(&sender.shared);
    scope.sample_depth(spec, depth, weak);
    (sender, receiver)
}

//! The sending end: what a full queue does is the declaration's, not the caller's, choice.

use std::{fmt, sync::Arc, time::Duration};

use ron_sync::queue::{self, TrySendError};

use crate::{
    metrics::QueueMetrics,
    prober::Measured,
    topology::{Policy, QueueSpec},
};

/// The item comes back with the reason why it was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError<T> {
    /// The queue is full, and stayed so for as long as its policy waits.
    Busy(T),
    /// Nobody will take it any more.
    Closed(T),
}

impl<T> SendError<T> {
    /// Returns the item that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            Self::Busy(item) | Self::Closed(item) => item,
        }
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy(_) => "the queue is full",
            Self::Closed(_) => "the queue is closed",
        })
    }
}

impl<T: fmt::Debug> std::error::Error for SendError<T> {}

/// The sending end of a queue. Cheap to clone; the queue closes when the last clone goes.
pub struct Sender<T> {
    pub(super) shared: Arc<Shared<T>>,
}

pub(super) struct Shared<T> {
    queue: queue::Sender<T>,
    /// Gets what a `DropOldest` queue displaces.
    told: Box<dyn Fn(T) + Send + Sync>,
    spec: &'static QueueSpec,
    metrics: QueueMetrics,
}

impl<T: Send> Measured for Shared<T> {
    fn len(&self) -> usize {
        self.queue.len()
    }
}

impl<T> Sender<T> {
    pub(super) fn new(
        queue: queue::Sender<T>,
        spec: &'static QueueSpec,
        metrics: QueueMetrics,
        told: impl Fn(T) + Send + Sync + 'static,
    ) -> Self {
        Self { shared: Arc::new(Shared { queue, told: Box::new(told), spec, metrics }) }
    }

    /// Puts an item in without waiting, whatever the policy would allow.
    ///
    /// # Errors
    /// [`SendError::Busy`] if the queue is full and does not drop, [`SendError::Closed`] if nobody listens.
    pub fn try_send(&self, item: T) -> Result<(), SendError<T>> {
        self.offer(item).inspect_err(|error| self.count(error))
    }

    /// Puts an item in, waiting as the policy says: not at all, once, or up to its deadline.
    ///
    /// Cancel safe: an item that was not taken goes with the future, one that was taken stays.
    ///
    /// # Errors
    /// As [`Sender::try_send`], after the wait.
    pub async fn send(&self, item: T) -> Result<(), SendError<T>> {
        let item = match self.offer(item) {
            Ok(()) => return Ok(()),
            Err(SendError::Busy(item)) => item,
            Err(closed) => return Err(closed),
        };
        let result = match self.shared.spec.policy {
            Policy::RetryOnce { min, max } => {
                tokio::time::sleep(between(min, max)).await;
                self.offer(item)
            }
            Policy::Await { deadline } => self.wait(item, deadline).await,
            _ => Err(SendError::Busy(item)),
        };
        result.inspect_err(|error| self.count(error))
    }

    /// Counts an item that its sender forgets, because it exceeds a limit of the sender's own.
    pub fn count_dropped(&self) {
        self.shared.metrics.dropped.inc();
    }

    /// Items in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.queue.len()
    }

    /// Returns true if the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn offer(&self, item: T) -> Result<(), SendError<T>> {
        let Shared { queue, told, spec, metrics } = &*self.shared;
        if spec.policy == Policy::DropOldest {
            let displaced = queue.force_send(item).map_err(|closed| SendError::Closed(closed.0))?;
            if let Some(displaced) = displaced {
                metrics.dropped.inc();
                told(displaced);
            }
            return Ok(());
        }
        queue.try_send(item).map_err(|error| match error {
            TrySendError::Full(item) => SendError::Busy(item),
            TrySendError::Closed(item) => SendError::Closed(item),
        })
    }

    async fn wait(&self, item: T, deadline: Duration) -> Result<(), SendError<T>> {
        let mut sending = self.shared.queue.send(item);
        match tokio::time::timeout(deadline, &mut sending).await {
            Ok(sent) => sent.map_err(|closed| SendError::Closed(closed.0)),
            // A place may have come free at the last moment.
            Err(_) => sending.cancel().map_or(Ok(()), |item| Err(SendError::Busy(item))),
        }
    }

    fn count(&self, error: &SendError<T>) {
        if matches!(error, SendError::Busy(_)) {
            self.shared.metrics.dropped.inc();
            self.shared.metrics.busy.inc();
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({}, {}/{})", self.shared.spec.name, self.len(), self.shared.spec.capacity)
    }
}

/// A random duration in `[min, max]`, so that callers who failed together do not come back together.
fn between(min: Duration, max: Duration) -> Duration {
    let span = u64::try_from(max.saturating_sub(min).as_nanos()).unwrap_or(u64::MAX);
    min + Duration::from_nanos(fastrand::u64(0..=span))
}

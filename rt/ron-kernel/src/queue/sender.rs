//! The sending end: what a full queue does is the declaration's, not the caller's, choice.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::mpsc::{self, error::TrySendError};

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
    /// The item.
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
    end: End<T>,
    spec: &'static QueueSpec,
    metrics: QueueMetrics,
}

enum End<T> {
    Waiting(mpsc::Sender<T>),
    Dropping(ron_sync::drop_oldest::Sender<T>, Box<dyn Fn(T) + Send + Sync>),
}

impl<T: Send> Measured for Shared<T> {
    fn len(&self) -> usize {
        self.depth()
    }
}

impl<T> Shared<T> {
    fn depth(&self) -> usize {
        match &self.end {
            End::Waiting(tx) => tx.max_capacity() - tx.capacity(),
            End::Dropping(tx, _) => tx.len(),
        }
    }
}

impl<T> Sender<T> {
    pub(super) fn waiting(tx: mpsc::Sender<T>, spec: &'static QueueSpec, metrics: QueueMetrics) -> Self {
        Self { shared: Arc::new(Shared { end: End::Waiting(tx), spec, metrics }) }
    }

    pub(super) fn dropping(
        tx: ron_sync::drop_oldest::Sender<T>,
        spec: &'static QueueSpec,
        metrics: QueueMetrics,
        told: impl Fn(T) + Send + Sync + 'static,
    ) -> Self {
        Self { shared: Arc::new(Shared { end: End::Dropping(tx, Box::new(told)), spec, metrics }) }
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
        self.shared.depth()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn offer(&self, item: T) -> Result<(), SendError<T>> {
        match &self.shared.end {
            End::Waiting(tx) => match tx.try_reserve() {
                Ok(permit) => {
                    permit.send(item);
                    Ok(())
                }
                Err(TrySendError::Full(())) => Err(SendError::Busy(item)),
                Err(TrySendError::Closed(())) => Err(SendError::Closed(item)),
            },
            End::Dropping(tx, told) => match tx.send(item) {
                Ok(None) => Ok(()),
                Ok(Some(displaced)) => {
                    self.shared.metrics.dropped.inc();
                    told(displaced);
                    Ok(())
                }
                Err(closed) => Err(SendError::Closed(closed.0)),
            },
        }
    }

    async fn wait(&self, item: T, deadline: Duration) -> Result<(), SendError<T>> {
        let End::Waiting(tx) = &self.shared.end else {
            return self.offer(item);
        };
        match tokio::time::timeout(deadline, tx.reserve()).await {
            Ok(Ok(permit)) => {
                permit.send(item);
                Ok(())
            }
            Ok(Err(_)) => Err(SendError::Closed(item)),
            Err(_) => Err(SendError::Busy(item)),
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

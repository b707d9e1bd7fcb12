//! The receiving end, owned by one task or shared by a pool.

use std::fmt;

use ron_sync::queue;
use tokio::task::coop::cooperative;

use crate::supervisor::TaskCtx;

/// The receiving end of a queue.
pub struct Receiver<T>(queue::Receiver<T>);

impl<T> Receiver<T> {
    pub(super) fn new(queue: queue::Receiver<T>) -> Self {
        Self(queue)
    }

    /// The next item; `None` once the queue is closed and empty. A task that always finds one yields now and then.
    ///
    /// Cancel safe: an item is either returned or still in the queue.
    pub async fn recv(&mut self) -> Option<T> {
        cooperative(self.0.recv()).await
    }

    /// The next item if there is one now.
    pub fn try_recv(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }

    /// Refuses further items; those already in can still be taken.
    pub fn close(&mut self) {
        self.0.close();
    }

    /// An end that a pool of workers can share: each item goes to exactly one of them, and the queue outlives a
    /// worker that dies.
    #[must_use]
    pub fn share(self) -> SharedReceiver<T> {
        SharedReceiver(self.0)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

/// A receiving end shared by a pool. Cheap to clone. A receiver that waits for an item holds nothing that others need.
pub struct SharedReceiver<T>(queue::Receiver<T>);

impl<T> SharedReceiver<T> {
    /// The next item; `None` once the queue is closed and empty. A task that always finds one yields now and then.
    ///
    /// Cancel safe: an item is either returned or still in the queue.
    pub async fn recv(&self) -> Option<T> {
        cooperative(self.0.recv()).await
    }

    /// The next item; `None` once the task is to stop, whatever is queued, or the queue is closed and empty.
    ///
    /// Cancel safe: an item is either returned or still in the queue.
    pub async fn recv_until_stop(&self, ctx: &TaskCtx) -> Option<T> {
        cooperative(self.0.recv_until(ctx.stop())).await
    }

    /// The next item if there is one now.
    pub fn try_recv(&self) -> Option<T> {
        self.0.try_recv().ok()
    }

    /// Refuses further items; those already in can still be taken.
    pub fn close(&self) {
        self.0.close();
    }
}

impl<T> Clone for SharedReceiver<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for SharedReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedReceiver")
    }
}

//! The receiving end, owned by one task or shared by a pool.

use std::{fmt, sync::Arc};

use tokio::sync::{Mutex, mpsc};

/// The receiving end of a queue.
pub struct Receiver<T>(End<T>);

enum End<T> {
    Waiting(mpsc::Receiver<T>),
    Dropping(ron_sync::drop_oldest::Receiver<T>),
}

impl<T> Receiver<T> {
    pub(super) fn waiting(rx: mpsc::Receiver<T>) -> Self {
        Self(End::Waiting(rx))
    }

    pub(super) fn dropping(rx: ron_sync::drop_oldest::Receiver<T>) -> Self {
        Self(End::Dropping(rx))
    }

    /// The next item; `None` once the queue is closed and empty.
    ///
    /// Cancel safe: an item is either returned or still in the queue.
    pub async fn recv(&mut self) -> Option<T> {
        match &mut self.0 {
            End::Waiting(rx) => rx.recv().await,
            End::Dropping(rx) => rx.recv().await,
        }
    }

    /// The next item if there is one now.
    pub fn try_recv(&mut self) -> Option<T> {
        match &mut self.0 {
            End::Waiting(rx) => rx.try_recv().ok(),
            End::Dropping(rx) => rx.try_recv().ok(),
        }
    }

    /// Refuses further items; those already in can still be taken.
    pub fn close(&mut self) {
        match &mut self.0 {
            End::Waiting(rx) => rx.close(),
            End::Dropping(rx) => rx.close(),
        }
    }

    /// An end that a pool of workers can share: each item goes to exactly one of them, and the queue outlives a
    /// worker that dies.
    #[must_use]
    pub fn share(self) -> SharedReceiver<T> {
        SharedReceiver(Arc::new(Mutex::new(self)))
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

/// A receiving end shared by a pool. Cheap to clone.
#[derive(Debug)]
pub struct SharedReceiver<T>(Arc<Mutex<Receiver<T>>>);

impl<T> SharedReceiver<T> {
    /// The next item; `None` once the queue is closed and empty.
    ///
    /// Cancel safe: the wait for one's turn and the wait for an item both are.
    pub async fn recv(&self) -> Option<T> {
        self.0.lock().await.recv().await
    }

    /// Refuses further items; those already in can still be taken. Waits for whoever is receiving.
    ///
    /// Cancel safe.
    pub async fn close(&self) {
        self.0.lock().await.close();
    }
}

impl<T> Clone for SharedReceiver<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

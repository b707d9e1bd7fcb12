//! The receiving end, owned by one task or shared by a pool.

use std::{fmt, sync::Arc};

use tokio::sync::{Mutex, Notify, mpsc};

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
        SharedReceiver(Arc::new(Turns { receiver: Mutex::new(self), closing: Notify::new() }))
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

/// A receiving end shared by a pool. Cheap to clone.
#[derive(Debug)]
pub struct SharedReceiver<T>(Arc<Turns<T>>);

#[derive(Debug)]
struct Turns<T> {
    receiver: Mutex<Receiver<T>>,
    /// Tells whoever has the turn that the queue is to close.
    closing: Notify,
}

impl<T> SharedReceiver<T> {
    /// The next item; `None` once the queue is closed and empty.
    ///
    /// Cancel safe: the wait for one's turn and the wait for an item both are.
    #[expect(
        clippy::await_holding_invalid_type,
        reason = "the lock is the turn to receive; whoever waits for it has nothing else to do"
    )]
    pub async fn recv(&self) -> Option<T> {
        let mut turn = self.0.receiver.lock().await;
        tokio::select! {
            biased;
            () = self.0.closing.notified() => turn.close(),
            item = turn.recv() => return item,
        }
        turn.recv().await
    }

    /// Refuses further items; those already in can still be taken.
    ///
    /// Cancel safe: once it was polled, the queue closes with the next receive if not before.
    pub async fn close(&self) {
        // Whoever waits for an item has the turn, and with nothing coming in would have it forever.
        self.0.closing.notify_one();
        self.0.receiver.lock().await.close();
    }
}

impl<T> Clone for SharedReceiver<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

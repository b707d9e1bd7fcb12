//! The sending end.

use super::Shared;
use crate::sync::lock;
use std::{error::Error, fmt, sync::Arc};

/// The sending end of [`channel`](super::channel).
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The queue is closed; here is the item back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T>(pub T);

impl<T> Sender<T> {
    /// Takes over the one sender that a new queue counts.
    pub(super) fn first(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
    }

    /// Queues `item` without waiting. When the queue was full, the oldest item is returned, so that its owner
    /// can be told.
    ///
    /// # Errors
    /// [`Closed`] returns the item when the queue is closed.
    #[inline]
    pub fn send(&self, item: T) -> Result<Option<T>, Closed<T>> {
        let (displaced, waker) = {
            let mut state = lock(&self.shared.state);
            if state.closed {
                return Err(Closed(item));
            }
            state.push(item, self.shared.capacity.get())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(displaced)
    }

    /// How many items are queued.
    pub fn len(&self) -> usize {
        lock(&self.shared.state).items.len()
    }

    /// Whether no item is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most items the queue holds.
    pub fn capacity(&self) -> usize {
        self.shared.capacity.get()
    }

    /// Refuses every later send and lets receivers empty the queue.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Whether sends are refused.
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.state).closed
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.shared.state).senders += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let last = {
            let mut state = lock(&self.shared.state);
            state.senders -= 1;
            state.senders == 0
        };
        if last {
            self.shared.close();
        }
    }
}

/// Says nothing of the items, which may be secret.
impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// Says nothing of the item, which may be secret.
impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed(..)")
    }
}

impl<T> fmt::Display for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is closed")
    }
}

impl<T> Error for Closed<T> {}

//! The sending end.

use super::{Sending, Shared};
use crate::sync::lock;
use std::{error::Error, fmt, sync::Arc};

/// The sending end of [`channel`](super::channel).
pub struct Sender<T> {
    pub(super) shared: Arc<Shared<T>>,
}

/// The queue is closed; here is the item back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T>(pub T);

/// The reason why [`Sender::try_send`] returned the item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// No place is free at the moment.
    Full(T),
    /// The queue is closed.
    Closed(T),
}

impl<T> Sender<T> {
    /// Takes over the one sender that a new queue counts.
    pub(super) fn first(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
    }

    /// Queues `item` if there is room.
    ///
    /// # Errors
    /// [`TrySendError`] returns the item when the queue is full or closed.
    #[inline]
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        let waker = {
            let mut state = lock(&self.shared.state);
            if state.closed {
                return Err(TrySendError::Closed(item));
            }
            if state.is_full() {
                return Err(TrySendError::Full(item));
            }
            state.push(item)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Queues `item` once there is room; senders that wait are served first come, first served. Fails with [`Closed`],
    /// which returns the item, when the queue is closed before that.
    ///
    /// Cancel safe: a future that is dropped takes its item along, unless the queue has it. [`Sending::cancel`] tells
    /// which.
    pub fn send(&self, item: T) -> Sending<'_, T> {
        Sending::new(self, item)
    }

    /// Queues `item` without waiting. When the queue was full, the oldest item is returned, so that its owner
    /// can be told. It passes senders that wait for room.
    ///
    /// # Errors
    /// [`Closed`] returns the item when the queue is closed.
    #[inline]
    pub fn force_send(&self, item: T) -> Result<Option<T>, Closed<T>> {
        let (displaced, waker) = {
            let mut state = lock(&self.shared.state);
            if state.closed {
                return Err(Closed(item));
            }
            state.force(item)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(displaced)
    }

    /// Returns the number of queued items.
    pub fn len(&self) -> usize {
        lock(&self.shared.state).len()
    }

    /// Returns true if the queue is empty.
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

    /// Returns true if the queue is closed and sends are refused.
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

/// Says nothing of the item, which may be secret.
impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the queue is full",
            Self::Closed(_) => "the queue is closed",
        })
    }
}

impl<T> Error for TrySendError<T> {}

//! The receiving end, which a pool of workers may share.

use super::{Shared, state::Seat};
use crate::{
    phase::Reached,
    sync::{Wakes, lock},
};
use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// The receiving end of [`channel`](super::channel). Each item goes to exactly one of its clones.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

/// The reason why [`Receiver::try_recv`] returned no item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryRecvError {
    /// Nothing is queued at the moment.
    Empty,
    /// Nothing is queued and nothing will be.
    Closed,
}

impl<T> Receiver<T> {
    /// Takes over the one receiver that a new queue counts.
    pub(super) fn first(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
    }

    /// Waits for the next item; `None` once the queue is closed and empty.
    ///
    /// Cancel safe: an item leaves the queue only in the poll that returns it, and a future that was woken and
    /// then dropped wakes another receiver in its place.
    pub fn recv(&self) -> Recv<'_, T> {
        Recv { receiver: self, seat: None }
    }

    /// Waits for the next item; `None` once `end` has come, whatever is queued, or the queue is closed and empty.
    ///
    /// This is how a task receives until its stage of the drain: it notices the stage at any moment, and loses no item
    /// to it.
    ///
    /// Cancel safe, as [`Receiver::recv`] is.
    pub fn recv_until(&self, end: Reached) -> RecvUntil<'_, T> {
        RecvUntil { end, recv: self.recv() }
    }

    /// Takes the next item if one is queued.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] when nothing is queued, [`TryRecvError::Closed`] when nothing will be either.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut wakes = Wakes::default();
        let mut state = lock(&self.shared.state);
        let item = state.pop(&mut wakes);
        let none = if state.closed { TryRecvError::Closed } else { TryRecvError::Empty };
        drop(state);
        wakes.wake_all();
        item.ok_or(none)
    }

    /// Refuses every later send; what is queued can still be received.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Takes all that is queued at once, oldest first.
    pub fn drain(&self) -> Vec<T> {
        let mut wakes = Wakes::default();
        let items = lock(&self.shared.state).take_all(&mut wakes);
        wakes.wake_all();
        items.into()
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        lock(&self.shared.state).receivers += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// The last receiver closes the queue and drops what is left in it, so that an item's own `Drop` can tell its
/// owner.
impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut wakes = Wakes::default();
        let left_over = {
            let mut state = lock(&self.shared.state);
            state.receivers -= 1;
            if state.receivers > 0 {
                return;
            }
            // No receiver is left, so only senders are woken, to take their items back.
            state.close(&mut wakes);
            state.take_all(&mut wakes)
        };
        wakes.wake_all();
        drop(left_over);
    }
}

/// The future of [`Receiver::recv`].
#[must_use = "futures do nothing unless polled"]
pub struct Recv<'a, T> {
    receiver: &'a Receiver<T>,
    seat: Option<Seat>,
}

impl<T> Future for Recv<'_, T> {
    type Output = Option<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let receiver = self.receiver;
        let mut wakes = Wakes::default();
        let (received, stale_waker);
        {
            let mut state = lock(&receiver.shared.state);
            let item = state.pop(&mut wakes);
            if item.is_some() || state.closed {
                stale_waker = self.seat.take().and_then(|seat| state.leave_served(seat));
                received = Poll::Ready(item);
            } else {
                stale_waker = state.sleep(&mut self.seat, cx.waker());
                received = Poll::Pending;
            }
        }
        drop(stale_waker);
        wakes.wake_all();
        received
    }
}

impl<T> Drop for Recv<'_, T> {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let (heir, own_waker) = lock(&self.receiver.shared.state).leave_unserved(seat);
        drop(own_waker);
        if let Some(heir) = heir {
            heir.wake();
        }
    }
}

/// The future of [`Receiver::recv_until`].
#[must_use = "futures do nothing unless polled"]
pub struct RecvUntil<'a, T> {
    end: Reached,
    recv: Recv<'a, T>,
}

impl<T> Future for RecvUntil<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if Pin::new(&mut self.end).poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.recv).poll(cx)
    }
}

/// Says nothing of the items, which may be secret.
impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Recv<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recv").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for RecvUntil<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvUntil").field("end", &self.end).finish_non_exhaustive()
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the queue is empty",
            Self::Closed => "the queue is empty and closed",
        })
    }
}

impl Error for TryRecvError {}

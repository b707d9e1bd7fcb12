//! A send that waits for room.

use super::{
    Closed, Sender,
    state::{Offered, Seat},
};
use crate::sync::lock;
use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll},
};

/// The future of [`Sender::send`].
///
/// While it waits, the queue keeps its item, and takes it in when a place comes free: nobody can take the place
/// before it, and it needs no further poll.
#[must_use = "futures do nothing unless polled"]
pub struct Sending<'a, T> {
    sender: &'a Sender<T>,
    progress: Progress<T>,
}

enum Progress<T> {
    NotOffered(T),
    Waits(Seat),
    Done,
}

impl<'a, T> Sending<'a, T> {
    pub(super) fn new(sender: &'a Sender<T>, item: T) -> Self {
        Self { sender, progress: Progress::NotOffered(item) }
    }

    /// Gives the send up. Returns the item unless the queue has taken it.
    pub fn cancel(mut self) -> Option<T> {
        self.take_back()
    }

    fn take_back(&mut self) -> Option<T> {
        match mem::replace(&mut self.progress, Progress::Done) {
            Progress::NotOffered(item) => Some(item),
            Progress::Waits(seat) => {
                let withdrawn = lock(&self.sender.shared.state).withdraw(seat);
                withdrawn.map(|(item, _waker)| item)
            }
            Progress::Done => None,
        }
    }

    fn begin(&mut self, item: T, cx: &Context<'_>) -> Poll<Result<(), Closed<T>>> {
        let mut state = lock(&self.sender.shared.state);
        if state.closed {
            return Poll::Ready(Err(Closed(item)));
        }
        if state.is_full() {
            self.progress = Progress::Waits(state.offer(item, cx.waker()));
            return Poll::Pending;
        }
        let receiver = state.push(item);
        drop(state);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        Poll::Ready(Ok(()))
    }

    fn look(&mut self, seat: Seat, cx: &Context<'_>) -> Poll<Result<(), Closed<T>>> {
        // The lock is released at the end of the statement, before any waker is dropped.
        let offered = lock(&self.sender.shared.state).offered(seat, cx.waker());
        match offered {
            Offered::Taken => Poll::Ready(Ok(())),
            Offered::Waits(seat, _stale_waker) => {
                self.progress = Progress::Waits(seat);
                Poll::Pending
            }
            Offered::Refused(item, _waker) => Poll::Ready(Err(Closed(item))),
        }
    }
}

/// The item is moved, never borrowed in place.
impl<T> Unpin for Sending<'_, T> {}

impl<T> Future for Sending<'_, T> {
    type Output = Result<(), Closed<T>>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match mem::replace(&mut self.progress, Progress::Done) {
            Progress::NotOffered(item) => self.begin(item, cx),
            Progress::Waits(seat) => self.look(seat, cx),
            Progress::Done => panic!("a send was polled after it was done"),
        }
    }
}

impl<T> Drop for Sending<'_, T> {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

/// Says nothing of the item, which may be secret.
impl<T> fmt::Debug for Sending<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").finish_non_exhaustive()
    }
}

//! The future of an entry that may have to wait.

use super::{Arrival, Denied, Gate, Permit, Room, TicketId};
use std::{
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// The future of [`Gate::enter`].
#[must_use = "futures do nothing unless polled"]
pub struct Enter<R: Room> {
    state: State<R>,
}

enum State<R: Room> {
    Outside { gate: Arc<Gate<R>>, key: R::Key },
    Queued { gate: Arc<Gate<R>>, id: TicketId },
    Done,
}

impl<R: Room> Enter<R> {
    pub(super) fn new(gate: Arc<Gate<R>>, key: R::Key) -> Self {
        Self { state: State::Outside { gate, key } }
    }
}

/// The key is moved out, never pinned.
impl<R: Room> Unpin for Enter<R> {}

/// # Panics
/// When polled after it returned `Ready`, as futures may.
impl<R: Room> Future for Enter<R> {
    type Output = Result<Permit<R>, Denied<R::Denial>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match mem::replace(&mut self.state, State::Done) {
            State::Outside { gate, key } => match gate.arrive(key, cx.waker()) {
                Ok(Arrival::Entered(stay)) => Poll::Ready(Ok(Permit::counted(gate, stay))),
                Ok(Arrival::Queued(id)) => {
                    self.state = State::Queued { gate, id };
                    Poll::Pending
                }
                Err(denied) => Poll::Ready(Err(denied)),
            },
            State::Queued { gate, id } => match gate.poll_ticket(id, cx.waker()) {
                Poll::Ready(verdict) => Poll::Ready(verdict.map(|stay| Permit::counted(gate, stay))),
                Poll::Pending => {
                    self.state = State::Queued { gate, id };
                    Poll::Pending
                }
            },
            State::Done => panic!("an entry was polled after it had finished"),
        }
    }
}

impl<R: Room> Drop for Enter<R> {
    fn drop(&mut self) {
        if let State::Queued { gate, id } = mem::replace(&mut self.state, State::Done) {
            gate.abandon(id);
        }
    }
}

impl<R: Room> fmt::Debug for Enter<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Outside { .. } => "Enter(outside)",
            State::Queued { .. } => "Enter(queued)",
            State::Done => "Enter(done)",
        })
    }
}

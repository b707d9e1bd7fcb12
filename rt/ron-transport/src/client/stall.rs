//! The wait for a server that has stopped sending, timed without paying for servers that have not.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// A server that sent nothing for so long.
#[derive(Debug, thiserror::Error)]
#[error("the server stalled: nothing came for {0:?}")]
pub(super) struct Stalled(Duration);

/// Watches for a stall. There is no timer before the first wait; later waits share that one, which is set anew only
/// when it fires too early for the present wait.
pub(super) struct StallWatch {
    limit: Duration,
    /// When the present wait has lasted too long; `None` while nobody waits.
    over_at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl StallWatch {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, over_at: None, timer: None }
    }

    /// Something came.
    pub(super) fn progressed(&mut self) {
        self.over_at = None;
    }

    /// Nothing is there: begins a wait, or goes on with it. Ready once it has lasted too long.
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Stalled> {
        let over_at = *self.over_at.get_or_insert_with(|| Instant::now() + self.limit);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(over_at)));
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= over_at {
                return Poll::Ready(Stalled(self.limit));
            }
            timer.as_mut().reset(over_at);
        }
        Poll::Pending
    }
}

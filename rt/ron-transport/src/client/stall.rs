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

/// Watches for a stall. There is no timer before the first wait; later waits share that one, which is reset only
/// when it fires too early for the present wait.
pub(super) struct StallWatch {
    limit: Duration,
    /// When the present wait has lasted too long; `None` while nobody waits.
    over_at: Option<Instant>,
    /// What had been written when that was set.
    writes: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl StallWatch {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, over_at: None, writes: 0, timer: None }
    }

    /// Records that data arrived.
    pub(super) fn progressed(&mut self) {
        self.over_at = None;
    }

    /// Nothing is there: begins a wait, or goes on with it. Ready once it has lasted too long.
    ///
    /// A server that still takes the request, of which `writes` tells, has not stalled: it may answer at its end.
    pub(super) fn poll_wait(&mut self, writes: u64, cx: &mut Context<'_>) -> Poll<Stalled> {
        let mut over_at = self.over_at.unwrap_or_else(|| self.wait_anew(writes));
        let mut timer = self.timer.take().unwrap_or_else(|| Box::pin(sleep_until(over_at)));
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= over_at {
                if self.writes == writes {
                    return Poll::Ready(Stalled(self.limit));
                }
                over_at = self.wait_anew(writes);
            }
            timer.as_mut().reset(over_at);
        }
        self.timer = Some(timer);
        Poll::Pending
    }

    fn wait_anew(&mut self, writes: u64) -> Instant {
        let over_at = Instant::now() + self.limit;
        (self.over_at, self.writes) = (Some(over_at), writes);
        over_at
    }
}

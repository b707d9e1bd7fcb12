//! Whose turn it is while a request's body travels: the client's to send more of it, or the server's to answer.
//!
//! A server is timed only while it is its turn. A client that uploads slowly is timed by its own connection.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ron_kernel::Clock;
use types::{Deadline, Moment};

/// Tells since when a request's body leaves the server no excuse. Made by
/// [`Body::watch_upload`](crate::Body::watch_upload), and only for bodies that are still on their way.
#[derive(Clone, Debug)]
pub struct UploadWatch(Arc<AtomicU64>);

/// Stands for the client's turn; no moment is that late.
const CLIENTS_TURN: u64 = u64::MAX;

impl UploadWatch {
    pub(crate) fn begin(now: Moment) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_nanos())))
    }

    pub(crate) fn servers_turn(&self, now: Moment) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn clients_turn(&self) {
        self.0.store(CLIENTS_TURN, Ordering::Relaxed);
    }

    /// Since when it is the server's turn: the last piece of the body was taken then, or the body ended. `None` while
    /// the server has taken all there is and the client owes more.
    #[must_use]
    pub fn servers_turn_since(&self) -> Option<Moment> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos != CLIENTS_TURN).then(|| Moment::from_nanos(nanos))
    }

    /// Runs `work`, which sends the body and waits for the answer, until it has been the server's turn for `limit`;
    /// `None` if that came first. While it is the client's turn no time passes, so the client must have its own limit.
    ///
    /// Cancel safe if `work` is.
    pub async fn within<F: Future>(
        &self,
        clock: Clock,
        limit: Duration,
        mut work: Pin<&mut F>,
    ) -> Option<F::Output> {
        loop {
            let now = clock.now();
            let until = self.servers_turn_since().unwrap_or(now).after(limit);
            if until <= now {
                return None;
            }
            if let Some(done) = clock.by(Deadline::at(until), work.as_mut()).await {
                return Some(done);
            }
        }
    }
}

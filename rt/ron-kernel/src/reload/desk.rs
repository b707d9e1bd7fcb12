//! Reloads that somebody asks for and waits for, as an operator does with a command.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{Notify, oneshot};

use crate::lock::lock;

/// Callers that may wait for a reload at once.
const MAX_WAITING: usize = 16;

/// What came of a reload: the generation in force, or why the configuration was refused.
pub type Outcome = Result<u64, String>;

/// Why a caller is told nothing of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReload {
    /// Too many wait already.
    #[error("{MAX_WAITING} other requests already wait for a reload")]
    Busy,
    /// Nothing reloads here, or not yet.
    #[error("this node does not reload its configuration")]
    Unattended,
    /// The node stops, or the task that reloads was restarted meanwhile.
    #[error("the node cannot reload now: it is stopping, or was interrupted")]
    Stopped,
}

/// Where reloads are asked for. Clones are handles of the same desk.
#[derive(Clone, Debug, Default)]
pub struct ReloadDesk(Arc<Desk>);

#[derive(Debug, Default)]
struct Desk {
    /// Callers that wait for the outcome, at most [`MAX_WAITING`].
    waiting: Mutex<Vec<oneshot::Sender<Outcome>>>,
    asked: Notify,
    /// Whether the task that carries out reloads is running.
    is_attended: AtomicBool,
}

impl ReloadDesk {
    /// Somebody reloads from now on.
    pub(super) fn attend(&self) {
        self.0.is_attended.store(true, Ordering::Relaxed);
    }

    /// Asks for a reload that begins after this call, and waits for it.
    ///
    /// Cancel safe: the reload takes place all the same.
    ///
    /// # Errors
    /// [`NoReload`].
    pub async fn reload(&self) -> Result<Outcome, NoReload> {
        if !self.0.is_attended.load(Ordering::Relaxed) {
            return Err(NoReload::Unattended);
        }
        let outcome = {
            let mut waiting = lock(&self.0.waiting);
            waiting.retain(|caller| !caller.is_closed());
            if waiting.len() >= MAX_WAITING {
                return Err(NoReload::Busy);
            }
            let (caller, outcome) = oneshot::channel();
            waiting.push(caller);
            outcome
        };
        self.0.asked.notify_one();
        outcome.await.map_err(|_gone| NoReload::Stopped)
    }

    /// Waits until somebody asks; returns those who wait for the reload that follows.
    ///
    /// Cancel safe.
    pub(super) async fn callers(&self) -> Vec<oneshot::Sender<Outcome>> {
        loop {
            self.0.asked.notified().await;
            let callers = std::mem::take(&mut *lock(&self.0.waiting));
            if !callers.is_empty() {
                return callers;
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn everybody_who_waits_is_told_and_one_too_many_is_refused() {
        let desk = ReloadDesk::default();
        assert_eq!(desk.reload().await, Err(NoReload::Unattended));
        desk.attend();
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(desk.reload())).collect();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.iter_mut().all(|caller| caller.as_mut().poll(&mut cx).is_pending()));
        assert_eq!(desk.reload().await, Err(NoReload::Busy));
        desk.callers().await.into_iter().for_each(|caller| caller.send(Ok(7)).unwrap());
        for caller in waiting {
            assert_eq!(caller.await, Ok(Ok(7)));
        }
    }

    #[tokio::test]
    async fn a_caller_whose_reload_is_never_made_hears_so() {
        let desk = ReloadDesk::default();
        desk.attend();
        let (outcome, ()) = tokio::join!(desk.reload(), async { drop(desk.callers().await) });
        assert_eq!(outcome, Err(NoReload::Stopped));
    }
}

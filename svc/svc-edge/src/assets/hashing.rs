//! Turns at hashing large files that were not seen before: few files at once, and no client has all the turns.

use std::{sync::Arc, time::Duration};

use ron_sync::gate::{Fifo, Gate, Permit};
use types::{Reason, Refusal};

/// Large files that are hashed at once; each keeps a thread and a disk busy.
const AT_ONCE: u32 = 4;
/// Large files of one client that are hashed at once.
const AT_ONCE_EACH: u32 = 2;
/// Requests that wait for a turn, of all clients that have not got their own share.
const MAX_WAITING: usize = 1024;
/// Requests of one client that wait for a turn of its share.
const MAX_WAITING_EACH: usize = 64;
/// When to come back for a large file.
const WHEN_HASHED: Duration = Duration::from_secs(2);

/// The turns of all clients.
#[derive(Debug)]
pub(crate) struct Hashing(Arc<Gate<Fifo>>);

/// The turns of one client.
#[derive(Debug)]
pub(crate) struct HashingShare(Arc<Gate<Fifo>>);

/// The right to hash a large file, until it is dropped.
#[derive(Debug)]
pub(crate) struct HashingTurn {
    _turn: Permit<Fifo>,
    /// `None` for the node's own turns.
    _share: Option<Permit<Fifo>>,
}

impl Default for Hashing {
    fn default() -> Self {
        Self(Gate::new(AT_ONCE, Fifo::new(MAX_WAITING)))
    }
}

impl Default for HashingShare {
    fn default() -> Self {
        Self(Gate::new(AT_ONCE_EACH, Fifo::new(MAX_WAITING_EACH)))
    }
}

impl HashingShare {
    /// Whether the client has a turn or waits for one.
    pub(crate) fn is_used(&self) -> bool {
        self.0.inflight() > 0 || self.0.waiters() > 0
    }
}

impl Hashing {
    /// A turn for a client, once it has one.
    ///
    /// Cancel safe: dropping the future gives up the turn.
    ///
    /// # Errors
    /// As many requests wait for a turn as may.
    pub(crate) async fn turn(&self, share: &HashingShare) -> Result<HashingTurn, Refusal> {
        // The share first: a client must not wait more than that many times in the queue of all.
        let share = share.0.enter(()).await.map_err(|_| too_many())?;
        let turn = self.0.enter(()).await.map_err(|_| too_many())?;
        Ok(HashingTurn { _turn: turn, _share: Some(share) })
    }

    /// A turn for the node itself, once it has one.
    ///
    /// Cancel safe: dropping the future gives up the turn.
    ///
    /// # Errors
    /// As many requests wait for a turn as may.
    pub(crate) async fn own_turn(&self) -> Result<HashingTurn, Refusal> {
        let turn = self.0.enter(()).await.map_err(|_| too_many())?;
        Ok(HashingTurn { _turn: turn, _share: None })
    }
}

fn too_many() -> Refusal {
    Refusal::new(Reason::NotReady, "many large files are being hashed for the first time")
        .retry_after(WHEN_HASHED)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_client_has_its_share_and_leaves_turns_for_others() {
        let hashing = Hashing::default();
        let [one, other, third] = [(); 3].map(|()| HashingShare::default());
        let turn = |share| hashing.turn(share).now_or_never().map(Result::unwrap);
        let held: Vec<_> = std::iter::from_fn(|| turn(&one)).collect();
        assert_eq!((held.len(), one.is_used(), other.is_used()), (2, true, false));
        let others = [turn(&other), turn(&other)];
        assert!(others.iter().all(Option::is_some) && turn(&other).is_none());
        assert!(turn(&third).is_none(), "all turns are taken");
        drop(held);
        assert!(turn(&third).is_some() && !one.is_used());
    }

    #[tokio::test]
    async fn who_waits_gets_the_next_turn_and_too_many_are_refused() {
        let (hashing, share) = (Hashing::default(), HashingShare::default());
        let held = [hashing.turn(&share).await.unwrap(), hashing.turn(&share).await.unwrap()];
        let mut waiting: Vec<_> = (0..MAX_WAITING_EACH).map(|_| Box::pin(hashing.turn(&share))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        let refused = hashing.turn(&share).await.unwrap_err();
        assert_eq!((refused.reason, refused.retry_after), (Reason::NotReady, Some(WHEN_HASHED)));
        drop(held);
        let got = waiting.iter_mut().filter_map(|turn| turn.now_or_never()).filter(Result::is_ok).count();
        assert!(got >= 2, "those that came first have their turns: {got}");
    }
}

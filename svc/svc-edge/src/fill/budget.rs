//! The bytes that all fills together may have on their way, and how origins and clients share them.
//!
//! A fill takes the length of its object before it reads it. It waits if there is not as much left, or if its origin or its
//! client would have more than its share, unless the object is all that they have. A fill that fits passes those that do not;
//! of several that fit, the one whose client has least comes first.
//!
//! Small objects take nothing and wait for nobody, or one large object that comes slowly would hold all of them up. There are
//! no more of them at once than workers.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use ron_kernel::{
    Fault,
    blame::{self, ClientId},
    lock::{Ranked, RankedGuard},
};
use tokio::sync::oneshot;

use crate::locks;

/// Small objects take this part of the budget together, one in so many, beside it.
const FOR_SMALL: u64 = 8;
/// One client has at most this part of the budget, one in so many.
const FOR_CLIENT: u64 = 2;
/// This part of the budget, one in so many, is for other origins than one.
const FOR_OTHER_ORIGINS: u64 = 4;

/// The bytes that all fills together may have on their way. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Ranked<State>>);

/// Whose share a fill's bytes count towards.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    /// The entry of the list of origins.
    pub(super) origin: Arc<str>,
    /// The client that began the fill; fills that nobody began have no share.
    pub(super) client: ClientId,
}

/// A fill's part of the budget, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Part {
    budget: Budget,
    holder: Holder,
    bytes: u64,
    /// The length up to which an object takes nothing.
    small: u64,
    /// Whether it is about to be given back for another fill.
    is_left: AtomicBool,
}

/// What is taken, and who waits: no more fills than there are workers.
#[derive(Debug)]
struct State {
    total: u64,
    taken: u64,
    /// What is about to be given back for fills that wait.
    leaving: u64,
    origins: HashMap<Arc<str>, u64>,
    clients: HashMap<ClientId, u64>,
    waiting: Vec<Waiting>,
}

/// A fill that waits for bytes.
#[derive(Debug)]
struct Waiting {
    holder: Holder,
    bytes: u64,
    granted: oneshot::Sender<Part>,
}

/// The length up to which an object is small, in bytes, if there are so many workers.
pub(super) fn small(budget: u64, workers: usize) -> u64 {
    budget / FOR_SMALL / (workers as u64).max(1)
}

impl Budget {
    pub(super) fn new(total: u64) -> Self {
        let (origins, clients, waiting) = (HashMap::new(), HashMap::new(), Vec::new());
        let state = State { total, taken: 0, leaving: 0, origins, clients, waiting };
        Self(Arc::new(Ranked::new(&locks::FILL_BUDGET, state)))
    }

    /// The part of a fill whose object may turn out to be no longer than `small`.
    pub(super) fn take_small(&self, holder: Holder, small: u64) -> Part {
        Part { budget: self.clone(), holder, bytes: 0, small, is_left: AtomicBool::new(false) }
    }

    /// Waits for so many bytes.
    ///
    /// Cancel safe: a fill that stops waiting leaves nothing behind.
    ///
    /// # Errors
    /// [`Fault::Canceled`] if the budget is gone.
    pub(super) async fn take(&self, holder: Holder, bytes: u64) -> Result<Part, Fault> {
        let granted = {
            let mut state = self.state();
            if state.fits(&holder, (0, bytes), 0) {
                state.add(&holder, bytes);
                drop(state);
                return Ok(self.part(holder, bytes));
            }
            let (granted, waits) = oneshot::channel();
            state.waiting.retain(Waiting::is_here);
            state.waiting.push(Waiting { holder, bytes, granted });
            waits
        };
        granted.await.map_err(|_gone| Fault::Canceled)
    }

    /// Takes bytes back, and gives those who wait what fits now.
    fn give_back(&self, holder: &Holder, bytes: u64, was_left: bool) {
        let mut state = self.state();
        state.remove(holder, bytes);
        if was_left {
            state.leaving = state.leaving.saturating_sub(bytes);
        }
        let mut next = state.next();
        drop(state);
        while let Some(Waiting { holder, bytes, granted }) = next {
            // A fill that has stopped waiting just now gives it back by dropping it.
            drop(granted.send(self.part(holder, bytes)));
            next = self.state().next();
        }
    }

    fn part(&self, holder: Holder, bytes: u64) -> Part {
        Part { budget: self.clone(), holder, bytes, small: 0, is_left: AtomicBool::new(false) }
    }

    fn state(&self) -> RankedGuard<'_, State> {
        self.0.lock()
    }
}

impl Waiting {
    /// Whether the fill has not been given up.
    fn is_here(&self) -> bool {
        !self.granted.is_closed()
    }
}

impl State {
    /// Whether a holder that has `has` bytes for an object can have `more` for it, with `spare` bytes beside what is left.
    fn fits(&self, holder: &Holder, (has, more): (u64, u64), spare: u64) -> bool {
        let is_within = |all: u64, share: u64| all == has || all.saturating_add(more) <= share;
        let of_origin = self.origins.get(&holder.origin).copied().unwrap_or_default();
        let of_client = self.clients.get(&holder.client).copied().unwrap_or_default();
        self.taken.saturating_add(more) <= self.total.saturating_add(spare)
            && is_within(of_origin, self.total - self.total / FOR_OTHER_ORIGINS)
            && (holder.client == blame::NOBODY || is_within(of_client, self.total / FOR_CLIENT))
    }

    /// Whether a fill that waits would fit with `spare` bytes beside what is left.
    fn is_enough(&self, spare: u64) -> bool {
        let fits = |waiting: &Waiting| self.fits(&waiting.holder, (0, waiting.bytes), spare);
        self.waiting.iter().filter(|waiting| waiting.is_here()).any(fits)
    }

    /// Takes bytes for the fill that is next of those that wait, if one fits.
    fn next(&mut self) -> Option<Waiting> {
        self.waiting.retain(Waiting::is_here);
        let fitting = self.waiting.iter().enumerate();
        let fitting = fitting.filter(|(_, waiting)| self.fits(&waiting.holder, (0, waiting.bytes), 0));
        let of_client = |waiting: &Waiting| self.clients.get(&waiting.holder.client).copied();
        let (index, _) = fitting.min_by_key(|(_, waiting)| of_client(waiting))?;
        let waiting = self.waiting.remove(index);
        self.add(&waiting.holder, waiting.bytes);
        Some(waiting)
    }

    fn add(&mut self, holder: &Holder, bytes: u64) {
        self.taken += bytes;
        if bytes > 0 {
            *self.origins.entry(Arc::clone(&holder.origin)).or_default() += bytes;
            *self.clients.entry(holder.client).or_default() += bytes;
        }
    }

    fn remove(&mut self, holder: &Holder, bytes: u64) {
        self.taken = self.taken.saturating_sub(bytes);
        subtract(&mut self.origins, &holder.origin, bytes);
        subtract(&mut self.clients, &holder.client, bytes);
    }
}

/// Takes bytes from what somebody has; those who have nothing are forgotten.
fn subtract<K: Hash + Eq>(held: &mut HashMap<K, u64>, holder: &K, bytes: u64) {
    if let Some(all) = held.get_mut(holder) {
        *all = all.saturating_sub(bytes);
        if *all == 0 {
            held.remove(holder);
        }
    }
}

impl Part {
    /// Whether so many bytes are within it.
    pub(super) fn covers(&self, bytes: u64) -> bool {
        bytes <= self.small.max(self.bytes)
    }

    /// Whether the fill should give its bytes back: one that waits would fit then, and does not fit without that. The caller
    /// gives the fill up if so.
    pub(super) fn makes_way(&self) -> bool {
        let mut state = self.budget.state();
        let leaving = state.leaving;
        if self.bytes == 0 || state.is_enough(leaving) {
            return false;
        }
        state.remove(&self.holder, self.bytes);
        let would_do = state.is_enough(leaving);
        state.add(&self.holder, self.bytes);
        if would_do && !self.is_left.swap(true, Ordering::Relaxed) {
            state.leaving += self.bytes;
        }
        would_do
    }

    /// Takes more, until it is so many bytes in all, which are `holder`'s from now on. It does not wait: whoever holds some and
    /// waits for more could wait for somebody who does the same.
    ///
    /// # Errors
    /// [`Fault::Busy`] if there are not as many, or the origin or the client would have more than its share.
    pub(super) fn grow_to(&mut self, holder: Holder, bytes: u64) -> Result<(), Fault> {
        let more = bytes.saturating_sub(self.bytes);
        let mut state = self.budget.state();
        state.remove(&self.holder, self.bytes);
        state.add(&holder, self.bytes);
        self.holder = holder;
        if !state.fits(&self.holder, (self.bytes, more), 0) {
            return Err(Fault::Busy);
        }
        state.add(&self.holder, more);
        drop(state);
        self.bytes += more;
        Ok(())
    }

    /// Bytes that are in memory, and take their part of the budget until the last who has any of them lets go.
    pub(super) fn hold(mut self, bytes: Vec<u8>) -> Bytes {
        let surplus = self.bytes.saturating_sub(bytes.len() as u64);
        self.bytes -= surplus;
        self.budget.give_back(&self.holder, surplus, false);
        Bytes::from_owner(Held { bytes, _part: self })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.budget.give_back(&self.holder, self.bytes, *self.is_left.get_mut());
    }
}

/// Bytes in memory and their part of the budget.
struct Held {
    bytes: Vec<u8>,
    _part: Part,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn holder(origin: &str, client: ClientId) -> Holder {
        Holder { origin: origin.into(), client }
    }

    /// What a client gets of an origin at once.
    fn take(budget: &Budget, origin: &str, client: ClientId, bytes: u64) -> Option<Part> {
        budget.take(holder(origin, client), bytes).now_or_never().map(Result::unwrap)
    }

    #[test]
    fn small_objects_wait_for_nobody_and_take_their_part_once_they_are_not() {
        let budget = Budget::new(40);
        let all = take(&budget, "a", 1, 40).unwrap();
        let mut small = budget.take_small(holder("b", 2), 10);
        assert!(small.covers(10) && !small.covers(11) && !small.makes_way());
        assert_eq!(small.grow_to(holder("b", 2), 20), Err(Fault::Busy));
        drop(all);
        assert_eq!(small.grow_to(holder("b", 2), 20), Ok(()));
        assert!(small.covers(20) && !small.covers(21));
        // All of them together take an eighth.
        assert_eq!(
            (super::small(512 << 20, 8), super::small(1024, 512), super::small(0, 0)),
            (8 << 20, 0, 0)
        );
    }

    #[test]
    fn a_client_has_half_of_the_bytes_and_an_origin_leaves_a_quarter_to_others() {
        let budget = Budget::new(100);
        let first = take(&budget, "a", 1, 40).unwrap();
        assert!(take(&budget, "a", 1, 11).is_none(), "the client would have more than half");
        assert!(take(&budget, "b", 1, 11).is_none(), "wherever it gets it from");
        let second = take(&budget, "a", 2, 35).unwrap();
        assert!(take(&budget, "a", 3, 1).is_none(), "the origin would have more than three quarters");
        let third = take(&budget, "b", 3, 25).unwrap();
        assert!(take(&budget, "c", 4, 1).is_none(), "there is nothing left");
        drop((first, second, third));
        let whole = take(&budget, "a", 1, 100);
        assert!(whole.is_some(), "an object that is all that somebody has may take everything");
        drop(whole);
        let nobody = [take(&budget, "a", blame::NOBODY, 60), take(&budget, "b", blame::NOBODY, 40)];
        assert!(nobody.iter().all(Option::is_some), "nobody has no share");
        drop(nobody);
        let state = budget.state();
        assert_eq!((state.taken, state.origins.len(), state.clients.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn a_fill_that_fits_passes_those_that_do_not() {
        let budget = Budget::new(100);
        let mut held = take(&budget, "a", 1, 50).unwrap();
        let mut waits = [(1, 10), (2, 60), (3, 51)]
            .map(|(client, bytes)| Box::pin(budget.take(holder("b", client), bytes)));
        assert!(waits.iter_mut().all(|waits| waits.now_or_never().is_none()));
        let small = take(&budget, "b", 4, 30);
        assert!(small.is_some(), "others wait, and it does not wait behind them");
        drop(small);
        held.grow_to(holder("a", 1), 60).unwrap();
        assert_eq!(held.grow_to(holder("a", 1), 101), Err(Fault::Busy), "there are not as many");
        let [first, second, third] = waits;
        // One that has stopped waiting takes nothing.
        drop(second);
        drop(held);
        let (first, third) = (first.await.unwrap(), third.await.unwrap());
        assert_eq!(budget.state().taken, 61);
        drop((first, third));
        let state = budget.state();
        assert_eq!((state.taken, state.waiting.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_fill_makes_way_only_if_that_helps_one_that_waits() {
        let budget = Budget::new(100);
        let held = [take(&budget, "a", 1, 40).unwrap(), take(&budget, "b", 2, 40).unwrap()];
        assert!(held.iter().all(|part| !part.makes_way()), "nobody waits");
        let mut of_one = Box::pin(budget.take(holder("c", 1), 20));
        assert!((&mut of_one).now_or_never().is_none(), "its client would have more than half");
        assert!(held[0].makes_way() && !held[1].makes_way(), "the other one's bytes are of no use to it");
        drop(of_one);
        let mut waits = Box::pin(budget.take(holder("c", 3), 30));
        assert!((&mut waits).now_or_never().is_none());
        assert!(!held[1].makes_way(), "the first makes way already");
        drop(held);
        assert!(waits.await.is_ok());
        let state = budget.state();
        assert_eq!((state.taken, state.leaving), (0, 0));
    }

    #[test]
    fn an_object_that_others_want_takes_no_bytes_of_the_client_that_began_it() {
        let budget = Budget::new(100);
        let _slow = take(&budget, "a", 1, 50).unwrap();
        let mut part = budget.take_small(holder("b", 1), 10);
        assert_eq!(part.grow_to(holder("b", 1), 20), Err(Fault::Busy), "the client has its share");
        assert_eq!(part.grow_to(holder("b", blame::NOBODY), 20), Ok(()));
        assert_eq!(budget.state().clients[&1], 50);
    }

    #[tokio::test]
    async fn bytes_in_memory_take_their_part_until_nobody_has_any_of_them() {
        let budget = Budget::new(100);
        let kept = take(&budget, "a", 1, 50).unwrap().hold(vec![7; 20]);
        assert_eq!(budget.state().taken, 20);
        let rest = kept.slice(10..20);
        drop(kept);
        let mut all = Box::pin(budget.take(holder("a", 2), 100));
        assert!((&mut all).now_or_never().is_none(), "somebody has some of the bytes");
        drop(rest);
        assert!(all.await.is_ok());
    }
}

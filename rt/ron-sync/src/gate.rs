//! The admission gate: at most `limit` permits at once, and a waiting room that decides who is next.
//!
//! The fast path is one compare-and-swap of a packed word. Only arrivals that must wait, cancellations and
//! releases that somebody waits for take the lock around the [`Room`]. The releasing thread picks the next
//! ticket and marks it granted under that lock, then wakes it: the slot changes hands without ever being free,
//! so nobody can slip in between.
//!
//! While the lock is free, the word's waiters are the room's tickets, and if there are any, inflight is not
//! below the limit (unless the room holds them back, see [`Room::pop`], or keeps slots from those who would walk in, see
//! [`Room::walk_in_limit`]).

mod enter;
mod room;
mod tickets;
mod word;

pub use enter::Enter;
pub use room::{Fifo, Room, TicketId, Verdict};

use crate::sync::{Mutex, Wakes, lock};
use std::{
    error::Error,
    fmt,
    sync::Arc,
    task::{Poll, Waker},
};
use tickets::{TicketState, Tickets};
use word::{AtomicWord, Enlisted};

/// Admits at most `limit` holders at once; the others wait in a [`Room`].
pub struct Gate<R: Room> {
    word: AtomicWord,
    waiting: Mutex<Waiting<R>>,
}

/// The right to be inside; dropping it hands the slot to the next ticket or frees it.
#[must_use = "dropping a permit gives it back at once"]
pub struct Permit<R: Room> {
    gate: Arc<Gate<R>>,
    /// `None` once dropped.
    stay: Option<R::Stay>,
}

/// Why an entry was denied, with what the room said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Denied<D> {
    /// The room refused the newcomer.
    Refused(D),
    /// The ticket waited, then the room gave its place to a newcomer.
    Evicted(D),
    /// As many tickets wait as can be counted, see [`Gate::MAX_LIMIT`].
    Crowded,
    /// The gate is closed.
    Closed,
}

impl<R: Room> Gate<R> {
    /// The highest limit; a higher one is lowered to it. Also the most tickets that can wait.
    pub const MAX_LIMIT: u32 = word::FIELD_MAX;

    /// Makes an open gate. A limit of 0 lets nobody in until it is raised.
    pub fn new(limit: u32, room: R) -> Arc<Self> {
        let waiting = Mutex::new(Waiting { room, tickets: Tickets::new() });
        Arc::new(Self { word: AtomicWord::new(limit), waiting })
    }

    /// Enters at once, or not at all and gives the key back: fails when the gate is at its limit or closed, when a ticket
    /// waits, or when the room must see this key first.
    ///
    /// # Errors
    /// The key.
    pub fn try_enter(self: &Arc<Self>, key: R::Key) -> Result<Permit<R>, R::Key> {
        self.try_take(key).map(|stay| Permit::counted(Arc::clone(self), stay))
    }

    /// Like [`try_enter`](Self::try_enter), for owners that hold on to the gate in their own way: the slot is taken until
    /// [`give_back`](Self::give_back) is told.
    ///
    /// # Errors
    /// The key.
    pub fn try_take(&self, key: R::Key) -> Result<R::Stay, R::Key> {
        if R::walks_in(&key) && self.word.try_enter(R::walk_in_limit) {
            Ok(R::walk_in(key))
        } else {
            Err(key)
        }
    }

    /// Ends a stay that was [taken](Self::try_take) or that a permit [became](Permit::into_stay).
    pub fn give_back(&self, stay: R::Stay) {
        self.release(stay);
    }

    /// Enters, waiting in the room if need be. Nothing happens before the first poll.
    ///
    /// Cancel safe: dropping the future takes the ticket out of the room, or passes on the slot that it was
    /// granted but had not picked up.
    pub fn enter(self: &Arc<Self>, key: R::Key) -> Enter<R> {
        Enter::new(Arc::clone(self), key)
    }

    /// Changes the limit. Raising it admits waiting tickets at once; lowering it takes no permit back, it waits
    /// until enough of them are returned.
    pub fn set_limit(&self, limit: u32) {
        let mut wakes = Wakes::default();
        {
            let mut waiting = lock(&self.waiting);
            self.word.set_limit(limit);
            self.admit(&mut waiting, Slot::None, &mut wakes);
        }
        wakes.wake_all();
    }

    /// Denies every waiting ticket and all later entries. Permits that are out, and slots granted but not yet
    /// picked up, stay valid and are returned as usual.
    pub fn close(&self) {
        let mut wakes = Wakes::default();
        {
            let mut waiting = lock(&self.waiting);
            self.word.close();
            let Waiting { room, tickets } = &mut *waiting;
            tickets.close_all(|id, waker| {
                room.cancel(id);
                self.word.delist();
                wakes.push(waker);
            });
        }
        wakes.wake_all();
    }

    /// Looks at the room, or changes it, under the lock; then admits whom it lets. The visit must be short and must not
    /// touch the gate.
    pub fn with_room<T>(&self, visit: impl FnOnce(&mut R) -> T) -> T {
        let mut wakes = Wakes::default();
        let seen = {
            let mut waiting = lock(&self.waiting);
            let seen = visit(&mut waiting.room);
            self.admit(&mut waiting, Slot::None, &mut wakes);
            seen
        };
        wakes.wake_all();
        seen
    }

    /// How many permits are out, slots granted but not yet picked up included.
    pub fn inflight(&self) -> u32 {
        self.word.load().inflight()
    }

    /// Returns the number of waiting tickets.
    pub fn waiters(&self) -> u32 {
        self.word.load().waiters()
    }

    /// The most permits that may be out at once.
    pub fn limit(&self) -> u32 {
        self.word.load().limit()
    }

    /// Returns true if [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.word.load().is_closed()
    }

    fn arrive(&self, key: R::Key, waker: &Waker) -> Result<Arrival<R::Stay>, Denied<R::Denial>> {
        let walks_in = R::walks_in(&key);
        if walks_in && self.word.try_enter(R::walk_in_limit) {
            return Ok(Arrival::Entered(R::walk_in(key)));
        }
        let mut wakes = Wakes::default();
        let mut waiting = lock(&self.waiting);
        let arrival = match self.word.enlist(walks_in.then_some(R::walk_in_limit)) {
            Enlisted::Entered => Ok(Arrival::Entered(R::walk_in(key))),
            Enlisted::Waiting => self.queue(&mut waiting, key, waker, &mut wakes),
            Enlisted::Closed => Err(Denied::Closed),
            Enlisted::Crowded => Err(Denied::Crowded),
        };
        drop(waiting);
        wakes.wake_all();
        arrival
    }

    /// Shows a newcomer, already counted as a waiter, to the room.
    fn queue(
        &self,
        waiting: &mut Waiting<R>,
        key: R::Key,
        waker: &Waker,
        wakes: &mut Wakes,
    ) -> Result<Arrival<R::Stay>, Denied<R::Denial>> {
        let id = waiting.tickets.insert();
        match waiting.room.push(key, id) {
            Verdict::Queued => {}
            Verdict::Refused(said) => {
                waiting.tickets.leave(id);
                self.word.delist();
                return Err(Denied::Refused(said));
            }
            Verdict::Evicted(loser, said) => {
                match waiting.tickets.settle(loser, Err(Denied::Evicted(said))) {
                    Some(waker) => {
                        self.word.delist();
                        wakes.push(waker);
                    }
                    None => debug_assert!(false, "the room evicted {loser:?}, which does not wait"),
                }
            }
        }
        self.admit(waiting, Slot::None, wakes);
        // It may be its turn already. Nobody has been told its waker yet, so there is none to drop.
        match waiting.tickets.poll(id, waker).0 {
            Poll::Ready(verdict) => verdict.map(Arrival::Entered),
            Poll::Pending => Ok(Arrival::Queued(id)),
        }
    }

    fn poll_ticket(&self, id: TicketId, waker: &Waker) -> Poll<Result<R::Stay, Denied<R::Denial>>> {
        let (verdict, stale_waker) = lock(&self.waiting).tickets.poll(id, waker);
        drop(stale_waker);
        verdict
    }

    fn abandon(&self, id: TicketId) {
        let mut waiting = lock(&self.waiting);
        let left = waiting.tickets.leave(id);
        if matches!(left, Some(TicketState::Waiting(_))) {
            waiting.room.cancel(id);
            self.word.delist();
        }
        drop(waiting);
        if let Some(TicketState::Settled(Ok(stay))) = left {
            self.release(stay);
        }
    }

    fn release(&self, stay: R::Stay) {
        if !R::must_hear(&stay) && self.word.try_leave() {
            return;
        }
        let mut wakes = Wakes::default();
        {
            let mut waiting = lock(&self.waiting);
            waiting.room.returned(stay);
            self.admit(&mut waiting, Slot::Returned, &mut wakes);
        }
        wakes.wake_all();
    }

    /// Grants what is free to the tickets that are next, beginning with a returned slot.
    fn admit(&self, waiting: &mut Waiting<R>, mut slot: Slot, wakes: &mut Wakes) {
        loop {
            let word = self.word.load();
            if !word.can_admit(slot) {
                break;
            }
            let Some((id, stay)) = waiting.room.pop(word.inside(slot)) else { break };
            let Some(waker) = waiting.tickets.settle(id, Ok(stay)) else {
                debug_assert!(false, "the room returned {id:?}, which does not wait");
                break;
            };
            match slot {
                Slot::Returned => self.word.delist(),
                Slot::None => self.word.promote(),
            }
            slot = Slot::None;
            wakes.push(waker);
        }
        if slot == Slot::Returned {
            self.word.leave();
        }
    }
}

/// Whether a slot that still counts as inflight is there to be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    None,
    Returned,
}

/// Who waits, and in which order.
struct Waiting<R: Room> {
    room: R,
    tickets: Tickets<R::Stay, R::Denial>,
}

enum Arrival<S> {
    Entered(S),
    Queued(TicketId),
}

impl<R: Room> Permit<R> {
    /// Takes over a slot that the word already counts.
    fn counted(gate: Arc<Gate<R>>, stay: R::Stay) -> Self {
        Self { gate, stay: Some(stay) }
    }

    /// Returns what the room attached to this permit.
    pub fn stay(&self) -> &R::Stay {
        self.stay.as_ref().expect("a permit has its stay until it is dropped")
    }

    /// What it carried. The slot stays taken until the gate is [given it back](Gate::give_back).
    pub fn into_stay(mut self) -> R::Stay {
        self.stay.take().expect("a permit has its stay until it is dropped")
    }
}

impl<R: Room> Drop for Permit<R> {
    fn drop(&mut self) {
        if let Some(stay) = self.stay.take() {
            self.gate.release(stay);
        }
    }
}

impl<R: Room> fmt::Debug for Gate<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.word.load()).finish()
    }
}

impl<R: Room> fmt::Debug for Permit<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

impl<D> fmt::Display for Denied<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused(_) => "the waiting room refused the newcomer",
            Self::Evicted(_) => "the ticket made place for a newcomer",
            Self::Crowded => "no more tickets can wait",
            Self::Closed => "the gate is closed",
        })
    }
}

impl<D: fmt::Debug> Error for Denied<D> {}

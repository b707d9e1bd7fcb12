//! Waiting rooms: who may wait, and who is next.

use crate::order::Order;

/// One waiting ticket. An id is never used again, so a stale one names nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TicketId {
    pub(super) index: usize,
    pub(super) serial: u64,
}

impl TicketId {
    /// A small number that no other live ticket has, for rooms that keep their tickets in an array. It is lower
    /// than the most entries ever pending at once.
    pub fn index(self) -> usize {
        self.index
    }
}

/// A room's answer to a newcomer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The newcomer waits.
    Queued,
    /// The newcomer does not wait; the room keeps nothing of it.
    Refused,
    /// The newcomer waits, and this other ticket no longer does.
    Evicted(TicketId),
}

/// Decides who waits and who goes next.
///
/// Every call happens under the gate's one lock, so each should be O(1), must not panic, and must not touch the
/// gate. A room forgets a ticket when it pops, evicts or cancels it.
pub trait Room: Send + 'static {
    /// What the room must know of a newcomer, for example its tenant.
    type Key;

    /// Takes in a newcomer, or not.
    fn push(&mut self, key: Self::Key, id: TicketId) -> Verdict;

    /// Chooses and forgets the ticket that goes next. A room may return `None` to hold its tickets back; it is
    /// asked again at the next arrival, release or change of the limit, and the slot stays free until then.
    fn pop(&mut self) -> Option<TicketId>;

    /// Forgets a ticket that waits here: its future was dropped, or the gate closes.
    fn cancel(&mut self, id: TicketId);
}

/// The plain room: first come, first served; a newcomer is refused when it is full.
#[derive(Debug)]
pub struct Fifo {
    capacity: usize,
    tickets: Order<TicketId>,
}

impl Fifo {
    /// A room for `capacity` tickets; with 0, whoever cannot enter at once is refused.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, tickets: Order::new() }
    }
}

impl Room for Fifo {
    type Key = ();

    fn push(&mut self, (): (), id: TicketId) -> Verdict {
        if self.tickets.len() >= self.capacity {
            return Verdict::Refused;
        }
        self.tickets.push_back(id.index, id);
        Verdict::Queued
    }

    fn pop(&mut self) -> Option<TicketId> {
        self.tickets.pop_front()
    }

    fn cancel(&mut self, id: TicketId) {
        self.tickets.remove(id.index);
    }
}

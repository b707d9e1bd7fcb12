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

/// A room's answer to a new ticket, with the details for a refused one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<D> {
    /// The new ticket is queued.
    Queued,
    /// The newcomer does not wait; the room keeps nothing of it.
    Refused(D),
    /// The newcomer waits, and this other ticket no longer does.
    Evicted(TicketId, D),
}

/// Decides who waits and who goes next.
///
/// Every call that takes `self` happens under the gate's one lock, so each should be O(1), must not panic, and must not
/// touch the gate. A room forgets a ticket when it pops, evicts or cancels it.
pub trait Room: Send + 'static {
    /// What the room must know of a newcomer, for example its tenant.
    type Key;
    /// What a permit carries until it is returned, for example whom to charge for it.
    type Stay: Send + 'static;
    /// What the room says to those it denies, for example when to come back.
    type Denial: Send + 'static;

    /// Whether this newcomer may take a free slot that nobody waits for, without the room's knowledge. Called without
    /// the lock. Everybody else is shown to the room even then.
    fn walks_in(_key: &Self::Key) -> bool {
        true
    }

    /// How many may be inside, of a gate with this limit, for a newcomer to take a free slot without the room's knowledge.
    /// Slots beyond are given by the room alone. Called without the lock.
    fn walk_in_limit(limit: u32) -> u32 {
        limit
    }

    /// The stay of a newcomer that walked in. Called with or without the lock.
    fn walk_in(key: Self::Key) -> Self::Stay;

    /// Whether the room must hear of the end of this stay even if nobody waits for its slot. Called without the lock.
    fn must_hear(_stay: &Self::Stay) -> bool {
        false
    }

    /// Takes in a newcomer, or not.
    fn push(&mut self, key: Self::Key, id: TicketId) -> Verdict<Self::Denial>;

    /// Chooses and forgets the ticket that goes next, and makes its stay; `inside` says how many are inside already. A room may return `None` to hold its tickets
    /// back; it is asked again at the next arrival, release, visit or change of the limit, and the slot stays free until
    /// then.
    fn pop(&mut self, inside: u32) -> Option<(TicketId, Self::Stay)>;

    /// Forgets a ticket that waits here: its future was dropped, or the gate closes.
    fn cancel(&mut self, id: TicketId);

    /// A stay is over: somebody waited for its slot, or the room [had to hear](Self::must_hear) of it. Called before the
    /// slot is given to the next ticket.
    fn returned(&mut self, stay: Self::Stay);
}

/// The plain room: first come, first served; a newcomer is refused when it is full.
#[derive(Debug)]
pub struct Fifo {
    capacity: usize,
    tickets: Order<TicketId>,
}

impl Fifo {
    /// A room for `capacity` tickets; with 0, a ticket that cannot enter at once is refused.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, tickets: Order::new() }
    }
}

impl Room for Fifo {
    type Key = ();
    type Stay = ();
    type Denial = ();

    fn walk_in((): ()) {}

    fn push(&mut self, (): (), id: TicketId) -> Verdict<()> {
        if self.tickets.len() >= self.capacity {
            return Verdict::Refused(());
        }
        self.tickets.push_back(id.index, id);
        Verdict::Queued
    }

    fn pop(&mut self, _: u32) -> Option<(TicketId, ())> {
        self.tickets.pop_front().map(|id| (id, ()))
    }

    fn cancel(&mut self, id: TicketId) {
        self.tickets.remove(id.index);
    }

    fn returned(&mut self, (): ()) {}
}

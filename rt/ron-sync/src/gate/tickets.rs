//! The tickets whose futures are pending: how to wake them, and what was decided for them.

use super::{Denied, TicketId};
use crate::{slab::Slab, sync::refresh};
use std::task::{Poll, Waker};

/// One entry per pending [`Enter`](super::Enter), which keeps it until it has seen the decision or is dropped.
pub(super) struct Tickets {
    slab: Slab<Ticket>,
    next_serial: u64,
}

struct Ticket {
    serial: u64,
    state: TicketState,
}

pub(super) enum TicketState {
    /// It is in the room.
    Waiting(Waker),
    /// It was granted a slot or denied one, and its future has not seen that yet.
    Settled(Result<(), Denied>),
}

impl Tickets {
    pub(super) fn new() -> Self {
        Self { slab: Slab::new(), next_serial: 0 }
    }

    pub(super) fn insert(&mut self, waker: Waker) -> TicketId {
        let serial = self.next_serial;
        self.next_serial += 1;
        let index = self.slab.insert(Ticket { serial, state: TicketState::Waiting(waker) });
        TicketId { index, serial }
    }

    /// Decides a waiting ticket and returns its waker; nothing if it does not wait.
    pub(super) fn settle(&mut self, id: TicketId, verdict: Result<(), Denied>) -> Option<Waker> {
        self.state(id)?.settle(verdict)
    }

    /// Denies every waiting ticket.
    pub(super) fn deny_all(&mut self, denied: Denied, mut each: impl FnMut(TicketId, Waker)) {
        for (index, ticket) in self.slab.iter_mut() {
            if let Some(waker) = ticket.state.settle(Err(denied)) {
                each(TicketId { index, serial: ticket.serial }, waker);
            }
        }
    }

    /// Returns the decision and frees the entry, or stores `waker` for it. The second part is a waker to drop
    /// after unlocking.
    pub(super) fn poll(&mut self, id: TicketId, waker: &Waker) -> (Poll<Result<(), Denied>>, Option<Waker>) {
        match self.state(id).expect("only the future that polls its ticket removes it") {
            TicketState::Waiting(known) => (Poll::Pending, refresh(known, waker)),
            TicketState::Settled(verdict) => {
                let verdict = *verdict;
                self.slab.remove(id.index);
                (Poll::Ready(verdict), None)
            }
        }
    }

    /// Frees the entry and says how it was left.
    pub(super) fn leave(&mut self, id: TicketId) -> Option<TicketState> {
        self.state(id)?;
        self.slab.remove(id.index).map(|ticket| ticket.state)
    }

    fn state(&mut self, id: TicketId) -> Option<&mut TicketState> {
        let ticket = self.slab.get_mut(id.index)?;
        (ticket.serial == id.serial).then_some(&mut ticket.state)
    }
}

impl TicketState {
    fn settle(&mut self, verdict: Result<(), Denied>) -> Option<Waker> {
        if matches!(self, Self::Settled(_)) {
            return None;
        }
        match std::mem::replace(self, Self::Settled(verdict)) {
            Self::Waiting(waker) => Some(waker),
            Self::Settled(_) => None,
        }
    }
}

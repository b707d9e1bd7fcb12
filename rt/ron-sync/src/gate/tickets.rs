//! The tickets whose futures are pending: how to wake them, and what was decided for them.

use super::{Denied, TicketId};
use crate::{slab::Slab, sync::refresh};
use std::task::{Poll, Waker};

/// One entry per pending [`Enter`](super::Enter), which keeps it until it has seen the decision or is dropped.
///
/// `S` is what a granted slot carries, `D` what the room says to the denied.
pub(super) struct Tickets<S, D> {
    slab: Slab<Ticket<S, D>>,
    next_serial: u64,
}

struct Ticket<S, D> {
    serial: u64,
    state: TicketState<S, D>,
}

pub(super) enum TicketState<S, D> {
    /// The ticket is in the queue; this wakes its task.
    Waiting(Waker),
    /// It was granted a slot or denied one, and its future has not seen that yet.
    Settled(Result<S, Denied<D>>),
}

impl<S, D> Tickets<S, D> {
    pub(super) fn new() -> Self {
        Self { slab: Slab::new(), next_serial: 0 }
    }

    /// A ticket whose future has not said yet whom to wake.
    pub(super) fn insert(&mut self) -> TicketId {
        let serial = self.next_serial;
        self.next_serial += 1;
        let state = TicketState::Waiting(Waker::noop().clone());
        let index = self.slab.insert(Ticket { serial, state });
        TicketId { index, serial }
    }

    /// Decides a waiting ticket and returns its waker; nothing if it does not wait.
    pub(super) fn settle(&mut self, id: TicketId, verdict: Result<S, Denied<D>>) -> Option<Waker> {
        self.state(id)?.settle(verdict)
    }

    /// Denies every waiting ticket, because the gate closes.
    pub(super) fn close_all(&mut self, mut each: impl FnMut(TicketId, Waker)) {
        for (index, ticket) in self.slab.iter_mut() {
            if let Some(waker) = ticket.state.settle(Err(Denied::Closed)) {
                each(TicketId { index, serial: ticket.serial }, waker);
            }
        }
    }

    /// Returns the decision and frees the entry, or stores `waker` for it. The second part is a waker to drop
    /// after unlocking.
    pub(super) fn poll(
        &mut self,
        id: TicketId,
        waker: &Waker,
    ) -> (Poll<Result<S, Denied<D>>>, Option<Waker>) {
        let state = self.state(id).expect("only the future that polls its ticket removes it");
        if let TicketState::Waiting(known) = state {
            return (Poll::Pending, refresh(known, waker));
        }
        match self.leave(id) {
            Some(TicketState::Settled(verdict)) => (Poll::Ready(verdict), None),
            Some(TicketState::Waiting(_)) | None => {
                unreachable!("it was settled a moment ago, under the same lock")
            }
        }
    }

    /// Frees the entry and says how it was left.
    pub(super) fn leave(&mut self, id: TicketId) -> Option<TicketState<S, D>> {
        self.state(id)?;
        self.slab.remove(id.index).map(|ticket| ticket.state)
    }

    fn state(&mut self, id: TicketId) -> Option<&mut TicketState<S, D>> {
        let ticket = self.slab.get_mut(id.index)?;
        (ticket.serial == id.serial).then_some(&mut ticket.state)
    }
}

impl<S, D> TicketState<S, D> {
    fn settle(&mut self, verdict: Result<S, Denied<D>>) -> Option<Waker> {
        if matches!(self, Self::Settled(_)) {
            return None;
        }
        match std::mem::replace(self, Self::Settled(verdict)) {
            Self::Waiting(waker) => Some(waker),
            Self::Settled(_) => None,
        }
    }
}

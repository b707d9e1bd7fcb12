//! What the queue's lock guards: the items, the ends still alive and the receivers that sleep.

use crate::{
    order::Order,
    slab::Slab,
    sync::{Wakes, refresh},
};
use std::{collections::VecDeque, task::Waker};

/// Invariant: while items are queued, at least as many receivers are awake or woken as there are items, or no
/// receiver sleeps.
pub(super) struct State<T> {
    pub(super) items: VecDeque<T>,
    pub(super) closed: bool,
    pub(super) senders: usize,
    pub(super) receivers: usize,
    sleepers: Sleepers,
}

impl<T> State<T> {
    pub(super) fn new() -> Self {
        Self { items: VecDeque::new(), closed: false, senders: 1, receivers: 1, sleepers: Sleepers::new() }
    }

    pub(super) fn close(&mut self, wakes: &mut Wakes) {
        self.closed = true;
        while let Some(waker) = self.sleepers.wake_next() {
            wakes.push(waker);
        }
    }

    /// Queues `item`; returns the one it displaced and the receiver to wake.
    #[inline]
    pub(super) fn push(&mut self, item: T, capacity: usize) -> (Option<T>, Option<Waker>) {
        let displaced = if self.items.len() >= capacity { self.items.pop_front() } else { None };
        self.items.push_back(item);
        (displaced, self.sleepers.wake_next())
    }

    /// Puts the receiver of `seat` to sleep. Returns a waker to drop after unlocking.
    pub(super) fn sleep(&mut self, seat: &mut Option<Seat>, waker: &Waker) -> Option<Waker> {
        self.sleepers.sleep(seat, waker)
    }

    /// Frees a seat whose receiver takes an item with it, or the news of the close.
    pub(super) fn leave_served(&mut self, seat: Seat) -> Option<Waker> {
        self.sleepers.leave(seat)
    }

    /// Frees a seat whose receiver gives up. If it had been woken for an item that is still there, the next
    /// sleeper is returned, to be woken in its place; otherwise the second waker is only to be dropped.
    pub(super) fn leave_unserved(&mut self, seat: Seat) -> (Option<Waker>, Option<Waker>) {
        let own = self.sleepers.leave(seat);
        let was_woken = own.is_none();
        let heir = if was_woken && !self.items.is_empty() { self.sleepers.wake_next() } else { None };
        (heir, own)
    }
}

/// A sleeping or woken receiver's place; not `Copy`, so that it is freed once.
pub(super) struct Seat(usize);

/// Receivers in order of arrival. A seat that is taken but not in `asleep` has been woken and not polled since.
struct Sleepers {
    seats: Slab<()>,
    asleep: Order<Waker>,
}

impl Sleepers {
    fn new() -> Self {
        Self { seats: Slab::new(), asleep: Order::new() }
    }

    fn sleep(&mut self, seat: &mut Option<Seat>, waker: &Waker) -> Option<Waker> {
        let Seat(index) = seat.get_or_insert_with(|| Seat(self.seats.insert(())));
        if let Some(known) = self.asleep.get_mut(*index) {
            return refresh(known, waker);
        }
        self.asleep.push_back(*index, waker.clone());
        None
    }

    fn wake_next(&mut self) -> Option<Waker> {
        self.asleep.pop_front()
    }

    /// Returns the waker if the seat was still asleep.
    fn leave(&mut self, Seat(index): Seat) -> Option<Waker> {
        self.seats.remove(index);
        self.asleep.remove(index)
    }
}

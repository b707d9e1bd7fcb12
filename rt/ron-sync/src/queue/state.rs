//! What the queue's lock guards: the items, the ends still alive, and the senders and receivers that sleep.

use crate::{
    order::Order,
    slab::Slab,
    sync::{Wakes, refresh},
};
use std::{collections::VecDeque, task::Waker};

/// Invariants, whenever the lock is free:
/// * While items are queued, at least as many receivers are awake or woken as there are items, or no receiver sleeps.
/// * A sender waits only while the queue is full or closed.
pub(super) struct State<T> {
    capacity: usize,
    items: VecDeque<T>,
    pub(super) closed: bool,
    pub(super) senders: usize,
    pub(super) receivers: usize,
    sleepers: Line<Waker>,
    offers: Line<Offer<T>>,
}

/// The item of a sender that waits for room.
struct Offer<T> {
    item: T,
    waker: Waker,
}

/// What became of an item whose sender waits.
pub(super) enum Offered<T> {
    /// The item is in the queue.
    Taken,
    /// It still waits. The waker is to be dropped after unlocking.
    Waits(Seat, Option<Waker>),
    /// The queue was closed first. The waker is to be dropped after unlocking.
    Refused(T, Waker),
}

impl<T> State<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            items: VecDeque::new(),
            closed: false,
            senders: 1,
            receivers: 1,
            sleepers: Line::new(),
            offers: Line::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= self.capacity
    }

    /// Refuses further items. Senders that wait are woken to take theirs back.
    pub(super) fn close(&mut self, wakes: &mut Wakes) {
        self.closed = true;
        while let Some(waker) = self.sleepers.pop() {
            wakes.push(waker);
        }
        self.offers.each(|offer| wakes.push(offer.waker.clone()));
    }

    /// Queues `item`, for which there is room; returns the receiver to wake.
    #[inline]
    pub(super) fn push(&mut self, item: T) -> Option<Waker> {
        self.items.push_back(item);
        self.sleepers.pop()
    }

    /// Queues `item`, if need be in place of the oldest, which is returned.
    #[inline]
    pub(super) fn force(&mut self, item: T) -> (Option<T>, Option<Waker>) {
        let displaced = if self.is_full() { self.items.pop_front() } else { None };
        (displaced, self.push(item))
    }

    /// Takes the oldest item out and gives its place to the sender that has waited longest.
    #[inline]
    pub(super) fn pop(&mut self, wakes: &mut Wakes) -> Option<T> {
        let item = self.items.pop_front()?;
        self.admit(wakes);
        Some(item)
    }

    /// Takes everything out. Senders that wait get the places.
    pub(super) fn take_all(&mut self, wakes: &mut Wakes) -> VecDeque<T> {
        let items = std::mem::take(&mut self.items);
        self.admit(wakes);
        items
    }

    /// Queues the items of senders that wait, as far as there is room.
    fn admit(&mut self, wakes: &mut Wakes) {
        while !self.closed
            && !self.is_full()
            && let Some(Offer { item, waker }) = self.offers.pop()
        {
            wakes.push(waker);
            if let Some(receiver) = self.push(item) {
                wakes.push(receiver);
            }
        }
    }

    /// Puts `item` at the end of those that wait for room.
    pub(super) fn offer(&mut self, item: T, waker: &Waker) -> Seat {
        let mut seat = None;
        self.offers.sit(&mut seat, Offer { item, waker: waker.clone() })
    }

    /// Looks after an item that was offered.
    pub(super) fn offered(&mut self, seat: Seat, waker: &Waker) -> Offered<T> {
        if !self.closed
            && let Some(offer) = self.offers.get_mut(&seat)
        {
            let stale_waker = refresh(&mut offer.waker, waker);
            return Offered::Waits(seat, stale_waker);
        }
        match self.offers.leave(seat) {
            Some(Offer { item, waker }) => Offered::Refused(item, waker),
            None => Offered::Taken,
        }
    }

    /// Takes an offer back. What is returned is to be dropped after unlocking; nothing is, if the queue has the item.
    pub(super) fn withdraw(&mut self, seat: Seat) -> Option<(T, Waker)> {
        self.offers.leave(seat).map(|Offer { item, waker }| (item, waker))
    }

    /// Puts the receiver of `seat` to sleep. Returns a waker to drop after unlocking.
    pub(super) fn sleep(&mut self, seat: &mut Option<Seat>, waker: &Waker) -> Option<Waker> {
        if let Some(known) = seat.as_ref().and_then(|seat| self.sleepers.get_mut(seat)) {
            return refresh(known, waker);
        }
        *seat = Some(self.sleepers.sit(seat, waker.clone()));
        None
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
        let heir = if was_woken && !self.items.is_empty() { self.sleepers.pop() } else { None };
        (heir, own)
    }
}

/// The place of a future that sleeps or was woken; not `Copy`, so that it is freed once.
pub(super) struct Seat(usize);

/// Futures in order of arrival. A seat that is taken but not in `order` has been served and not polled since.
struct Line<E> {
    seats: Slab<()>,
    order: Order<E>,
}

impl<E> Line<E> {
    fn new() -> Self {
        Self { seats: Slab::new(), order: Order::new() }
    }

    /// Puts `entry` at the end of the line, on the seat its future has or on a new one.
    fn sit(&mut self, seat: &mut Option<Seat>, entry: E) -> Seat {
        let Seat(index) = seat.take().unwrap_or_else(|| Seat(self.seats.insert(())));
        self.order.push_back(index, entry);
        Seat(index)
    }

    fn get_mut(&mut self, Seat(index): &Seat) -> Option<&mut E> {
        self.order.get_mut(*index)
    }

    fn pop(&mut self) -> Option<E> {
        self.order.pop_front()
    }

    fn each(&self, look: impl FnMut(&E)) {
        self.order.each(look);
    }

    /// Frees a seat; returns the entry if it was still in line.
    fn leave(&mut self, Seat(index): Seat) -> Option<E> {
        self.seats.remove(index);
        self.order.remove(index)
    }
}

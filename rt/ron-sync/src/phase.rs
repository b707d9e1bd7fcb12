//! The shutdown sequence as one value that only moves forward, and futures that wait for a part of it.

use crate::{
    slab::Slab,
    sync::{AtomicU8, Mutex, Ordering, lock, refresh},
};
use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// Where a node is in its life. Later phases compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The node is running.
    Running,
    /// Winding down, stage by stage.
    Draining(Stage),
    /// Out of time, or told twice: what still runs is cut off.
    Aborting,
    /// Nothing runs any more.
    Stopped,
}

/// The stages of draining, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Readiness says no, so that balancers turn away while everything still works.
    Readiness,
    /// Listeners and inboxes take nothing new.
    Intake,
    /// Workers finish what was taken in.
    Workers,
    /// Writers flush what the workers produced.
    Writers,
    /// What the others relied on ends last, such as the admin listener and the metrics.
    Support,
}

/// A shared phase; clones are handles to the same one.
#[derive(Clone)]
pub struct PhaseCell {
    shared: Arc<Shared>,
}

struct Shared {
    /// The current phase's rank. Changes only under the lock, together with the freeing of the seats it serves.
    rank: AtomicU8,
    seats: Mutex<Slab<Seat>>,
}

/// A future that waits. The advance that reaches its target frees it; until then the future owns it.
struct Seat {
    target: Phase,
    waker: Waker,
}

impl Phase {
    const ALL: [Self; 8] = [
        Self::Running,
        Self::Draining(Stage::Readiness),
        Self::Draining(Stage::Intake),
        Self::Draining(Stage::Workers),
        Self::Draining(Stage::Writers),
        Self::Draining(Stage::Support),
        Self::Aborting,
        Self::Stopped,
    ];

    fn rank(self) -> u8 {
        match self {
            Self::Running => 0,
            Self::Draining(stage) => 1 + stage as u8,
            Self::Aborting => 6,
            Self::Stopped => 7,
        }
    }

    fn from_rank(rank: u8) -> Self {
        Self::ALL.get(usize::from(rank)).copied().unwrap_or(Self::Stopped)
    }
}

impl PhaseCell {
    /// Makes a latch in [`Phase::Running`].
    pub fn new() -> Self {
        let shared = Shared { rank: AtomicU8::new(Phase::Running.rank()), seats: Mutex::new(Slab::new()) };
        Self { shared: Arc::new(shared) }
    }

    /// The current phase: one atomic load.
    pub fn get(&self) -> Phase {
        Phase::from_rank(self.shared.rank.load(Ordering::Acquire))
    }

    /// Moves to `to` if that is later than the current phase, and says whether it was. Phases may be skipped; those
    /// who wait for a skipped one are woken too.
    pub fn advance(&self, to: Phase) -> bool {
        let reached = {
            let mut seats = lock(&self.shared.seats);
            if to <= self.get() {
                return false;
            }
            self.shared.rank.store(to.rank(), Ordering::Release);
            seats.extract(|seat| seat.target <= to)
        };
        for seat in reached {
            seat.waker.wake();
        }
        true
    }

    /// Waits until the phase is `target` or later.
    ///
    /// Cancel safe: it keeps nothing but its place among the waiters, which it gives up when dropped.
    pub fn reached(&self, target: Phase) -> Reached {
        Reached { cell: self.clone(), target, seat: None }
    }

    /// How many futures wait, of those that were polled.
    pub fn waiting(&self) -> usize {
        lock(&self.shared.seats).len()
    }
}

impl Default for PhaseCell {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PhaseCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PhaseCell").field(&self.get()).finish()
    }
}

/// The future of [`PhaseCell::reached`]. Polling it again with the same waker is one atomic load.
#[must_use = "futures do nothing unless polled"]
pub struct Reached {
    cell: PhaseCell,
    target: Phase,
    /// The seat's index, and the waker it holds, to compare without the lock.
    seat: Option<(usize, Waker)>,
}

impl Reached {
    fn is_reached(&self) -> bool {
        self.cell.get() >= self.target
    }

    /// Takes a seat, or puts `waker` in the one it has; returns its index, or nothing if the target is reached.
    fn register(&self, waker: &Waker) -> Option<usize> {
        let mut seats = lock(&self.cell.shared.seats);
        if self.is_reached() {
            return None;
        }
        let known = self.seat.as_ref().map(|&(index, _)| index);
        if let Some((index, seat)) = known.and_then(|index| Some((index, seats.get_mut(index)?))) {
            let stale_waker = refresh(&mut seat.waker, waker);
            drop(seats);
            drop(stale_waker);
            return Some(index);
        }
        Some(seats.insert(Seat { target: self.target, waker: waker.clone() }))
    }
}

impl Future for Reached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Seats are served after the phase has changed, so a registered future that still sees the old phase is
        // yet to be woken, and needs no lock to know it.
        if self.is_reached() {
            self.seat = None;
            return Poll::Ready(());
        }
        if self.seat.as_ref().is_some_and(|(_, known)| known.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        self.seat = self.register(cx.waker()).map(|index| (index, cx.waker().clone()));
        if self.seat.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        let Some((index, _)) = self.seat.take() else {
            return;
        };
        let mut seats = lock(&self.cell.shared.seats);
        // Once the target is reached the seat is gone, and its index may be another's.
        let seat = if self.is_reached() { None } else { seats.remove(index) };
        drop(seats);
        drop(seat);
    }
}

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reached").field(&self.target).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Phase;

    #[test]
    fn the_ranks_are_the_declared_order_without_gaps() {
        assert!(Phase::ALL.is_sorted_by(|earlier, later| earlier < later));
        for (rank, phase) in (0..).zip(Phase::ALL) {
            assert_eq!((phase.rank(), Phase::from_rank(rank)), (rank, phase));
        }
    }
}

//! The locks and atomics of this crate: std's, or loom's when the models run.
//!
//! `Arc` is std's in both cases: loom's cannot be a method receiver, and without unsafe code its counting needs
//! no model.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU8, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU8, AtomicU64, Ordering},
};
use std::{sync::PoisonError, task::Waker};

/// Locks, and carries on after a panic elsewhere: each critical section leaves its data consistent at every
/// step that could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The read that begins a compare-and-swap loop.
#[cfg(not(loom))]
pub(crate) fn load_to_swap(atomic: &AtomicU64) -> u64 {
    atomic.load(Ordering::Acquire)
}

/// Loom remembers only the latest access to an atomic. A plain load here would hide another thread's earlier load
/// from the swap that follows, and loom would not try the order in which the swap comes first. A write that
/// changes nothing does not hide it.
#[cfg(loom)]
pub(crate) fn load_to_swap(atomic: &AtomicU64) -> u64 {
    atomic.fetch_or(0, Ordering::Acquire)
}

/// Wakers collected under a lock, to be woken after it. The first one costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl Wakes {
    pub(crate) fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.rest.push(waker);
        }
    }

    /// Call with no lock held: an executor may run the woken task at once, on this thread.
    pub(crate) fn wake_all(self) {
        for waker in self.first.into_iter().chain(self.rest) {
            waker.wake();
        }
    }
}

/// Stores `new` unless `slot` already wakes the same task. Returns the waker that was replaced, for the caller
/// to drop after unlocking: dropping a waker may drop a task, and with it anything.
pub(crate) fn refresh(slot: &mut Waker, new: &Waker) -> Option<Waker> {
    (!slot.will_wake(new)).then(|| std::mem::replace(slot, new.clone()))
}

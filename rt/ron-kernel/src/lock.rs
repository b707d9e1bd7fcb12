//! Locks with a rank, and a check that nothing waits while it holds one.
//!
//! A thread may take a lock only if its rank is above every rank it holds, so two threads can never wait for each
//! other. Debug builds assert it, and name both locks; release builds carry no trace of it, and a [`Ranked`] costs
//! what its mutex costs. Ranks are compared across services, because a thread can be in several.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    task::{Context, Poll},
};

use crate::topology::LockSpec;

/// A mutex with a declared name and rank.
pub struct Ranked<T> {
    spec: &'static LockSpec,
    value: Mutex<T>,
}

impl<T> Ranked<T> {
    /// A lock as declared by `spec`, around `value`. The topology of the service has to list `spec`: where there is a scope,
    /// [`crate::Scope::lock`] sees to that; the rules of `tests/tidy` do everywhere.
    pub const fn new(spec: &'static LockSpec, value: T) -> Self {
        Self { spec, value: Mutex::new(value) }
    }

    /// Waits for the lock. A panic of an earlier holder does not spoil it: what it protects must be sound at each step.
    ///
    /// # Panics
    /// In debug builds, if this thread already holds a lock of this rank or a higher one.
    pub fn lock(&self) -> RankedGuard<'_, T> {
        // First the check: a thread that takes the same lock twice should hear of it rather than hang.
        let place = order::Place::take(self.spec);
        RankedGuard { value: lock(&self.value), _place: place }
    }

    /// The lock if nobody has it.
    ///
    /// # Panics
    /// As [`Ranked::lock`]: a lock that is free today is taken tomorrow.
    pub fn try_lock(&self) -> Option<RankedGuard<'_, T>> {
        let place = order::Place::take(self.spec);
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(RankedGuard { value, _place: place })
    }

    /// What it protects, for its only owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the protected value.
    pub fn into_inner(self) -> T {
        self.value.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Ranked<T> {
    /// The name and rank only: looking inside would take the lock, and could show a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ranked({}, rank {})", self.spec.name, self.spec.rank)
    }
}

/// Access to what a [`Ranked`] protects, until it is dropped. It cannot leave its thread.
#[must_use = "the lock is released when the guard is dropped"]
pub struct RankedGuard<'a, T> {
    value: MutexGuard<'a, T>,
    _place: order::Place,
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> fmt::Debug for RankedGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RankedGuard")
    }
}

/// Takes a plain mutex, one that nothing else is locked under. A panic of an earlier holder does not spoil it: what it
/// protects must be sound at each step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many ranked locks this thread holds. Always zero in release builds, which do not keep count.
#[must_use]
pub fn held() -> usize {
    order::names().len()
}

pin_project_lite::pin_project! {
    /// A future that must not wait while it holds a ranked lock. Debug builds assert it whenever it is pending; release
    /// builds pass every poll through.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct NoLockAcrossAwait<F> {
        #[pin]
        inner: F,
    }
}

impl<F> NoLockAcrossAwait<F> {
    /// Wraps `inner`, so that it is watched while it is polled.
    pub const fn new(inner: F) -> Self {
        Self { inner }
    }
}

impl<F: Future> Future for NoLockAcrossAwait<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.project().inner.poll(cx);
        if polled.is_pending() {
            let held = order::names();
            assert!(held.is_empty(), "an await while holding {}: release it first", held.join(", "));
        }
        polled
    }
}

/// Tracks which locks each thread holds, to check their order.
#[cfg(debug_assertions)]
mod order {
    use std::cell::RefCell;

    use crate::topology::LockSpec;

    thread_local! {
        /// At most one per rank, because equal ranks exclude each other.
        static HELD: RefCell<Vec<&'static LockSpec>> = const { RefCell::new(Vec::new()) };
    }

    /// A place among the locks this thread holds, given up when dropped, in whatever order.
    pub(super) struct Place(u8);

    impl Place {
        pub(super) fn take(wanted: &'static LockSpec) -> Self {
            let highest = HELD.with_borrow(|held| held.iter().copied().max_by_key(|spec| spec.rank));
            if let Some(highest) = highest.filter(|highest| highest.rank >= wanted.rank) {
                panic!(
                    "lock order: `{}` (rank {}) is wanted while `{}` (rank {}) is held",
                    wanted.name, wanted.rank, highest.name, highest.rank
                );
            }
            HELD.with_borrow_mut(|held| held.push(wanted));
            Self(wanted.rank)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            // The list may be gone already if the guard lived in another of the thread's locals.
            let _ = HELD.try_with(|held| held.borrow_mut().retain(|spec| spec.rank != self.0));
        }
    }

    pub(super) fn names() -> Vec<&'static str> {
        HELD.with_borrow(|held| held.iter().map(|spec| spec.name).collect())
    }
}

/// Without debug assertions, no lock is tracked.
#[cfg(not(debug_assertions))]
mod order {
    pub(super) struct Place;

    impl Place {
        #[inline]
        pub(super) const fn take(_: &'static crate::topology::LockSpec) -> Self {
            Self
        }
    }

    #[inline]
    pub(super) const fn names() -> [&'static str; 0] {
        []
    }
}

#[cfg(test)]
mod tests;

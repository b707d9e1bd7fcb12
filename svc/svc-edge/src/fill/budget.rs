//! The bytes that all fills together may have on their way.
//!
//! A fill takes the length of its object before it reads it, and waits for others if there is not as much left. Small objects
//! take nothing and wait for nobody, or one large object that comes slowly would hold all of them up. There are no more of them
//! at once than workers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use ron_kernel::Fault;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is counted at once: a semaphore counts no further than 32 bits.
const UNIT: u64 = 1024;

/// Small objects take this part of the budget together, one in so many, beside it.
const FOR_SMALL: u64 = 8;

/// The bytes that all fills together may have on their way. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: Arc<Semaphore>,
    /// The fills that wait for bytes.
    waiting: Arc<AtomicUsize>,
}

/// A fill's part of it.
#[derive(Debug)]
pub(super) struct Part {
    budget: Budget,
    permit: OwnedSemaphorePermit,
    /// The length up to which an object takes nothing.
    small: u64,
}

/// The length up to which an object is small, in bytes, if there are so many workers.
pub(super) fn small(budget: u64, workers: usize) -> u64 {
    budget / FOR_SMALL / (workers as u64).max(1)
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        let units = usize::try_from(bytes / UNIT).unwrap_or(usize::MAX);
        let left = Arc::new(Semaphore::new(units.clamp(1, Semaphore::MAX_PERMITS)));
        Self { left, waiting: Arc::default() }
    }

    /// The part of a fill whose object may turn out to be no longer than `small`.
    ///
    /// # Errors
    /// The budget is closed.
    pub(super) fn take_small(&self, small: u64) -> Result<Part, Fault> {
        let permit = Arc::clone(&self.left).try_acquire_many_owned(0).map_err(|_closed| Fault::Canceled)?;
        Ok(Part { budget: self.clone(), permit, small })
    }

    /// Whether a fill waits for bytes.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits for so many bytes, first come, first served.
    ///
    /// Cancel safe: who stops waiting loses their place in the line.
    pub(super) async fn take(&self, bytes: u64) -> Result<Part, Fault> {
        let _waits = Waits::begin(&self.waiting);
        let permit = Arc::clone(&self.left).acquire_many_owned(units(bytes)).await;
        Ok(Part { budget: self.clone(), permit: permit.map_err(|_closed| Fault::Canceled)?, small: 0 })
    }
}

/// A fill that waits for bytes, until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Part {
    /// Whether so many bytes are within it.
    pub(super) fn covers(&self, bytes: u64) -> bool {
        bytes <= self.small || units(bytes) as usize <= self.permit.num_permits()
    }

    /// Takes more, until it is so many bytes in all. It does not wait: whoever holds some and waits for more could wait for
    /// somebody who does the same.
    pub(super) fn grow_to(&mut self, bytes: u64) -> Result<(), Fault> {
        let (have, want) = (self.permit.num_permits(), units(bytes));
        let more = (want as usize).saturating_sub(have);
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            let taken = Arc::clone(&self.budget.left).try_acquire_many_owned(more);
            self.permit.merge(taken.map_err(|_none| Fault::Busy)?);
        }
        Ok(())
    }

    /// Bytes that are in memory, and take their part of the budget until the last who has any of them lets go.
    pub(super) fn hold(mut self, bytes: Vec<u8>) -> Bytes {
        let surplus = self.permit.num_permits().saturating_sub(units(bytes.len() as u64) as usize);
        drop(self.permit.split(surplus));
        Bytes::from_owner(Held { bytes, _permit: self.permit })
    }
}

/// Bytes in memory and their part of the budget.
struct Held {
    bytes: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn small_objects_wait_for_nobody_and_take_their_part_once_they_are_not() {
        let budget = Budget::new(4 * UNIT);
        let all = budget.take(4 * UNIT).now_or_never().expect("it fits").expect("it is open");
        assert!(!budget.is_awaited());
        let mut small = budget.take_small(UNIT).expect("it is open");
        assert!(small.covers(UNIT) && !small.covers(UNIT + 1));
        assert_eq!(small.grow_to(2 * UNIT), Err(Fault::Busy));
        let mut waiting = Box::pin(budget.take(1));
        assert!(waiting.as_mut().now_or_never().is_none() && budget.is_awaited());
        drop(waiting);
        assert!(!budget.is_awaited());
        drop(all);
        assert_eq!(small.grow_to(2 * UNIT), Ok(()));
        assert!(small.covers(2 * UNIT));
        // All of them together take an eighth.
        assert_eq!(
            (super::small(512 << 20, 8), super::small(1024, 512), super::small(0, 0)),
            (8 << 20, 0, 0)
        );
    }

    #[tokio::test]
    async fn what_does_not_fit_waits_and_what_grows_does_not() {
        let budget = Budget::new(4 * UNIT);
        let mut first = budget.take(3 * UNIT).await.expect("it fits");
        let mut waiting = Box::pin(budget.take(2 * UNIT));
        assert!(waiting.as_mut().now_or_never().is_none(), "there is no room yet");
        assert_eq!(first.grow_to(3 * UNIT), Ok(()));
        assert_eq!(first.grow_to(5 * UNIT), Err(Fault::Busy));
        let kept = first.hold(vec![7; 2048]);
        let second = waiting.await.expect("the first gave some back");
        drop(second);
        let rest = kept.slice(10..20);
        drop(kept);
        let mut all = Box::pin(budget.take(4 * UNIT));
        assert!(all.as_mut().now_or_never().is_none(), "somebody has some of the bytes");
        drop(rest);
        assert!(all.await.is_ok());
    }
}

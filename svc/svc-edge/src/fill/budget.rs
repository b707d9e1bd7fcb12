//! The bytes that all fills together may have on their way.

use std::sync::Arc;

use bytes::Bytes;
use ron_kernel::Fault;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is counted at once: a semaphore counts no further than 32 bits.
const UNIT: u64 = 1024;

/// The bytes that all fills together may have on their way. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Semaphore>);

/// A fill's part of it.
#[derive(Debug)]
pub(super) struct Part {
    budget: Budget,
    permit: OwnedSemaphorePermit,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        let units = usize::try_from(bytes / UNIT).unwrap_or(usize::MAX);
        Self(Arc::new(Semaphore::new(units.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Waits for so many bytes, first come, first served.
    ///
    /// Cancel safe: who stops waiting loses their place in the line.
    pub(super) async fn take(&self, bytes: u64) -> Result<Part, Fault> {
        let permit = Arc::clone(&self.0).acquire_many_owned(units(bytes)).await;
        Ok(Part { budget: self.clone(), permit: permit.map_err(|_closed| Fault::Canceled)? })
    }
}

impl Part {
    /// Whether so many bytes are within it.
    pub(super) fn covers(&self, bytes: u64) -> bool {
        units(bytes) as usize <= self.permit.num_permits()
    }

    /// Takes more, until it is so many bytes in all. It does not wait: whoever holds some and waits for more could wait for
    /// somebody who does the same.
    pub(super) fn grow_to(&mut self, bytes: u64) -> Result<(), Fault> {
        let (have, want) = (self.permit.num_permits(), units(bytes));
        let more = (want as usize).saturating_sub(have);
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            let taken = Arc::clone(&self.budget.0).try_acquire_many_owned(more);
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

//! A count of work in flight that many cores can change without meeting.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicUsize, Ordering},
};

/// How many separate cells a count has; threads beyond that share.
const SHARDS: usize = 16;

/// One cell on a cache line of its own, so that cores do not slow each other down.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Cell(AtomicI64);

/// A sharded counter of things in flight. Entering and leaving touch one cell; reading sums them all.
#[derive(Clone, Debug, Default)]
pub struct InFlight(Arc<[Cell; SHARDS]>);

impl InFlight {
    /// A count of zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one more until the guard is dropped, on whatever thread that happens.
    #[must_use]
    pub fn enter(&self) -> InFlightGuard {
        InFlightGuard { count: self.clone(), shard: self.begin() }
    }

    /// The same for a guard that does not outlive the count: it spares the reference count, which all cores share.
    #[must_use]
    pub fn enter_here(&self) -> InFlightHere<'_> {
        InFlightHere { count: self, shard: self.begin() }
    }

    /// Counts one more until [`InFlight::end`] is given what this returns; for owners that keep the count themselves.
    #[must_use]
    pub fn begin(&self) -> InFlightShard {
        let shard = shard_of_this_thread();
        self.0[shard].0.fetch_add(1, Ordering::Relaxed);
        InFlightShard(shard)
    }

    /// Counts one less, where [`InFlight::begin`] counted it.
    pub fn end(&self, shard: InFlightShard) {
        self.0[shard.0].0.fetch_sub(1, Ordering::Release);
    }

    /// How many are in flight. Exact once nobody enters any more, which is when shutdown asks.
    #[must_use]
    pub fn count(&self) -> usize {
        let sum: i64 = self.0.iter().map(|cell| cell.0.load(Ordering::Acquire)).sum();
        usize::try_from(sum).unwrap_or(0)
    }
}

/// Which part of a count holds one thing in flight.
#[derive(Clone, Copy, Debug)]
pub struct InFlightShard(usize);

/// One thing in flight.
#[derive(Debug)]
pub struct InFlightGuard {
    count: InFlight,
    shard: InFlightShard,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.count.end(self.shard);
    }
}

/// One thing in flight, for as long as the count is borrowed.
#[derive(Debug)]
pub struct InFlightHere<'a> {
    count: &'a InFlight,
    shard: InFlightShard,
}

impl Drop for InFlightHere<'_> {
    fn drop(&mut self) {
        self.count.end(self.shard);
    }
}

/// A small number that differs between the threads that matter.
pub(crate) fn shard_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    MINE.with(|mine| *mine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_count_wherever_they_are_dropped() {
        let inflight = InFlight::new();
        let guards: Vec<_> = (0..10).map(|_| inflight.enter()).collect();
        let here = inflight.enter_here();
        assert_eq!(inflight.count(), 11);
        drop(here);
        std::thread::scope(|s| {
            s.spawn(|| drop(guards));
        });
        assert_eq!(inflight.count(), 0);
    }
}

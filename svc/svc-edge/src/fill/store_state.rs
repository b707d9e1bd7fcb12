//! Whether objects can be written to the store. While they cannot, they are served without being stored.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use ron_kernel::{
    Clock, Scope,
    readiness::{Condition, Effect},
};
use types::Moment;

/// For how long nothing is written after a write failed; then one more fill tries.
const PAUSE: Duration = Duration::from_secs(10);

/// Whether the store can be written.
#[derive(Debug)]
pub(super) struct StoreState {
    condition: Condition,
    clock: Clock,
    /// Until when nothing is written, in nanoseconds of the clock.
    paused_until: AtomicU64,
    /// Why nothing is written to the disk until the next start.
    read_only: Option<String>,
}

impl StoreState {
    /// A store that works, or one that could not be opened for writing, and why.
    pub(super) fn new(scope: &Scope, read_only: Option<String>) -> Self {
        let condition = scope.condition("store_full", Effect::Report, Duration::ZERO);
        if let Some(why) = &read_only {
            condition.raise(why.clone());
        }
        Self { condition, clock: scope.clock(), paused_until: AtomicU64::new(0), read_only }
    }

    /// Whether it is worth trying to write an object.
    pub(super) fn takes_objects(&self) -> bool {
        self.clock.now() >= Moment::from_nanos(self.paused_until.load(Ordering::Relaxed))
    }

    /// An object could not be written.
    pub(super) fn failed(&self, why: &str) {
        let until = self.clock.now().after(PAUSE);
        self.paused_until.store(until.as_nanos(), Ordering::Relaxed);
        self.condition.raise(why.to_owned());
    }

    /// An object was written.
    pub(super) fn worked(&self) {
        if self.read_only.is_none() {
            self.condition.clear();
        }
    }
}

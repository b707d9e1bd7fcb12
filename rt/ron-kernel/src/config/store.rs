//! Holds the current configuration: readers never wait, a bad reload leaves it as it is.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::report::Report;
use super::snapshot::Snapshot;

/// The current [`Snapshot`] and why the last attempt to replace it failed, if it did.
#[derive(Debug)]
pub struct ConfigStore {
    current: ArcSwap<Snapshot>,
    last_error: ArcSwapOption<Report>,
}

impl ConfigStore {
    /// Starts with a snapshot, as generation 1.
    #[must_use]
    pub fn new(first: &Snapshot) -> Self {
        Self { current: ArcSwap::from_pointee(first.numbered(1)), last_error: ArcSwapOption::empty() }
    }

    /// The current snapshot. Wait-free.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Makes a snapshot the current one under the next generation, clears the last error and returns the old one.
    pub fn replace(&self, new: &Snapshot) -> Arc<Snapshot> {
        let old = self.current.rcu(|old| new.numbered(old.generation() + 1));
        self.last_error.store(None);
        old
    }

    /// Keeps the current snapshot and remembers why another was refused. Only the latest reason is kept.
    pub fn reject(&self, report: Report) {
        self.last_error.store(Some(Arc::new(report)));
    }

    /// Why the latest attempt to replace the snapshot was refused; nothing after a successful one.
    #[must_use]
    pub fn last_error(&self) -> Option<Arc<Report>> {
        self.last_error.load_full()
    }
}

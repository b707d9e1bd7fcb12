//! Which epochs are in work, how far they are, and the runs that were just computed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rewards::Run;
use ron_kernel::{Scope, lock::Ranked};

use crate::topology::RUN_REGISTRY;

/// Runs that are kept for the emitter, so that it does not compute them again.
const KEPT_RUNS: usize = 4;

/// How far an epoch is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Rows that were checked and added up.
    pub(crate) rows: AtomicU64,
    /// Rows there are.
    pub(crate) rows_total: AtomicU64,
}

impl Progress {
    /// Rows done and rows in all.
    pub(crate) fn rows(&self) -> (u64, u64) {
        (self.rows.load(Ordering::Relaxed), self.rows_total.load(Ordering::Relaxed))
    }
}

/// The epochs in work, one entry each, bounded by the queue of work and the workers.
#[derive(Debug)]
pub(crate) struct Registry(Ranked<Entries>);

#[derive(Debug, Default)]
struct Entries {
    active: BTreeMap<u64, Arc<Progress>>,
    runs: Vec<(u64, Arc<Run>)>,
}

/// An epoch's place among those in work; it leaves when this is dropped, however its work ends.
#[derive(Debug)]
pub(crate) struct Claim {
    registry: Arc<Registry>,
    epoch: u64,
    pub(crate) progress: Arc<Progress>,
}

impl Registry {
    pub(crate) fn new(scope: &Scope) -> Arc<Self> {
        Arc::new(Self(scope.lock(&RUN_REGISTRY, Entries::default())))
    }

    /// Takes an epoch into work; `None` if it is there already.
    pub(crate) fn claim(self: &Arc<Self>, epoch: u64) -> Option<Claim> {
        let mut entries = self.0.lock();
        if entries.active.contains_key(&epoch) {
            return None;
        }
        let progress = Arc::<Progress>::default();
        entries.active.insert(epoch, Arc::clone(&progress));
        Some(Claim { registry: Arc::clone(self), epoch, progress })
    }

    /// How far an epoch in work is.
    pub(crate) fn progress(&self, epoch: u64) -> Option<Arc<Progress>> {
        self.0.lock().active.get(&epoch).cloned()
    }

    /// Keeps a run for whoever pays it.
    pub(crate) fn keep(&self, epoch: u64, run: Arc<Run>) {
        let mut entries = self.0.lock();
        entries.runs.retain(|(other, _)| *other != epoch);
        if entries.runs.len() >= KEPT_RUNS {
            entries.runs.remove(0);
        }
        entries.runs.push((epoch, run));
    }

    /// Takes a run that was kept.
    pub(crate) fn take(&self, epoch: u64) -> Option<Arc<Run>> {
        let mut entries = self.0.lock();
        let at = entries.runs.iter().position(|(other, _)| *other == epoch)?;
        Some(entries.runs.remove(at).1)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.registry.0.lock().active.remove(&self.epoch);
    }
}

//! Which epochs are in work, how far they are, and the runs that were just computed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rewards::Run;
use ron_kernel::{Scope, lock::Ranked};
use types::Moment;

use crate::topology::RUN_REGISTRY;

/// Runs that are kept for the emitter, so that it does not compute them again.
const KEPT_RUNS: usize = 4;

/// How long an epoch is left alone after its work failed.
const REST: Duration = Duration::from_secs(5);
/// How long it is remembered that an epoch could not be computed, unless it is computed before.
const REMEMBERED: Duration = Duration::from_secs(600);
/// How long an epoch is left alone that waits for another.
const BRIEF_REST: Duration = Duration::from_millis(200);
/// Epochs that are left alone at once; beyond, they are tried more often.
const MAX_RESTING: usize = 1024;

/// The progress of computing an epoch.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Rows that were checked and added up.
    pub(crate) rows: AtomicU64,
    /// The total number of rows.
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
    /// Epochs whose work failed, and until when they are left alone.
    resting: BTreeMap<u64, Moment>,
    /// Epochs that could not be computed: until when that is remembered, and why.
    failing: BTreeMap<u64, (Moment, String)>,
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

    /// Leaves an epoch alone for a while, because its work failed.
    pub(crate) fn rest(&self, epoch: u64, now: Moment) {
        let mut entries = self.0.lock();
        entries.resting.retain(|_, until| *until > now);
        if entries.resting.len() < MAX_RESTING {
            entries.resting.insert(epoch, now.after(REST));
        }
    }

    /// An epoch could not be computed, and is tried again.
    pub(crate) fn failed(&self, epoch: u64, why: String, now: Moment) {
        self.rest(epoch, now);
        let mut entries = self.0.lock();
        if entries.failing.len() < MAX_RESTING {
            entries.failing.insert(epoch, (now.after(REMEMBERED), why));
        }
    }

    /// An epoch was computed, or needs not be any more.
    pub(crate) fn succeeded(&self, epoch: u64) {
        self.0.lock().failing.remove(&epoch);
    }

    /// The first epoch that could not be computed, why, and how many others there are; `None` if there is none.
    pub(crate) fn failing(&self, now: Moment) -> Option<String> {
        let mut entries = self.0.lock();
        entries.failing.retain(|_, (until, _)| *until > now);
        let (epoch, (_, why)) = entries.failing.first_key_value()?;
        let others = entries.failing.len() - 1;
        let more = if others > 0 { format!("; {others} others fail too") } else { String::new() };
        Some(format!("epoch {epoch} cannot be computed: {why}{more}"))
    }

    /// Leaves an epoch alone for a moment, because it waits for another.
    pub(crate) fn rest_briefly(&self, epoch: u64, now: Moment) {
        let mut entries = self.0.lock();
        entries.resting.retain(|_, until| *until > now);
        if entries.resting.len() < MAX_RESTING {
            entries.resting.insert(epoch, now.after(BRIEF_REST));
        }
    }

    /// Whether an epoch is to be left alone.
    pub(crate) fn rests(&self, epoch: u64, now: Moment) -> bool {
        self.0.lock().resting.get(&epoch).is_some_and(|until| *until > now)
    }

    /// How far an epoch in work is.
    pub(crate) fn progress(&self, epoch: u64) -> Option<Arc<Progress>> {
        self.0.lock().active.get(&epoch).cloned()
    }

    /// Keeps a run for the task that pays it.
    pub(crate) fn keep(&self, epoch: u64, run: Arc<Run>) {
        let mut entries = self.0.lock();
        entries.runs.retain(|(other, _)| *other != epoch);
        if entries.runs.len() >= KEPT_RUNS {
            entries.runs.remove(0);
        }
        entries.runs.push((epoch, run));
    }

    /// A run that is kept, if it is.
    pub(crate) fn look(&self, epoch: u64) -> Option<Arc<Run>> {
        let entries = self.0.lock();
        entries.runs.iter().find(|(other, _)| *other == epoch).map(|(_, run)| Arc::clone(run))
    }

    /// Forgets the run and the rest of an epoch, which is to be recomputed.
    pub(crate) fn forget(&self, epoch: u64) {
        let mut entries = self.0.lock();
        entries.runs.retain(|(other, _)| *other != epoch);
        entries.resting.remove(&epoch);
        entries.failing.remove(&epoch);
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

//! Housekeeping: what must be tidied now and then, and is in no hurry.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{Scope, lock::lock, own, supervisor::TaskCtx};

/// How often the node tidies up.
pub(crate) const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(10);

/// Functions to call again and again, kept as long as the node runs: one per declared thing, so there are few.
#[derive(Clone, Default)]
pub(crate) struct Chores(Arc<Mutex<Vec<Chore>>>);

type Chore = Arc<dyn Fn() + Send + Sync>;

impl Chores {
    pub(crate) fn add(&self, chore: impl Fn() + Send + Sync + 'static) {
        lock(&self.0).push(Arc::new(chore));
    }

    /// Calls each, without the lock: one may add another.
    pub(crate) fn run(&self) {
        let all = lock(&self.0).clone();
        all.iter().for_each(|chore| chore());
    }
}

impl std::fmt::Debug for Chores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Chores")
    }
}

/// Starts the housekeeping with the kernel's own duty: the metrics of routes that are gone.
pub(crate) fn start(scope: &Scope, chores: Chores) {
    let metrics = scope.all_metrics().clone();
    chores.add(move || metrics.sweep_routes());
    scope.task(&own::HOUSEKEEPING, move |ctx: TaskCtx| {
        let chores = chores.clone();
        async move { ctx.every(HOUSEKEEPING_PERIOD, || chores.run()).await }
    });
}

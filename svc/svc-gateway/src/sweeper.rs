//! The task that closes idle upstream connections nobody came back for.

use std::time::Duration;

use ron_kernel::{
    Scope,
    readiness::Effect,
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};

use crate::upstream::Upstreams;

/// Interval between two sweeps.
const EVERY: Duration = Duration::from_secs(10);

/// The sweeper. Each core has its own: connections belong to a core.
pub(crate) const POOL_SWEEPER: TaskSpec = TaskSpec {
    name: "pool_sweeper",
    plane: Plane::Data,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "every 10 s closes idle upstream connections that are too old, that the server has closed, or that are beyond a \
          quarter of the open files in all",
};

/// Starts a sweeper on each core.
pub(crate) fn start(scope: &Scope, upstreams: &Upstreams) {
    let upstreams = upstreams.clone();
    scope.task_per_core(&POOL_SWEEPER, move |core, ctx| run(ctx, core.index(), upstreams.clone()));
}

async fn run(ctx: TaskCtx, core: usize, upstreams: Upstreams) -> TaskResult {
    ctx.every(EVERY, || upstreams.sweep(core)).await
}

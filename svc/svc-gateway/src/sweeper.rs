//! The task that closes idle upstream connections nobody came back for.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use ron_kernel::{
    Scope,
    readiness::Effect,
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};

use crate::{build::Routers, router::Router};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(10);

/// The sweeper. Each core has its own: connections belong to a core.
pub(crate) const POOL_SWEEPER: TaskSpec = TaskSpec {
    name: "pool_sweeper",
    plane: Plane::Data,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "every 10 s closes idle upstream connections that are too old or that the server has closed",
};

/// Starts a sweeper on each core.
pub(crate) fn start(scope: &Scope, routers: &Routers) {
    let routers = Arc::clone(routers);
    scope.task_per_core(&POOL_SWEEPER, move |core, ctx| run(ctx, Arc::clone(&routers[core.index()])));
}

async fn run(ctx: TaskCtx, router: Arc<ArcSwap<Router>>) -> TaskResult {
    let clock = ctx.scope.clock();
    while clock.by(clock.within(EVERY), ctx.stopping()).await.is_none() {
        for upstream in router.load().upstreams() {
            upstream.sweep();
        }
    }
    Ok(())
}

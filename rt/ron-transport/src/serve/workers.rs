//! Workers: one per core, each answering for the connections there.

use std::sync::Arc;

use ron_kernel::{
    Scope,
    planes::{Core, Planes, Seat},
    supervisor::{Children, Crew, TaskCtx, TaskResult},
    topology::TaskSpec,
};

/// The crews of connections by core; empty where connections are on their own.
#[derive(Debug)]
pub(super) struct Workers(Vec<Arc<Crew>>);

impl Workers {
    /// Starts a worker on every core, if a server has such.
    pub(super) fn start(scope: &Scope, spec: Option<&'static TaskSpec>, connections: &Children) -> Self {
        let Some(spec) = spec else { return Self(Vec::new()) };
        let crews: Vec<_> = scope.planes().cores().iter().map(|_| Crew::new(connections.clone())).collect();
        let led = crews.clone();
        scope.task_per_core(spec, move |core, ctx| work(Arc::clone(&led[core.index()]), ctx));
        Self(crews)
    }

    /// A seat on the core with the fewest connections among those whose worker is there.
    pub(super) fn seat(&self, planes: &Planes) -> Seat {
        planes.seat_where(|core| self.0.get(core.index()).is_none_or(|crew| crew.is_led()))
    }

    /// Starts a connection on a core, under its worker.
    pub(super) fn place(
        &self,
        connections: &Children,
        core: &Core,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        match self.0.get(core.index()) {
            Some(crew) => crew.spawn_on(core, connection),
            None => connections.spawn_on(core, connection),
        }
    }
}

/// Leads the connections of a core until they are to close by themselves.
async fn work(crew: Arc<Crew>, ctx: TaskCtx) -> TaskResult {
    let lead = crew.lead();
    ctx.stopping().await;
    lead.dismiss();
    Ok(())
}

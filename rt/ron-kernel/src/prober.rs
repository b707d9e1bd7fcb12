//! The prober: publishes what is too hot to count as it happens, and lets settled conditions clear.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Scope, own,
    queue::Receiver,
    supervisor::{TaskCtx, TaskResult},
};

type Sampler = Arc<dyn Fn() + Send + Sync>;

/// The functions to call at every tick. One per declared queue and route, so their number is bounded by the
/// declarations.
#[derive(Clone, Default)]
pub(crate) struct Samplers(Arc<Mutex<Vec<Sampler>>>);

impl Samplers {
    pub(crate) fn add(&self, sample: impl Fn() + Send + Sync + 'static) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(sample));
    }

    fn run(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().for_each(|sample| sample());
    }
}

impl std::fmt::Debug for Samplers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Samplers")
    }
}

/// Starts the prober.
pub(crate) fn start(scope: &Scope, ticks: Receiver<()>, samplers: Samplers) {
    let ticks = ticks.share();
    scope.task(&own::PROBER, move |ctx: TaskCtx| {
        let (ticks, samplers) = (ticks.clone(), samplers.clone());
        async move { probe(ctx, &ticks, &samplers).await }
    });
}

async fn probe(ctx: TaskCtx, ticks: &crate::queue::SharedReceiver<()>, samplers: &Samplers) -> TaskResult {
    loop {
        tokio::select! {
            () = ctx.stopping() => return Ok(()),
            tick = ticks.recv() => if tick.is_none() { return Ok(()) },
        }
        samplers.run();
        ctx.scope.readiness().settle();
        for core in ctx.scope.planes().cores() {
            ctx.scope
                .metrics()
                .core_connections(core.index())
                .set(i64::try_from(core.load()).unwrap_or(i64::MAX));
        }
    }
}

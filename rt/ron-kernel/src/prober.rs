//! The prober: publishes what is too hot to count as it happens, and lets settled conditions clear.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
};

use crate::{
    Scope,
    chores::Chores,
    lock::lock,
    metrics::Gauge,
    own,
    queue::Receiver,
    supervisor::{TaskCtx, TaskResult},
};

/// Something whose items are counted.
pub(crate) trait Measured: Send + Sync {
    /// Returns the current number of items.
    fn len(&self) -> usize;
}

/// What to publish at every tick: functions, one per declared server or route, and the depths of queues.
#[derive(Clone, Default)]
pub(crate) struct Samplers {
    functions: Chores,
    depths: Arc<Mutex<BTreeMap<(&'static str, &'static str), Depth>>>,
}

/// The depth of a declared queue, summed over all that exist: some are made once per connection.
struct Depth {
    gauge: Gauge,
    /// Never more than twice as many as are alive.
    queues: Vec<Weak<dyn Measured>>,
}

impl Samplers {
    pub(crate) fn add(&self, sample: impl Fn() + Send + Sync + 'static) {
        self.functions.add(sample);
    }

    /// Publishes the depth of a queue in `gauge`, for as long as the queue exists.
    pub(crate) fn add_queue(
        &self,
        (service, name): (&'static str, &'static str),
        gauge: Gauge,
        queue: Weak<dyn Measured>,
    ) {
        let mut depths = lock(&self.depths);
        let depth = depths.entry((service, name)).or_insert_with(|| Depth { gauge, queues: Vec::new() });
        if depth.queues.len() == depth.queues.capacity() {
            depth.queues.retain(|queue| queue.strong_count() > 0);
        }
        depth.queues.push(queue);
    }

    fn run(&self) {
        self.functions.run();
        for (gauge, queues) in self.live_queues() {
            let items: usize = queues.iter().map(|queue| queue.len()).sum();
            gauge.set(i64::try_from(items).unwrap_or(i64::MAX));
        }
    }

    /// The queues that exist, by gauge. Measured without the lock: the last owner of a queue may go meanwhile, and
    /// dropping what is in it is no business of ours.
    fn live_queues(&self) -> Vec<(Gauge, Vec<Arc<dyn Measured>>)> {
        let mut depths = lock(&self.depths);
        let live = depths.values_mut().map(|depth| {
            depth.queues.retain(|queue| queue.strong_count() > 0);
            let queues = depth.queues.iter().filter_map(Weak::upgrade).collect();
            (depth.gauge.clone(), queues)
        });
        live.collect()
    }
}

impl std::fmt::Debug for Samplers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Samplers")
    }
}

/// Starts the task that samples queues and other gauges.
pub(crate) fn start(scope: &Scope, ticks: Receiver<()>, samplers: Samplers) {
    let ticks = ticks.share();
    scope.task(&own::PROBER, move |ctx: TaskCtx| {
        let (ticks, samplers) = (ticks.clone(), samplers.clone());
        async move { probe(ctx, &ticks, &samplers).await }
    });
}

async fn probe(ctx: TaskCtx, ticks: &crate::queue::SharedReceiver<()>, samplers: &Samplers) -> TaskResult {
    while let Some(()) = ticks.recv_until_stop(&ctx).await {
        samplers.run();
        ctx.scope.readiness().settle();
        for core in ctx.scope.planes().cores() {
            ctx.scope
                .metrics()
                .core_connections(core.index())
                .set(i64::try_from(core.load()).unwrap_or(i64::MAX));
        }
    }
    Ok(())
}

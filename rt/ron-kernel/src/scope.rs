//! A service's view of the kernel: everything it may build, under its own name.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::runtime::Handle;
use types::Deadline;

use crate::{
    Clock, Fault, InFlight, Shutdown,
    blocking::Blocking,
    bus::Bus,
    kernel::Shared,
    lock::{self, Ranked},
    meter::MeterBook,
    metrics::{Gauge, Metrics, ServiceMetrics},
    planes::{Core, Planes},
    prober::Measured,
    queue::{self, Receiver, Sender},
    readiness::{Condition, Effect, Readiness},
    spans::Spans,
    supervisor::{Children, Supervisor, TaskCtx, TaskResult},
    topology::{ChildSpec, LockSpec, Plane, Policy, QueueSpec, TaskSpec, Topology},
};

/// A service's handle on the kernel. Cheap to clone.
///
/// What it builds must stand in the service's [`Topology`]; anything else is a programming error and panics when
/// the service is built, which its first test shows.
#[derive(Clone, Debug)]
pub struct Scope {
    shared: Arc<Shared>,
    topology: &'static Topology,
    metrics: ServiceMetrics,
}

impl Scope {
    pub(crate) fn new(shared: Arc<Shared>, topology: &'static Topology) -> Self {
        let metrics = shared.metrics.service(topology.service);
        Self { shared, topology, metrics }
    }

    /// Starts a supervised task; on the data plane, one on every core, numbered.
    pub fn task<F, Fut>(&self, spec: &'static TaskSpec, run: F)
    where
        F: Fn(TaskCtx) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = TaskResult> + Send + 'static,
    {
        match spec.plane {
            Plane::Control => self.start(spec, spec.name.to_owned(), self.control().clone(), run),
            Plane::Data => self.task_per_core(spec, move |_core, ctx| run(ctx)),
        }
    }

    /// Starts a supervised task on every core of the data plane, which learns its core.
    pub fn task_per_core<F, Fut>(&self, spec: &'static TaskSpec, run: F)
    where
        F: Fn(Arc<Core>, TaskCtx) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = TaskResult> + Send + 'static,
    {
        for core in self.shared.planes.cores() {
            let (run, at) = (run.clone(), Arc::clone(core));
            let name = format!("{}#{}", spec.name, core.index());
            self.start(spec, name, core.handle().clone(), move |ctx| run(Arc::clone(&at), ctx));
        }
    }

    /// Starts `count` supervised tasks of one declaration on the control plane, numbered from zero.
    pub fn pool<F, Fut>(&self, spec: &'static TaskSpec, count: usize, run: F)
    where
        F: Fn(TaskCtx) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = TaskResult> + Send + 'static,
    {
        for index in 0..count {
            self.start(spec, format!("{}#{index}", spec.name), self.control().clone(), run.clone());
        }
    }

    fn start<F, Fut>(&self, spec: &'static TaskSpec, name: String, runtime: Handle, run: F)
    where
        F: Fn(TaskCtx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = TaskResult> + Send + 'static,
    {
        self.must_declare(self.topology.tasks.iter().any(|t| t.name == spec.name), "task", spec.name);
        self.supervisor().start(self.clone(), spec, name, runtime, run);
    }

    /// The children of a declared kind.
    #[must_use]
    pub fn children(&self, spec: &'static ChildSpec) -> Children {
        self.must_declare(
            self.topology.children.iter().any(|c| c.kind == spec.kind),
            "kind of child",
            spec.kind,
        );
        self.supervisor().kind(self, spec)
    }

    /// Makes a declared queue that refuses or waits when it is full. Callers come in through `endpoint`.
    #[must_use]
    pub fn queue<T: Send + 'static>(
        &self,
        spec: &'static QueueSpec,
        endpoint: &'static str,
    ) -> (Sender<T>, Receiver<T>) {
        assert!(
            spec.policy != Policy::DropOldest,
            "{}: a queue that drops needs `shedding_queue`",
            spec.name
        );
        self.must_declare(self.topology.queues.iter().any(|q| q.name == spec.name), "queue", spec.name);
        queue::build(self, spec, endpoint, |_| ())
    }

    /// Makes a declared `DropOldest` queue; `told` gets every item that is displaced, to tell its owner.
    #[must_use]
    pub fn shedding_queue<T: Send + 'static>(
        &self,
        spec: &'static QueueSpec,
        endpoint: &'static str,
        told: impl Fn(T) + Send + Sync + 'static,
    ) -> (Sender<T>, Receiver<T>) {
        assert!(spec.policy == Policy::DropOldest, "{}: only a queue that drops can shed", spec.name);
        self.must_declare(self.topology.queues.iter().any(|q| q.name == spec.name), "queue", spec.name);
        queue::build(self, spec, endpoint, told)
    }

    /// Makes a declared lock around `value`.
    #[must_use]
    pub fn lock<T>(&self, spec: &'static LockSpec, value: T) -> Ranked<T> {
        self.must_declare(self.topology.locks.iter().any(|l| l.name == spec.name), "lock", spec.name);
        Ranked::new(spec, value)
    }

    fn must_declare(&self, declared: bool, what: &str, name: &str) {
        assert!(declared, "the topology of `{}` declares no {what} `{name}`", self.topology.service);
    }

    /// Declares a readiness condition of this service.
    #[must_use]
    pub fn condition(&self, name: &'static str, effect: Effect, settle: Duration) -> Condition {
        self.shared.readiness.condition(self.service(), name, effect, settle)
    }

    /// Has `sample` called four times a second, to publish what is too hot to count as it happens. It is kept as long
    /// as the node runs: once per declared thing, never per connection.
    pub fn sampled(&self, sample: impl Fn() + Send + Sync + 'static) {
        self.shared.samplers.add(sample);
    }

    /// Has `chore` called by the housekeeping every ten seconds, to trim what has grown stale. It must not block, and is
    /// kept as long as the node runs: once per declared thing, never per connection.
    pub fn housekept(&self, chore: impl Fn() + Send + Sync + 'static) {
        self.shared.chores.add(chore);
    }

    pub(crate) fn sample_depth(&self, spec: &'static QueueSpec, gauge: Gauge, queue: Weak<dyn Measured>) {
        self.shared.samplers.add_queue((self.service(), spec.name), gauge, queue);
    }

    /// Runs `work` until `deadline`. What takes longer is dropped and counted: `io_timeouts_total{op}`.
    ///
    /// Cancel safe if `work` is.
    ///
    /// # Errors
    /// [`Fault::Timeout`].
    pub async fn by<F: Future>(
        &self,
        op: &'static str,
        deadline: Deadline,
        work: F,
    ) -> Result<F::Output, Fault> {
        let done = self.shared.clock.by(deadline, work).await;
        done.ok_or_else(|| {
            self.metrics.io_timeouts(op).inc();
            Fault::Timeout { op }
        })
    }

    /// Work in flight that a drain waits for before it flushes writers and closes idle connections.
    #[must_use]
    pub fn work(&self) -> InFlight {
        self.supervisor().work(self.service())
    }

    /// Returns the name of the node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.shared.node
    }

    /// Returns the name of the service.
    #[must_use]
    pub fn service(&self) -> &'static str {
        self.topology.service
    }

    /// Returns the declaration of the service.
    #[must_use]
    pub fn topology(&self) -> &'static Topology {
        self.topology
    }

    /// Returns the metrics of the service.
    #[must_use]
    pub fn metrics(&self) -> &ServiceMetrics {
        &self.metrics
    }

    /// All metrics, for families of the service's own.
    #[must_use]
    pub fn all_metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Returns the node's clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Returns the handle that observes the shutdown.
    #[must_use]
    pub fn shutdown(&self) -> &Shutdown {
        &self.shared.shutdown
    }

    /// Returns the event bus.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.shared.bus
    }

    /// Returns the readiness board.
    #[must_use]
    pub fn readiness(&self) -> &Readiness {
        &self.shared.readiness
    }

    /// Returns the usage meters.
    #[must_use]
    pub fn meters(&self) -> &MeterBook {
        &self.shared.meters
    }

    /// Where it tells what became of its requests.
    #[must_use]
    pub fn spans(&self) -> &Spans {
        &self.shared.spans
    }

    /// The pool for work that blocks.
    #[must_use]
    pub fn blocking(&self) -> &Blocking {
        &self.shared.blocking
    }

    /// Returns the runtimes of the node.
    #[must_use]
    pub fn planes(&self) -> &Arc<Planes> {
        &self.shared.planes
    }

    /// Returns the supervisor of the node.
    #[must_use]
    pub fn supervisor(&self) -> &Supervisor {
        &self.shared.supervisor
    }

    pub(crate) fn control(&self) -> &Handle {
        self.shared.planes.control()
    }

    /// Changes how long the node's drain may take.
    pub fn set_drain_deadline(&self, deadline: Duration) {
        *lock::lock(&self.shared.drain_deadline) = deadline;
    }

    /// Changes how long the node's drain may take once another process serves newcomers.
    pub fn set_upgrade_deadline(&self, deadline: Duration) {
        *lock::lock(&self.shared.upgrade_deadline) = deadline;
    }

    /// Changes how long the node's drain keeps connections open that have no request.
    pub fn set_drain_idle(&self, idle: Duration) {
        *lock::lock(&self.shared.drain_idle) = idle;
    }

    /// The node cannot go on: it drains and exits with a failure.
    pub fn fail(&self, cause: String) {
        self.shared.fail(cause);
    }
}

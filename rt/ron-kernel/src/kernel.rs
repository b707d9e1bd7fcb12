//! The kernel itself: built once, shared by every scope, conducted by the thread that calls [`Kernel::run`].

use std::{
    io,
    num::NonZeroUsize,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use crate::{
    Clock, Exit, Scope, Shutdown, Signals,
    blocking::Blocking,
    bus::Bus,
    chores::{self, Chores},
    conductor,
    heartbeat::{self, Hearts},
    lock::lock,
    meter::MeterBook,
    metrics::Metrics,
    own,
    planes::{Planes, RuntimeMode},
    prober::Samplers,
    queue::{Receiver, Sender},
    readiness::{Effect, Readiness},
    spans::Spans,
    supervisor::Supervisor,
    topology::Topology,
};

/// Meters kept per node before actors share one; about 1 KiB each.
const MAX_METERS: usize = 10_000;

/// Why a kernel could not be built.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A runtime could not be started.
    #[error("cannot start the runtimes: {0}")]
    Runtime(#[from] io::Error),
}

/// State that all scopes of a node share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) node: String,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) bus: Bus,
    pub(crate) shutdown: Shutdown,
    pub(crate) readiness: Readiness,
    pub(crate) supervisor: Supervisor,
    pub(crate) planes: Arc<Planes>,
    pub(crate) blocking: Blocking,
    pub(crate) meters: MeterBook,
    pub(crate) samplers: Samplers,
    pub(crate) chores: Chores,
    pub(crate) spans: Spans,
    pub(crate) drain_deadline: Mutex<Duration>,
    /// How long a drain may take once another process serves newcomers, if that is longer.
    pub(crate) upgrade_deadline: Mutex<Duration>,
    /// How long a drain keeps idle connections open for their next request.
    pub(crate) drain_idle: Mutex<Duration>,
    failure: OnceLock<String>,
    topologies: Mutex<Vec<&'static Topology>>,
}

impl Shared {
    /// Remembers that the node failed, and asks it to stop.
    pub(crate) fn fail(&self, cause: String) {
        let _ = self.failure.set(cause.clone());
        self.shutdown.request(cause);
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

/// Settings of a kernel, before it is built.
#[derive(Clone, Debug)]
pub struct KernelBuilder {
    node: String,
    mode: RuntimeMode,
    cores: usize,
    drain_deadline: Duration,
    upgrade_deadline: Duration,
    drain_idle: Duration,
}

impl KernelBuilder {
    /// How the data plane is laid out.
    #[must_use]
    pub fn runtime(mut self, mode: RuntimeMode) -> Self {
        self.mode = mode;
        self
    }

    /// How many cores the data plane uses; at least one.
    #[must_use]
    pub fn cores(mut self, cores: NonZeroUsize) -> Self {
        self.cores = cores.get();
        self
    }

    /// How long a drain may take before what is left is aborted.
    #[must_use]
    pub fn drain_deadline(mut self, deadline: Duration) -> Self {
        self.drain_deadline = deadline;
        self
    }

    /// How long a drain may take once another process serves newcomers, if that is longer.
    #[must_use]
    pub fn upgrade_deadline(mut self, deadline: Duration) -> Self {
        self.upgrade_deadline = deadline;
        self
    }

    /// How long a drain keeps idle connections open for their next request; at most half of the deadline.
    #[must_use]
    pub fn drain_idle(mut self, idle: Duration) -> Self {
        self.drain_idle = idle;
        self
    }

    /// Starts the runtimes and the kernel's own tasks.
    ///
    /// # Errors
    /// [`KernelError::Runtime`] if threads or pollers cannot be had.
    pub fn build(self) -> Result<Kernel, KernelError> {
        let clock = Clock::start();
        let metrics = Metrics::new(&self.node);
        let own_metrics = metrics.service(own::TOPOLOGY.service);
        let bus = Bus::new(own_metrics.bus_lagged("events"));
        let planes = Arc::new(Planes::start(self.mode, self.cores)?);
        let pool = own_metrics.queue(own::BLOCKING.name, "");
        let (depth, samplers) = (pool.depth.clone(), Samplers::default());
        let blocking = Blocking::new(planes.control().clone(), pool, own_metrics.tasks("blocking"));
        let callers = blocking.clone();
        samplers.add(move || {
            depth.set(i64::try_from(callers.waiting()).unwrap_or(i64::MAX));
        });
        let shared = Arc::new(Shared {
            node: self.node,
            clock,
            readiness: Readiness::new(clock, metrics.clone(), bus.clone()),
            shutdown: Shutdown::new(bus.clone()),
            supervisor: Supervisor::default(),
            meters: MeterBook::new(MAX_METERS),
            samplers,
            chores: Chores::default(),
            spans: Spans::default(),
            drain_deadline: Mutex::new(self.drain_deadline),
            upgrade_deadline: Mutex::new(self.upgrade_deadline),
            drain_idle: Mutex::new(self.drain_idle),
            failure: OnceLock::new(),
            topologies: Mutex::default(),
            metrics,
            bus,
            planes,
            blocking,
        });
        Ok(Kernel::start(shared))
    }
}

/// A running kernel. Dropped without having been conducted, it lets its runtimes and all that runs on them go at once.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) shared: Arc<Shared>,
    pub(crate) own: Scope,
    pub(crate) tick: Sender<()>,
    pub(crate) hearts: Hearts,
}

impl Kernel {
    /// A kernel for a node called `node`: per-core data plane on all cores, three seconds to drain.
    pub fn builder(node: impl Into<String>) -> KernelBuilder {
        KernelBuilder {
            node: node.into(),
            mode: RuntimeMode::PerCore,
            cores: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            drain_deadline: Duration::from_secs(3),
            upgrade_deadline: Duration::from_secs(30),
            drain_idle: Duration::from_secs(1),
        }
    }

    fn start(shared: Arc<Shared>) -> Self {
        let own = Self::make_scope(&shared, &own::TOPOLOGY);
        let (tick, ticks): (Sender<()>, Receiver<()>) = own.queue(&own::METRICS_TICK, "");
        let hearts = heartbeat::start(&own);
        let kernel = Self { shared, own, tick, hearts };
        crate::prober::start(&kernel.own, ticks, kernel.shared.samplers.clone());
        chores::start(&kernel.own, kernel.shared.chores.clone());
        kernel
    }

    /// The scope of a service. Its declaration becomes part of `/topology` and the generated pages.
    #[must_use]
    pub fn scope(&self, topology: &'static Topology) -> Scope {
        Self::make_scope(&self.shared, topology)
    }

    fn make_scope(shared: &Arc<Shared>, topology: &'static Topology) -> Scope {
        let mut known = lock(&shared.topologies);
        if !known.iter().any(|t| t.service == topology.service) {
            known.push(topology);
        }
        drop(known);
        // Declared now, so that a service without trouble is listed as ready.
        let _ = shared.readiness.condition(topology.service, "draining", Effect::Down, Duration::ZERO);
        Scope::new(Arc::clone(shared), topology)
    }

    /// The kernel's own scope.
    #[must_use]
    pub fn own(&self) -> &Scope {
        &self.own
    }

    /// The declarations of every service that has a scope.
    #[must_use]
    pub fn topologies(&self) -> Vec<&'static Topology> {
        lock(&self.shared.topologies).clone()
    }

    /// Runs `work` on the control plane and waits for it; how a program's main thread builds its services.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.shared.planes.control().block_on(work)
    }

    /// Watches SIGTERM and SIGINT from now on, for [`Kernel::run_watching`]: until they are watched they end the process
    /// without a drain, and as soon as something is open somebody may send them.
    ///
    /// # Errors
    /// [`KernelError::Runtime`] if the signals cannot be watched.
    pub fn watch_signals(&self) -> Result<Signals, KernelError> {
        self.block_on(async { Signals::watch() }).map_err(KernelError::from)
    }

    /// Conducts the node on this thread until it has stopped: signals, heartbeats, shutdown.
    ///
    /// # Errors
    /// [`KernelError::Runtime`] if this thread cannot have a runtime or the signals cannot be watched.
    pub fn run(self) -> Result<Exit, KernelError> {
        let signals = self.watch_signals()?;
        self.run_watching(signals)
    }

    /// The same with signals that are watched already.
    ///
    /// # Errors
    /// [`KernelError::Runtime`] if this thread cannot have a runtime.
    pub fn run_watching(self, signals: Signals) -> Result<Exit, KernelError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(conductor::conduct(&self, Some(signals))))
    }

    /// Conducts the node from a task, without touching the process's signals; for tests and embedding.
    ///
    /// Not cancel safe: dropped, it ends the node without a drain.
    ///
    /// # Errors
    /// None at present: what [`Kernel::run`] may miss, this one does not need.
    pub async fn conduct(self) -> Result<Exit, KernelError> {
        Ok(conductor::conduct(&self, None).await)
    }
}

impl Drop for Kernel {
    /// Its tasks hold what it shares, so the runtimes would otherwise outlive it.
    fn drop(&mut self) {
        self.shared.planes.let_go();
    }
}

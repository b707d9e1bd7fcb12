//! What all tasks and cores share, and how they call what may not answer.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use arc_swap::ArcSwap;
use ron_accounting::{Announce, SigningKey, SnapshotFiles, Windows};
use ron_kernel::{
    Clock, Fault, Scope,
    blocking::BlockingError,
    breaker::{Breaker, BreakerPolicy},
    lock::Ranked,
    metrics::Counter,
    readiness::{Condition, Effect},
    retry::{Backoff, RetryBudget, RetryPolicy, retry},
};
use ron_ledger::Ledger;
use tokio::sync::{Notify, Semaphore};
use types::Deadline;

use crate::{
    RewarderError,
    artifacts::Artifacts,
    calculus::Calculus,
    epoch_clock::EpochClock,
    metrics::RewarderMetrics,
    registry::Registry,
    settings::Settings,
    store::EpochStore,
    topology::{CLOCK_TOLD, UNKEPT_POLICIES},
};

/// Calls that may be repeated are tried three times.
const TRIES: RetryPolicy = RetryPolicy {
    max_tries: 3,
    backoff: Backoff::Spread {
        min: Duration::from_millis(100),
        max: Duration::from_millis(250),
        cap: Duration::from_millis(250),
    },
};

/// When the ledger is left alone, and for how long.
const LEDGER_BREAKER: BreakerPolicy = BreakerPolicy {
    error_permille: 0,
    window: Duration::from_secs(10),
    min_samples: 0,
    consecutive: 5,
    open_for: Duration::from_secs(1),
    open_cap: Duration::from_secs(5),
};

/// Calls of the store that run at once, and calls of the ledger. A server that hangs keeps so many threads and no more, and leaves the
/// others of the pool to the rest of the node.
const DATABASE_CALLS: usize = 3;
/// Computations at once that requests ask for, such as proofs.
const ASKED_COMPUTATIONS: usize = 2;

/// How long a cause must be gone before readiness says so.
const SETTLE: Duration = Duration::from_secs(1);

/// What all tasks and cores share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) scope: Scope,
    pub(crate) clock: Clock,
    /// The time that epochs follow.
    pub(crate) epoch_clock: EpochClock,
    pub(crate) windows: Windows,
    pub(crate) settings: ArcSwap<Settings>,
    pub(crate) store: EpochStore,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// Whether this node's word on the ledger counts.
    pub(crate) signs_checkpoints: bool,
    pub(crate) files: SnapshotFiles,
    pub(crate) artifacts: Artifacts,
    pub(crate) key: SigningKey,
    pub(crate) announce: Option<Arc<dyn Announce>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Arc<RewarderMetrics>,
    pub(crate) breaker: Breaker,
    pub(crate) conditions: Conditions,
    /// Policies in files that could not be kept yet, because the store does not answer: their paths and documents.
    pub(crate) unkept_policies: Ranked<Vec<(PathBuf, Vec<u8>)>>,
    /// Until when the condition `clock` stands, since 1970.
    pub(crate) clock_told_until: Ranked<Duration>,
    /// Rung when there may be an epoch to close.
    pub(crate) due: Notify,
    /// Whether a snapshot was listed, or an epoch closed by request, since it was last looked for late ones.
    pub(crate) may_be_late: AtomicBool,
    /// Whether the store may lack snapshots of this node that it has had.
    pub(crate) store_may_lack: AtomicBool,
    store_calls: Arc<Semaphore>,
    ledger_calls: Arc<Semaphore>,
    asked_computations: Arc<Semaphore>,
    budget: RetryBudget,
    retries: Counter,
}

/// What readiness may have to say.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(crate) ledger: Condition,
    pub(crate) store: Condition,
    pub(crate) accounting: Condition,
    pub(crate) artifacts: Condition,
    pub(crate) policy: Condition,
    pub(crate) quarantine: Condition,
    pub(crate) unfunded: Condition,
    pub(crate) parked: Condition,
    pub(crate) excluded: Condition,
    pub(crate) ledger_behind: Condition,
    pub(crate) clock: Condition,
    pub(crate) late_usage: Condition,
    pub(crate) late_snapshots: Condition,
    pub(crate) compute: Condition,
}

impl Conditions {
    fn new(scope: &Scope) -> Self {
        let report = |name| scope.condition(name, Effect::Report, SETTLE);
        Self {
            // Epochs wait for it in the store, so nothing is lost and requests are still taken.
            ledger: report("ledger"),
            store: scope.condition("epoch_store", Effect::ServiceDown, SETTLE),
            accounting: report("accounting"),
            artifacts: report("artifacts"),
            policy: report("policy"),
            quarantine: report("quarantine"),
            unfunded: report("unfunded"),
            parked: report("parked"),
            excluded: report("excluded"),
            ledger_behind: report("ledger_behind"),
            clock: report("clock"),
            late_usage: report("late_usage"),
            late_snapshots: report("late_snapshots"),
            compute: report("compute"),
        }
    }
}

/// What is opened before anything runs.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) windows: Windows,
    pub(crate) epoch_clock: EpochClock,
    pub(crate) settings: Settings,
    pub(crate) store: EpochStore,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) signs_checkpoints: bool,
    pub(crate) files: SnapshotFiles,
    pub(crate) artifacts: Artifacts,
    pub(crate) key: SigningKey,
    pub(crate) announce: Option<Arc<dyn Announce>>,
}

impl Shared {
    pub(crate) fn new(scope: &Scope, opened: Opened) -> Arc<Self> {
        let Opened {
            windows,
            epoch_clock,
            settings,
            store,
            ledger,
            signs_checkpoints,
            files,
            artifacts,
            key,
            announce,
        } = opened;
        Arc::new(Self {
            scope: scope.clone(),
            clock: scope.clock(),
            epoch_clock,
            windows,
            settings: ArcSwap::from_pointee(settings),
            store,
            ledger,
            signs_checkpoints,
            files,
            artifacts,
            key,
            announce,
            registry: Registry::new(scope),
            metrics: RewarderMetrics::new(scope),
            breaker: Breaker::new(LEDGER_BREAKER),
            conditions: Conditions::new(scope),
            unkept_policies: Ranked::new(&UNKEPT_POLICIES, Vec::new()),
            clock_told_until: Ranked::new(&CLOCK_TOLD, Duration::ZERO),
            due: Notify::new(),
            may_be_late: AtomicBool::new(true),
            store_may_lack: AtomicBool::new(true),
            store_calls: Arc::new(Semaphore::new(DATABASE_CALLS)),
            ledger_calls: Arc::new(Semaphore::new(DATABASE_CALLS)),
            asked_computations: Arc::new(Semaphore::new(ASKED_COMPUTATIONS)),
            budget: RetryBudget::new(200, 10),
            retries: scope.metrics().retries("rpc"),
        })
    }

    /// Time since the Unix epoch, as epochs follow it.
    pub(crate) fn unix(&self) -> Duration {
        self.epoch_clock.unix()
    }

    /// The first epoch that is closed automatically although a later one is.
    pub(crate) fn first_recent(&self) -> u64 {
        let age = self.settings.load().max_epoch_age;
        self.windows.epoch_at(self.unix().saturating_sub(age))
    }

    /// Asks the store, or files: each try on the blocking pool and within the time of a call, three tries in all. What is
    /// asked must be the same when it is asked twice.
    ///
    /// Cancel safe in that whatever is asked may be asked again.
    pub(crate) async fn ask<T, W>(&self, job: &'static str, work: W) -> Result<T, RewarderError>
    where
        T: Send + 'static,
        W: Fn() -> Result<T, RewarderError> + Clone + Send + 'static,
    {
        self.ask_with(&self.store_calls, job, work).await
    }

    /// The same of the ledger.
    ///
    /// Cancel safe in that whatever is asked may be asked again.
    pub(crate) async fn ask_ledger<T, W>(&self, job: &'static str, work: W) -> Result<T, RewarderError>
    where
        T: Send + 'static,
        W: Fn() -> Result<T, RewarderError> + Clone + Send + 'static,
    {
        self.ask_with(&self.ledger_calls, job, work).await
    }

    async fn ask_with<T, W>(
        &self,
        places: &Arc<Semaphore>,
        job: &'static str,
        work: W,
    ) -> Result<T, RewarderError>
    where
        T: Send + 'static,
        W: Fn() -> Result<T, RewarderError> + Clone + Send + 'static,
    {
        let timeout = self.settings.load().call_timeout;
        let mut rng = fastrand::Rng::new();
        let once = |_| {
            let (work, deadline) = (work.clone(), self.clock.within(timeout));
            async move { self.scope.by("rpc", deadline, self.run_with(places, job, work)).await?? }
        };
        let asked =
            retry(&TRIES, &self.budget, Deadline::NEVER, self.clock, &self.retries, &mut rng, once).await;
        asked.map_err(ron_kernel::retry::RetryError::into_last)
    }

    /// Runs work on the blocking pool that asks the store, once fewer than [`DATABASE_CALLS`] do. It may wait for as long as a server
    /// hangs.
    ///
    /// Cancel safe in that the work is not begun, or goes on without its caller.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        job: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        self.run_with(&self.store_calls, job, work).await
    }

    /// The same of the ledger.
    ///
    /// Cancel safe in that the work is not begun, or goes on without its caller.
    pub(crate) async fn call_ledger<T: Send + 'static>(
        &self,
        job: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        self.run_with(&self.ledger_calls, job, work).await
    }

    /// Asks the store once, within the time of a call. Work that takes longer goes on, and has to be the same when it is done twice.
    pub(crate) async fn call_in_time<T: Send + 'static>(
        &self,
        job: &'static str,
        work: impl FnOnce() -> Result<T, RewarderError> + Send + 'static,
    ) -> Result<T, RewarderError> {
        let deadline = self.clock.within(self.settings.load().call_timeout);
        self.scope.by("rpc", deadline, self.call(job, work)).await??
    }

    /// Computes on the blocking pool what a request asks for, once fewer than [`ASKED_COMPUTATIONS`] are.
    ///
    /// Cancel safe in that the work is not begun, or goes on without its caller.
    pub(crate) async fn compute_for_request<T: Send + 'static>(
        &self,
        job: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        self.run_with(&self.asked_computations, job, work).await
    }

    async fn run_with<T: Send + 'static>(
        &self,
        places: &Arc<Semaphore>,
        job: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        let place = Arc::clone(places).acquire_owned().await.map_err(|_| BlockingError::Stopped)?;
        // Held as long as the work runs, and not only as long as somebody waits for it.
        let work = move || {
            let _place = place;
            work()
        };
        self.scope.blocking().run(job, work).await
    }

    /// Runs a blocking operation on the store.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        job: &'static str,
        work: impl Fn(&EpochStore) -> Result<T, crate::store::StoreError> + Clone + Send + 'static,
    ) -> Result<T, RewarderError> {
        let store = self.store.clone();
        let asked = self.ask(job, move || Ok(work(&store)?)).await;
        match &asked {
            Err(RewarderError::Store(error)) => self.conditions.store.raise(error.to_string()),
            // A server that hangs says nothing.
            Err(RewarderError::Kernel(fault @ Fault::Timeout { .. })) => {
                self.conditions.store.raise(format!("the epoch store does not answer: {fault}"));
            }
            Err(_) => {}
            Ok(_) => self.conditions.store.clear(),
        }
        asked
    }

    /// Returns the inputs of a computation.
    pub(crate) fn calculus(&self) -> Calculus {
        let settings = self.settings.load();
        let (max_rows, policy_keys) = (settings.max_rows, settings.policy_keys.clone());
        Calculus { store: self.store.clone(), files: self.files.clone(), max_rows, policy_keys }
    }
}

//! From configuration to a running rewarder, and from one configuration to the next.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use http::request::Parts;
use rewards::{Sign, SnapshotSeal};
use ron_accounting::{Accounts, Announce, MAX_ROW_BYTES, NodeId, check_rows, check_seal, node_id};
use ron_kernel::{
    Scope,
    config::Snapshot,
    lock::Ranked,
    reload::{Commit, Preparing, Reconfigure},
};
use ron_ledger::Ledger;
use ron_transport::{
    Response,
    addr::ListenAddr,
    inherit::Inherited,
    listen::{BindOptions, Listener},
    proxy_protocol::TrustedSources,
    serve::{HttpServer, ListenPlan, Roles},
    tls::ServerTls,
};
use types::ObjectId;

use crate::{
    Authority, BuildError, RewarderConfig, RewarderError,
    accountant::{Accountant, list},
    emitter::Emitter,
    epoch_clock::{EpochClock, WallClock},
    health::Health,
    http::{Handler, Places},
    open::{self, StorePlace},
    policies,
    scheduler::Scheduler,
    settings::Settings,
    shared::{Opened, Shared},
    store::{EpochStore, StoreError},
    topology::{
        ACCOUNTANT, ACCOUNTS, ARTIFACT_WRITER, COMPUTE_SCHEDULER, HEALTH_REPORTER, INTENT_EMITTER, INTENTS,
        RESULTS, WORK, WORK_REQ, WORKER,
    },
    worker::Worker,
    writer::ArtifactWriter,
};

/// So many epochs ahead of the present one, snapshots are taken: as many as a node announces again and again.
const MAX_AHEAD: u64 = 8;
/// The most bytes of rows that one node may have in epochs that are not closed: those of 32 of the largest snapshots.
const MAX_OPEN_BYTES: u64 = 32 * MAX_ROW_BYTES as u64;

/// Loads what capability tokens are checked with, for a configuration. Blocking.
pub type LoadAuthority = Arc<dyn Fn(&Snapshot) -> Result<Authority, String> + Send + Sync>;

/// What a rewarder is made from.
pub struct RewarderSettings<'a> {
    /// The section `[rewarder]` of the configuration.
    pub rewarder: &'a RewarderConfig,
    /// Where the node keeps its data; `None` if it must not write anything.
    pub data_dir: Option<&'a Path>,
    /// The database of epochs.
    pub store: StorePlace,
    /// The ledger that payouts are posted to.
    pub ledger: Arc<dyn Ledger>,
    /// Whose checkpoints of the ledger count, by their Ed25519 keys; anybody's if there are none.
    pub checkpoint_keys: &'a [[u8; 32]],
    /// What capability tokens are checked with now.
    pub authority: Authority,
    /// Reloads the keys with each new configuration.
    pub load_authority: LoadAuthority,
    /// The wall clock that epochs follow.
    pub wall_clock: WallClock,
    /// Who is told of snapshots; `None` for nobody.
    pub announce: Option<Arc<dyn Announce>>,
}

/// A running rewarder service.
pub struct Rewarder {
    shared: Arc<Shared>,
    server: HttpServer<Handler>,
    /// For those who look from within this process.
    local: Handler,
    load_authority: LoadAuthority,
}

impl Rewarder {
    /// Builds and starts a rewarder as configured. What an earlier process left unfinished is taken up at once.
    ///
    /// Cancel safe: what was opened closes when the future is dropped.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build(
        scope: &Scope,
        settings: RewarderSettings<'_>,
        inherited: &mut Inherited,
    ) -> Result<Arc<Self>, BuildError> {
        let RewarderSettings {
            rewarder: config,
            data_dir,
            store,
            ledger,
            checkpoint_keys,
            authority,
            load_authority,
            wall_clock,
            announce,
        } = settings;
        let epoch_clock = EpochClock::new(scope.clock(), wall_clock);
        let tls = load_tls(scope, config).await?;
        let listener = inherited.listen(&config.listen, BindOptions::default())?;
        let plan = open::Plan {
            config: config.clone(),
            data_dir: data_dir.map(ToOwned::to_owned),
            store,
            unix: epoch_clock.unix(),
        };
        let found = scope.blocking().run("open the rewarder's data", move || open::open(plan)).await??;
        // The word of a key that nobody knows, or that ends with the process, is worth nothing.
        let lasting = data_dir.is_some() || !config.node_key.as_os_str().is_empty();
        let known = checkpoint_keys.is_empty() || checkpoint_keys.contains(found.key.public_key().as_bytes());
        let opened = Opened {
            windows: config.windows(),
            epoch_clock,
            settings: Settings::new(config, found.key.node(), authority),
            store: found.store,
            ledger,
            signs_checkpoints: lasting && known,
            files: found.accounts.files().clone(),
            artifacts: found.artifacts,
            key: found.key,
            announce,
        };
        let shared = Shared::new(scope, opened);
        if let Err(error) = take_policies(&shared, config).await {
            // A connection to a server is closed by a thread that may block.
            let _ = scope.blocking().run("close the rewarder's data", move || drop(shared)).await;
            return Err(error);
        }
        let plan = listen_plan(config, Some(listener), tls);
        let (server, local) = start(scope, &shared, config, found.accounts, plan);
        Ok(Arc::new(Self { shared, server, local, load_authority }))
    }

    /// Answers whoever looks from within this process and was admitted there; nothing can be changed this way.
    ///
    /// Cancel safe.
    pub async fn look(&self, request: Parts) -> Response {
        self.local.look(request).await
    }

    /// Where it listens, with the port the system chose.
    #[must_use]
    pub fn local_addr(&self) -> ListenAddr {
        self.server.local_addr()
    }

    /// The listening socket, to hand it to a successor; `None` once the node drains.
    #[must_use]
    pub fn listener(&self) -> Option<Arc<Listener>> {
        self.server.listener()
    }

    /// What this node is called, by its key.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.shared.key.node()
    }

    /// The node whose snapshot a document seals. Only what passes is worth fetching the rows for.
    ///
    /// # Errors
    /// [`RewarderError::Snapshot`] if it is not sealed by the node it names, or that node does not count.
    pub fn check_snapshot(&self, document: &[u8]) -> Result<NodeId, RewarderError> {
        let seal = check_seal(document, &self.shared.settings.load().nodes)?;
        self.shared.refuse_future(&seal)?;
        Ok(node_id(&seal.key))
    }

    /// Takes in another node's snapshot with its rows; says whether it is listed, and not another of the same node. One
    /// that comes after its epoch was closed is listed and does not count, so that its rows are not kept.
    ///
    /// Cancel safe: taken twice, it is listed once.
    ///
    /// # Errors
    /// [`RewarderError::Snapshot`] if it is not what it should be, of a node that does not count, or too long;
    /// [`RewarderError::Order`] if it is of an epoch that is far ahead, or the node has too much in open epochs.
    pub async fn accept_snapshot(&self, document: Vec<u8>, rows: Vec<u8>) -> Result<bool, RewarderError> {
        let shared = Arc::clone(&self.shared);
        let accept = move || {
            let seal = check_seal(&document, &shared.settings.load().nodes)?;
            shared.refuse_future(&seal)?;
            check_rows(&seal, &rows)?;
            if shared.store.record(seal.snapshot.epoch.number())?.is_some() {
                return list(&shared.store, &seal, object_of(&rows).to_string(), None);
            }
            refuse_hoard(&shared.store, &seal, rows.len())?;
            let object = shared.files.keep(&rows).map_err(|error| RewarderError::Files(error.to_string()))?;
            list(&shared.store, &seal, object.to_string(), Some(&rows))
        };
        let listed = self.shared.compute_for_request("accept a snapshot", accept).await??;
        self.shared.may_be_late.store(true, Ordering::Release);
        self.shared.due.notify_one();
        Ok(listed)
    }

    async fn follow(&self, new: Arc<Snapshot>) -> Result<Commit, BuildError> {
        let config = new.get::<RewarderConfig>();
        let scope = &self.shared.scope;
        let tls = load_tls(scope, &config).await?;
        let listener = self.server.bind(&config.listen, BindOptions::default())?;
        let (load, snapshot) = (Arc::clone(&self.load_authority), Arc::clone(&new));
        let authority = scope.blocking().run("load credentials", move || load(&snapshot)).await?;
        let settings = Settings::new(&config, self.node(), authority.map_err(BuildError::Authority)?);
        let documents = read_policies(scope, &config).await?;
        let (shared, server) = (Arc::clone(&self.shared), self.server.clone());
        let settings = Arc::new(settings);
        // A policy that is refused refuses the reload; one that is kept is kept either way, and does no harm.
        let unkept = keep_in_time(&shared, &settings, documents).await?;
        Ok(Box::new(move || {
            shared.settings.store(settings);
            *shared.unkept_policies.lock() = unkept;
            shared.due.notify_one();
            server.commit(listen_plan(&config, listener, tls));
        }))
    }
}

impl std::fmt::Debug for Rewarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rewarder").field("node", &self.node()).finish_non_exhaustive()
    }
}

impl Reconfigure for Rewarder {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        Box::pin(async move { self.follow(new).await.map_err(|error| error.to_string()) })
    }
}

impl Shared {
    /// Refuses a snapshot of an epoch that is far ahead. One whose node's clock is somewhat ahead is announced again.
    fn refuse_future(&self, seal: &SnapshotSeal) -> Result<(), RewarderError> {
        let (epoch, present) = (seal.snapshot.epoch.number(), self.windows.epoch_at(self.unix()));
        if epoch <= present.saturating_add(MAX_AHEAD) {
            return Ok(());
        }
        Err(RewarderError::Order(format!("the snapshot is of epoch {epoch}, and now is epoch {present}")))
    }
}

/// Refuses a snapshot of a node that fills the store with epochs of the past: they stay until somebody closes them.
fn refuse_hoard(store: &EpochStore, seal: &SnapshotSeal, bytes: usize) -> Result<(), RewarderError> {
    let there = store.open_bytes(seal.snapshot.node.as_str())?;
    if there.saturating_add(bytes as u64) <= MAX_OPEN_BYTES {
        return Ok(());
    }
    let mebibytes = there >> 20;
    Err(RewarderError::Order(format!("the node has {mebibytes} MiB of rows in epochs that are not closed")))
}

/// The address of a file of rows.
fn object_of(rows: &[u8]) -> ObjectId {
    b3tree::Builder::new().update(rows).finish().root()
}

/// Starts everything that runs.
fn start(
    scope: &Scope,
    shared: &Arc<Shared>,
    config: &RewarderConfig,
    accounts: Accounts,
    plan: ListenPlan,
) -> (HttpServer<Handler>, Handler) {
    let (requests, requested) = scope.queue(&WORK_REQ, "compute");
    let (work, worked) = scope.queue(&WORK, "compute");
    let (results, computed) = scope.queue(&RESULTS, "");
    let (doorbell, bell) = scope.queue(&INTENTS, "");
    let emitter = Emitter { shared: Arc::clone(shared), bell: bell.share() };
    scope.task(&INTENT_EMITTER, move |ctx| emitter.clone().run(ctx));
    let writer =
        ArtifactWriter { shared: Arc::clone(shared), results: computed.share(), doorbell: doorbell.clone() };
    scope.task(&ARTIFACT_WRITER, move |ctx| writer.clone().run(ctx));
    let worker = Worker { shared: Arc::clone(shared), work: worked.share(), results };
    scope.pool(&WORKER, config.concurrency.compute_workers, move |ctx| worker.clone().run(ctx));
    let scheduler = Scheduler { shared: Arc::clone(shared), requests: requested.share(), work, doorbell };
    scope.task(&COMPUTE_SCHEDULER, move |ctx| scheduler.clone().run(ctx));
    let accountant =
        Accountant { shared: Arc::clone(shared), accounts: Arc::new(Ranked::new(&ACCOUNTS, accounts)) };
    scope.task(&ACCOUNTANT, move |ctx| accountant.clone().run(ctx));
    let health = Health { shared: Arc::clone(shared) };
    scope.task(&HEALTH_REPORTER, move |ctx| health.clone().run(ctx));
    let places = Arc::<Places>::default();
    let handler = || Handler::new(Arc::clone(shared), requests.clone(), Arc::clone(&places));
    // Cores share a route's metrics, so any handler stands for all.
    let sampled = handler();
    scope.sampled(move || sampled.sample());
    (HttpServer::start(scope, Roles::default(), plan, |_core| handler()), handler())
}

async fn load_tls(scope: &Scope, config: &RewarderConfig) -> Result<Option<ServerTls>, BuildError> {
    let Some(tls) = config.tls.server_config() else {
        return Ok(None);
    };
    let loaded = scope.blocking().run("load certificates", move || ServerTls::load(&tls)).await??;
    for warning in loaded.warnings() {
        tracing::warn!(%warning, "certificate");
    }
    Ok(Some(loaded))
}

async fn take_policies(shared: &Arc<Shared>, config: &RewarderConfig) -> Result<(), BuildError> {
    let documents = read_policies(&shared.scope, config).await?;
    let unkept = keep_in_time(shared, &shared.settings.load_full(), documents).await?;
    *shared.unkept_policies.lock() = unkept;
    Ok(())
}

/// Keeps policies, within the time of a call: neither a start nor a reload waits for a store that hangs. Those that are not kept
/// come back, to be kept later.
async fn keep_in_time(
    shared: &Shared,
    settings: &Arc<Settings>,
    documents: Documents,
) -> Result<Documents, BuildError> {
    let (store, judging, again) = (shared.store.clone(), Arc::clone(settings), documents.clone());
    let keep = move || keep_all(&store, &judging, documents);
    let deadline = shared.clock.within(settings.call_timeout);
    match shared.scope.by("rpc", deadline, shared.call("keep policies", keep)).await {
        Ok(kept) => kept?,
        Err(_) => Ok(again),
    }
}

/// Policies in files: their paths and documents.
type Documents = Vec<(std::path::PathBuf, Vec<u8>)>;

/// The files with policies, read.
async fn read_policies(scope: &Scope, config: &RewarderConfig) -> Result<Documents, BuildError> {
    let (paths, limit) = (config.policy_files.clone(), config.limits.max_body_bytes.as_u64());
    let read = move || -> Result<_, BuildError> {
        let one =
            |path: std::path::PathBuf| Ok((path.clone(), ron_transport::files::read_public(&path, limit)?));
        paths.into_iter().map(one).collect()
    };
    scope.blocking().run("read policies", read).await?
}

/// Keeps policies; one that is older than what is kept is left alone, because a file may be. Those that the store does not
/// answer for come back, to be kept later.
pub(crate) fn keep_all(
    store: &crate::store::EpochStore,
    settings: &Settings,
    documents: Documents,
) -> Result<Documents, BuildError> {
    let mut unkept = Vec::new();
    for (path, document) in documents {
        match policies::accept(store, settings, None, &document) {
            Err(RewarderError::Store(StoreError::Unavailable(_) | StoreError::Denied(_))) => {
                unkept.push((path, document));
            }
            Ok(_) => {}
            Err(RewarderError::Policy(error @ rewards::PolicyError::Superseded(_))) => {
                tracing::warn!(path = %path.display(), %error, "a policy in a file is older than the one in force");
            }
            Err(error) => return Err(BuildError::Policy { path, error: Box::new(error) }),
        }
    }
    Ok(unkept)
}

fn listen_plan(config: &RewarderConfig, listener: Option<Listener>, tls: Option<ServerTls>) -> ListenPlan {
    ListenPlan {
        listener,
        tls,
        proxy_protocol: TrustedSources::new(Vec::new()),
        limits: config.http_limits(),
    }
}

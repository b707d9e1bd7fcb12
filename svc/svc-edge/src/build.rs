//! From configuration to a running edge, and from one configuration to the next.

use std::{path::Path, sync::Arc};

use arc_swap::ArcSwap;
use cas::{IndexError, OpenError, UrlIndex};
use ron_kernel::{
    Fault, Scope,
    blocking::BlockingError,
    config::Snapshot,
    reload::{Commit, Preparing, Reconfigure},
};
use ron_transport::{
    ConnInfo, Request, Response,
    addr::ListenAddr,
    inherit::Inherited,
    listen::{BindError, BindOptions, Listener},
    proxy_protocol::TrustedSources,
    resolve::Resolver,
    serve::{HttpServer, ListenPlan, Roles, WORKER},
    tls::{ServerTls, TlsError},
};

use crate::{
    EdgeConfig, Mode,
    assets::{Damages, Roots},
    fill::{Fill, FillParts, FillSettings},
    metrics::EdgeMetrics,
    objects::Objects,
    packs::Verifier,
    policy::Policy,
    service::Handler,
    shared::{Shared, Stores},
};

/// Why an edge could not be built, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The socket cannot be had.
    #[error("edge: {0}")]
    Bind(#[from] BindError),
    /// The certificates cannot be used.
    #[error("edge: {0}")]
    Tls(#[from] TlsError),
    /// The store cannot be used.
    #[error("edge: {0}")]
    Store(#[from] OpenError),
    /// What is known of URLs cannot be used.
    #[error("edge: {0}")]
    Index(#[from] IndexError),
    /// The fill could not be started.
    #[error("edge: {0}")]
    Fill(#[from] Fault),
    /// The blocking pool did not load them.
    #[error("edge: {0}")]
    Blocking(#[from] BlockingError),
}

/// What an edge is made from.
#[derive(Clone, Copy, Debug)]
pub struct EdgeSettings<'a> {
    /// The section `[edge]` of the configuration.
    pub edge: &'a EdgeConfig,
    /// The node's name, under which usage is booked.
    pub node: &'a str,
    /// Where the node keeps its data; `None` if it must not write anything.
    pub data_dir: Option<&'a Path>,
}

/// What is known of URLs, in the node's data.
const URL_INDEX: &str = "edge-urls.sqlite";
/// More maps than this are not worth a line each.
const LOOK_AT: usize = 5;

/// What is in force, by core.
type Policies = Arc<[Arc<ArcSwap<Policy>>]>;

/// A running edge service.
#[derive(Debug)]
pub struct Edge {
    scope: Scope,
    shared: Arc<Shared>,
    policies: Policies,
    verifier: Verifier,
    server: HttpServer<Handler>,
    /// Handlers for those who are in this process, by core.
    locals: Arc<[Handler]>,
    /// Whether it was started with certificates.
    secure: bool,
}

impl Edge {
    /// Builds and starts an edge as configured. Packs are mounted in the background.
    ///
    /// Cancel safe: what was opened closes when the future is dropped.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build(
        scope: &Scope,
        settings: EdgeSettings<'_>,
        inherited: &mut Inherited,
    ) -> Result<Arc<Self>, BuildError> {
        let config = settings.edge;
        let tls = load_tls(scope, config).await?;
        let listener = inherited.listen(&config.listen, BindOptions::default())?;
        let stores = open_stores(scope, settings).await?;
        let shared = Shared::new(scope, config, settings.node, stores);
        let roots = Roots::new(&config.roots, scope, Arc::clone(&shared.damages));
        shared.registry.set_refused(config.refused_packs);
        let packs = shared.registry.all();
        let cores = scope.planes().cores().iter();
        let policies: Policies = cores
            .map(|_| {
                Arc::new(ArcSwap::from_pointee(Policy::new(config, Arc::clone(&roots), Arc::clone(&packs))))
            })
            .collect();
        let secure = tls.is_some();
        let plan = listen_plan(config, Some(listener), tls);
        let server =
            HttpServer::start(scope, Roles { worker: Some(&WORKER), ..Roles::default() }, plan, |core| {
                Handler::new(Arc::clone(&policies[core]), Arc::clone(&shared))
            });
        let outboards = settings.data_dir.map(|data| data.join("outboards"));
        let verifier = Verifier::start(scope, &shared.registry, outboards);
        let local = |policy: &Arc<_>| Handler::new(Arc::clone(policy), Arc::clone(&shared));
        let locals: Arc<[Handler]> = policies.iter().map(local).collect();
        // Cores share a route's metrics, so any handler stands for all.
        let sampled = Arc::clone(&locals);
        scope.sampled(move || sampled[0].sample());
        Ok(Arc::new(Self { scope: scope.clone(), shared, policies, verifier, server, locals, secure }))
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

    /// Answers a request that came in elsewhere in this process and was admitted there: no rate of clients is asked.
    ///
    /// Cancel safe.
    pub async fn answer(&self, conn: &ConnInfo, request: Request) -> Response {
        self.locals[conn.core % self.locals.len()].answer_admitted(conn, request).await
    }

    /// Addresses for a browser: the map of each pack, up to five; none behind a Unix socket.
    #[must_use]
    pub fn to_look_at(&self) -> Vec<String> {
        let ListenAddr::Tcp(addr) = self.local_addr() else { return Vec::new() };
        let scheme = if self.secure { "https" } else { "http" };
        let host = match addr.ip() {
            // Wherever it listens, this machine is one of the places.
            ip if ip.is_unspecified() => format!("localhost:{}", addr.port()),
            _ => addr.to_string(),
        };
        let packs = self.shared.registry.all();
        let maps = packs.keys().take(LOOK_AT).map(|pack| format!("{scheme}://{host}/edge/tiles/{pack}"));
        maps.collect()
    }

    pub(crate) fn server(&self) -> &HttpServer<Handler> {
        &self.server
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    async fn follow(&self, new: Arc<Snapshot>) -> Result<Commit, BuildError> {
        let config = new.get::<EdgeConfig>();
        let tls = load_tls(&self.scope, &config).await?;
        let listener = self.server.bind(&config.listen, BindOptions::default())?;
        let present = self.policies[0].load_full();
        let same_roots = present.roots.is_of(&config.roots);
        let roots = if same_roots {
            Arc::clone(&present.roots)
        } else {
            Roots::new(&config.roots, &self.scope, Arc::clone(&self.shared.damages))
        };
        let packs = self.shared.registry.prepare(&config.packs);
        let fill = match &self.shared.fill {
            Some(fill) => Some((Arc::clone(fill), load_fill(&self.scope, &config).await?)),
            None => None,
        };
        let prepared: Vec<_> = self
            .policies
            .iter()
            .map(|_| Policy::new(&config, Arc::clone(&roots), Arc::clone(&packs)))
            .collect();
        let (shared, policies, server) =
            (Arc::clone(&self.shared), Arc::clone(&self.policies), self.server.clone());
        let verifier = self.verifier.clone();
        Ok(Box::new(move || {
            shared.ingress.reconfigure(&config.ingress);
            for (current, policy) in policies.iter().zip(prepared) {
                current.store(Arc::new(policy));
            }
            if !same_roots {
                present.roots.retire();
            }
            if let Some((fill, settings)) = fill {
                fill.follow(settings);
            }
            shared.registry.commit(packs);
            shared.registry.set_refused(config.refused_packs);
            verifier.look();
            server.commit(listen_plan(&config, listener, tls));
        }))
    }
}

impl Reconfigure for Edge {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        Box::pin(async move { self.follow(new).await.map_err(|error| error.to_string()) })
    }
}

async fn load_tls(scope: &Scope, config: &EdgeConfig) -> Result<Option<ServerTls>, BuildError> {
    let Some(tls) = config.tls.server_config() else {
        return Ok(None);
    };
    let loaded = scope.blocking().run("load certificates", move || ServerTls::load(&tls)).await??;
    for warning in loaded.warnings() {
        tracing::warn!(%warning, "certificate");
    }
    Ok(Some(loaded))
}

/// Opens the store, and starts the fill if there is to be one.
async fn open_stores(scope: &Scope, settings: EdgeSettings<'_>) -> Result<Stores, BuildError> {
    let config = settings.edge;
    let (cas_config, mode) = (config.cas.clone(), config.mode);
    let data_dir = settings.data_dir.map(ToOwned::to_owned);
    let open = move || Objects::open(&cas_config, mode, data_dir.as_deref());
    let (cas, read_only) = scope.blocking().run("open the store", open).await??;
    let metrics = EdgeMetrics::new(scope);
    let damages = Arc::new(Damages::new(scope, metrics.quarantined.clone()));
    let objects = Objects::new(scope, cas, config.cas.ram_bytes.as_u64(), Arc::clone(&damages));
    let fill = match mode {
        Mode::Offline => None,
        Mode::Live => Some(start_fill(scope, settings, &objects, read_only).await?),
    };
    Ok(Stores { metrics, damages, objects, fill })
}

async fn start_fill(
    scope: &Scope,
    settings: EdgeSettings<'_>,
    objects: &Objects,
    read_only: Option<String>,
) -> Result<Arc<Fill>, BuildError> {
    let config = settings.edge;
    let index_path = settings.data_dir.map(|data| data.join(URL_INDEX));
    let open = move || index_path.map(|path| open_index(&path)).transpose();
    let (index, unwritten) = scope.blocking().run("open the url index", open).await??.unzip();
    let parts = FillParts {
        settings: load_fill(scope, config).await?,
        workers: config.fill.workers,
        max_entries: config.fill.max_entries,
        inflight_bytes: config.fill.inflight_bytes.as_u64(),
        amnesia: settings.data_dir.is_none(),
        resolver: Resolver::new(scope),
        cas: Arc::clone(&objects.cas),
        hot: Arc::clone(&objects.hot),
        index,
        read_only: read_only.or(unwritten.flatten()),
    };
    Ok(Fill::start(scope, parts).await?)
}

/// The index of URLs; on a full disk as far as it can be read, and why it is not written. Blocking.
fn open_index(path: &Path) -> Result<(UrlIndex, Option<String>), IndexError> {
    match UrlIndex::open(path) {
        Err(error @ IndexError::Unwritable(_)) => {
            tracing::error!(%error, "the index of URLs is not written to disk");
            let there = UrlIndex::open_unchanging(path).or_else(|_| UrlIndex::in_memory())?;
            Ok((there, Some(error.to_string())))
        }
        opened => opened.map(|(index, _)| (index, None)),
    }
}

async fn load_fill(scope: &Scope, config: &EdgeConfig) -> Result<FillSettings, BuildError> {
    let config = config.clone();
    Ok(scope.blocking().run("load authorities", move || FillSettings::load(&config)).await??)
}

fn listen_plan(config: &EdgeConfig, listener: Option<Listener>, tls: Option<ServerTls>) -> ListenPlan {
    ListenPlan { listener, tls, proxy_protocol: TrustedSources::new(Vec::new()), limits: config.limits() }
}

//! From configuration to a running edge, and from one configuration to the next.

use std::{path::Path, sync::Arc};

use arc_swap::ArcSwap;
use cas::{Cas, OpenError};
use ron_kernel::{
    Scope,
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
    serve::{HttpServer, ListenPlan, Roles},
    tls::{ServerTls, TlsError},
};

use crate::{
    EdgeConfig, assets::Roots, objects::Objects, packs::Verifier, policy::Policy, service::Handler,
    shared::Shared,
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
    /// The blocking pool did not load them.
    #[error("edge: {0}")]
    Blocking(#[from] BlockingError),
}

/// What an edge is made from.
#[derive(Clone, Copy, Debug)]
pub struct EdgeSettings<'a> {
    /// `[edge]`.
    pub edge: &'a EdgeConfig,
    /// The node's name, under which usage is booked.
    pub node: &'a str,
    /// Where the node keeps its data; `None` if it must not write anything.
    pub data_dir: Option<&'a Path>,
}

/// More maps than this are not worth a line each.
const LOOK_AT: usize = 5;

/// What is in force, by core.
type Policies = Arc<[Arc<ArcSwap<Policy>>]>;

/// A running edge.
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
        let cas = open_store(scope, settings).await?;
        let shared = Shared::new(scope, config, settings.node, cas);
        let roots = Roots::new(&config.roots, scope.clock(), Arc::clone(&shared.damages));
        let packs = shared.registry.all();
        let cores = scope.planes().cores().iter();
        let policies: Policies = cores
            .map(|_| {
                Arc::new(ArcSwap::from_pointee(Policy::new(config, Arc::clone(&roots), Arc::clone(&packs))))
            })
            .collect();
        let secure = tls.is_some();
        let plan = listen_plan(config, Some(listener), tls);
        let server = HttpServer::start(scope, Roles::default(), plan, |core| {
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

    async fn follow(&self, new: Arc<Snapshot>) -> Result<Commit, BuildError> {
        let config = new.get::<EdgeConfig>();
        let tls = load_tls(&self.scope, &config).await?;
        let listener = self.server.bind(&config.listen, BindOptions::default())?;
        let present = self.policies[0].load_full();
        let same_roots = present.roots.is_of(&config.roots);
        let roots = if same_roots {
            Arc::clone(&present.roots)
        } else {
            Roots::new(&config.roots, self.scope.clock(), Arc::clone(&self.shared.damages))
        };
        let packs = self.shared.registry.prepare(&config.packs);
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
            shared.registry.commit(packs);
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

async fn open_store(scope: &Scope, settings: EdgeSettings<'_>) -> Result<Cas, BuildError> {
    let (config, mode) = (settings.edge.cas.clone(), settings.edge.mode);
    let data_dir = settings.data_dir.map(ToOwned::to_owned);
    let open = move || Objects::open(&config, mode, data_dir.as_deref());
    Ok(scope.blocking().run("open the store", open).await??)
}

fn listen_plan(config: &EdgeConfig, listener: Option<Listener>, tls: Option<ServerTls>) -> ListenPlan {
    ListenPlan { listener, tls, proxy_protocol: TrustedSources::new(Vec::new()), limits: config.limits() }
}

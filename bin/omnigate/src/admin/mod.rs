//! The admin listener: what an operator, a balancer or a scraper asks a node.

mod access;
mod audit;
mod audit_file;
mod cache;
mod console;
mod endpoint;
mod events;
mod live;
mod local_user;
pub(crate) mod locks;
mod objects;
mod overlay;
mod readyz;
mod rehearse;
mod reply;
mod service;
mod topology;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ron_kernel::{
    Scope,
    config::Snapshot,
    reload::{Commit, Preparing, Reconfigure, ReloadDesk},
    topology::Topology,
};
use ron_transport::{
    addr::ListenAddr,
    inherit::Inherited,
    listen::{BindError, BindOptions, Listener},
    proxy_protocol::TrustedSources,
    serve::{HttpServer, ListenPlan},
    tls::ServerTls,
};
use svc_gateway::Gateway;
use svc_overlay::Overlay;

use crate::{
    audit_outlet::AuditOutlet,
    settings::{AdminConfig, OPEN_REMEDY, is_open},
};
use audit_file::AuditFile;
pub(crate) use audit_file::append_now as append_to_trail;
pub(crate) use console::{ConfigInForce, Part, Shown};
use service::{AdminService, Shared};
pub(crate) use topology::TOPOLOGY;

/// Only the owner may use the socket's file, because a client that may connect may stop the node.
const SOCKET: BindOptions = BindOptions { unix_mode: 0o600 };

/// What the node is made of, as far as the admin listener answers for it.
pub(crate) struct MadeOf {
    /// The services that run.
    pub(crate) topologies: Vec<&'static Topology>,
    /// The gateway; `None` if it is not enabled.
    pub(crate) gateway: Option<Arc<Gateway>>,
    /// The overlay; `None` if it is not enabled.
    pub(crate) overlay: Option<Arc<Overlay>>,
    /// The services that the console shows.
    pub(crate) shown: Shown,
    /// The handle that requests reloads.
    pub(crate) reloads: ReloadDesk,
}

/// The running admin listener.
#[derive(Debug)]
pub(crate) struct Admin {
    shared: Arc<Shared>,
    server: HttpServer<AdminService>,
    scope: Scope,
    audit: AuditFile,
    /// Whether its listener speaks TLS.
    is_tls: AtomicBool,
}

impl Admin {
    /// Starts the admin listener of a node that is made of `made_of`; `audit` is where the audit trail leaves the log.
    ///
    /// The error says what is wrong and what to do about it.
    pub(crate) async fn start(
        scope: &Scope,
        config: &AdminConfig,
        audit: &AuditOutlet,
        made_of: MadeOf,
        inherited: &mut Inherited,
    ) -> Result<Arc<Self>, String> {
        let tls = load_tls(scope, config).await?;
        AuditFile::try_open(scope, config).await?;
        let listener = inherited.listen(&config.listen, SOCKET).map_err(unopened)?;
        refuse_open(config, listener.local_addr())?;
        warn_in_the_clear(listener.local_addr(), tls.is_some());
        let audit = AuditFile::start(scope, audit);
        audit.reconfigure(config);
        let is_tls = AtomicBool::new(tls.is_some());
        let shared = Arc::new(Shared::new(scope, config, made_of));
        shared.listens_on(listener.local_addr());
        let service = |_core| AdminService::new(&shared);
        let server = HttpServer::start(scope, topology::ROLES, plan(Some(listener), tls), service);
        Ok(Arc::new(Self { shared, server, scope: scope.clone(), audit, is_tls }))
    }

    /// Where it listens, with the port the system chose.
    pub(crate) fn local_addr(&self) -> ListenAddr {
        self.server.local_addr()
    }

    /// The console's address for a browser; none behind a Unix socket.
    pub(crate) fn console_url(&self) -> Option<String> {
        let ListenAddr::Tcp(addr) = self.local_addr() else { return None };
        let host = match addr.ip() {
            // Wherever it listens, this machine is one of the places.
            ip if ip.is_unspecified() => format!("localhost:{}", addr.port()),
            _ => addr.to_string(),
        };
        let scheme = if self.is_tls.load(Ordering::Relaxed) { "https" } else { "http" };
        Some(format!("{scheme}://{host}/console"))
    }

    /// The listening socket, to hand it to a successor; `None` once the node drains.
    pub(crate) fn listener(&self) -> Option<Arc<Listener>> {
        self.server.listener()
    }

    async fn follow(self: Arc<Self>, new: &Snapshot) -> Result<Commit, String> {
        let config = new.get::<AdminConfig>();
        let tls = load_tls(&self.scope, &config).await?;
        AuditFile::try_open(&self.scope, &config).await?;
        let listener = self.server.bind(&config.listen, SOCKET).map_err(unopened)?;
        if listener.is_none() {
            refuse_open(&config, &self.local_addr())?;
        }
        Ok(Box::new(move || {
            self.shared.reconfigure(&config);
            self.audit.reconfigure(&config);
            let addr = listener.as_ref().map_or_else(|| self.local_addr(), |new| new.local_addr().clone());
            self.shared.listens_on(&addr);
            let was_tls = self.is_tls.swap(tls.is_some(), Ordering::Relaxed);
            // Not at every reload that leaves it so.
            if listener.is_some() || was_tls {
                warn_in_the_clear(&addr, tls.is_some());
            }
            self.server.commit(plan(listener, tls));
        }))
    }
}

/// The admin listener, as a part of the node that follows the configuration.
#[derive(Debug)]
pub(crate) struct FollowingAdmin(pub(crate) Arc<Admin>);

impl Reconfigure for FollowingAdmin {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        let admin = Arc::clone(&self.0);
        Box::pin(async move { admin.follow(&new).await })
    }
}

/// Loads the listener's certificates; `None` if it does not use TLS.
async fn load_tls(scope: &Scope, config: &AdminConfig) -> Result<Option<ServerTls>, String> {
    let Some(tls) = config.tls.server_config() else {
        return Ok(None);
    };
    let loaded = scope.blocking().run("load certificates", move || ServerTls::load(&tls)).await;
    let loaded = loaded.map_err(|error| error.to_string())?;
    let loaded = loaded.map_err(|error| format!("admin.tls: {error}"))?;
    for warning in loaded.warnings() {
        tracing::warn!(%warning, "certificate");
    }
    Ok(Some(loaded))
}

/// Says so if tokens cross a network as they are.
fn warn_in_the_clear(addr: &ListenAddr, is_tls: bool) {
    if is_open(addr) && !is_tls {
        tracing::warn!(%addr, "tokens for the admin listener cross the network in the clear; set `admin.tls`");
    }
}

/// What to do about a socket that could not be opened: mostly another node has its port, and the second one wants its own.
fn unopened(error: BindError) -> String {
    let own = match error {
        BindError::InUse { .. } => {
            ", such as `--set admin.listen=127.0.0.1:0` for a second node on this machine"
        }
        _ => "",
    };
    format!("admin: {error}{own}")
}

/// Refuses a socket that other machines can reach while there is no token. The configuration's own check cannot know
/// where an inherited socket listens.
fn refuse_open(config: &AdminConfig, addr: &ListenAddr) -> Result<(), String> {
    if !config.has_token() && is_open(addr) {
        return Err(format!(
            "admin: {addr} can be reached from other machines, without a token: {OPEN_REMEDY}"
        ));
    }
    Ok(())
}

fn plan(listener: Option<Listener>, tls: Option<ServerTls>) -> ListenPlan {
    ListenPlan { listener, tls, proxy_protocol: TrustedSources::default(), limits: service::limits() }
}

//! The admin listener: what an operator, a balancer or a scraper asks a node.

mod access;
mod console;
mod endpoint;
mod events;
mod live;
mod objects;
mod overlay;
mod readyz;
mod rehearse;
mod reply;
mod service;
mod topology;

use std::sync::Arc;

use ron_kernel::{
    Scope,
    config::Snapshot,
    reload::{Commit, Preparing, Reconfigure},
    topology::Topology,
};
use ron_transport::{
    addr::ListenAddr,
    inherit::Inherited,
    listen::{BindError, BindOptions, Listener},
    proxy_protocol::TrustedSources,
    serve::{HttpServer, ListenPlan},
};
use svc_overlay::Overlay;

use crate::settings::{AdminConfig, OPEN_REMEDY, is_open};
pub(crate) use console::{ConfigInForce, Part, Shown};
use service::{AdminService, Shared};
pub(crate) use topology::TOPOLOGY;

/// The socket's file is for its owner alone: whoever may connect may stop the node.
const SOCKET: BindOptions = BindOptions { unix_mode: 0o600 };

/// The running admin listener.
#[derive(Debug)]
pub(crate) struct Admin {
    shared: Arc<Shared>,
    server: HttpServer<AdminService>,
}

impl Admin {
    /// Starts the admin listener of a node that is made of `topologies`, and whose console shows `shown`.
    ///
    /// The error says what is wrong and what to do about it.
    pub(crate) fn start(
        scope: &Scope,
        config: &AdminConfig,
        topologies: Vec<&'static Topology>,
        overlay: Option<Arc<Overlay>>,
        shown: Shown,
        inherited: &mut Inherited,
    ) -> Result<Arc<Self>, String> {
        let listener = inherited.listen(&config.listen, SOCKET).map_err(unopened)?;
        refuse_open(config, listener.local_addr())?;
        let shared = Arc::new(Shared::new(scope, config, topologies, overlay, shown));
        let service = |_core| AdminService::new(&shared);
        let server = HttpServer::start(scope, topology::ROLES, plan(Some(listener)), service);
        Ok(Arc::new(Self { shared, server }))
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
        Some(format!("http://{host}/console"))
    }

    /// The listening socket, to hand it to a successor; `None` once the node drains.
    pub(crate) fn listener(&self) -> Option<Arc<Listener>> {
        self.server.listener()
    }

    fn follow(&self, new: &Snapshot) -> Result<Commit, String> {
        let config = new.get::<AdminConfig>();
        let listener = self.server.bind(&config.listen, SOCKET).map_err(unopened)?;
        if listener.is_none() {
            refuse_open(&config, &self.local_addr())?;
        }
        let (shared, server) = (Arc::clone(&self.shared), self.server.clone());
        Ok(Box::new(move || {
            shared.reconfigure(&config);
            server.commit(plan(listener));
        }))
    }
}

impl Reconfigure for Admin {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        Box::pin(async move { self.follow(&new) })
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
    if config.token.is_none() && is_open(addr) {
        return Err(format!(
            "admin: {addr} can be reached from other machines, without a token: {OPEN_REMEDY}"
        ));
    }
    Ok(())
}

fn plan(listener: Option<Listener>) -> ListenPlan {
    ListenPlan { listener, tls: None, proxy_protocol: TrustedSources::default(), limits: service::limits() }
}

//! The listener for applications: publish and subscribe over HTTP, as event streams, and over WebSockets.
//!
//! ```text
//! POST …/{topic} ────────────┐ token, rates          ┌─▶ gossip shard
//! GET …/{pattern}/events ────┼─▶ handler ──▶ state ──┤
//! GET …/{pattern}/ws ─▶ pipe ┘                       └─▶ feed: a box for each subscriber
//! ```

mod access;
mod events;
mod frames;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod metrics;
mod places;
mod publishing;
mod route;
mod service;
mod socket;
mod state;
mod topology;

use std::{fmt, sync::Arc};

use ron_kernel::{
    Scope,
    blocking::BlockingError,
    config::Snapshot,
    reload::{Commit, Preparing, Reconfigure},
};
use ron_transport::{
    addr::ListenAddr,
    inherit::Inherited,
    listen::{BindError, BindOptions, Listener},
    proxy_protocol::TrustedSources,
    serve::{HttpServer, ListenPlan},
    tls::{ServerTls, TlsError},
};

use crate::{ApiAuth, ApiConfig, Overlay, OverlayConfig, config::is_reachable};
use service::Handler;
use state::{ApiSettings, State};
pub use topology::API_TOPOLOGY;

/// Why the listener for applications could not be opened, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The socket cannot be had.
    #[error("overlay.api: {0}")]
    Bind(#[from] BindError),
    /// The socket could be reached by other machines, and nobody has to show a token.
    #[error(
        "overlay.api: {0} can be reached from other machines, without a token: use api.auth = \"token\" or listen on 127.0.0.1"
    )]
    Open(ListenAddr),
    /// The certificates cannot be used.
    #[error("overlay.api: {0}")]
    Tls(#[from] TlsError),
    /// The blocking pool did not load them.
    #[error("overlay.api: {0}")]
    Blocking(#[from] BlockingError),
}

/// The listener for applications while it runs.
pub struct Api {
    scope: Scope,
    state: Arc<State>,
    server: HttpServer<Handler>,
}

impl Api {
    /// Opens the listener of an overlay as configured.
    ///
    /// Cancel safe: what was opened closes when the future is dropped.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn build(
        scope: &Scope,
        overlay: &Overlay,
        config: &ApiConfig,
        inherited: &mut Inherited,
    ) -> Result<Arc<Self>, ApiError> {
        let tls = load_tls(scope, config).await?;
        let listener = inherited.listen(&config.listen, BindOptions::default())?;
        refuse_open(config, listener.local_addr())?;
        let state = State::new(scope, overlay.shared(), config);
        let sampled = Handler::new(&state);
        scope.sampled(move || sampled.sample());
        let service = |_core| Handler::new(&state);
        let server = HttpServer::start(scope, topology::ROLES, plan(config, Some(listener), tls), service);
        Ok(Arc::new(Self { scope: scope.clone(), state, server }))
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

    async fn follow(&self, new: &Snapshot) -> Result<Commit, ApiError> {
        let config = new.get::<OverlayConfig>().api.clone();
        let tls = load_tls(&self.scope, &config).await?;
        let listener = self.server.bind(&config.listen, BindOptions::default())?;
        let addr = listener.as_ref().map_or_else(|| self.local_addr(), |new| new.local_addr().clone());
        refuse_open(&config, &addr)?;
        let (state, server) = (Arc::clone(&self.state), self.server.clone());
        Ok(Box::new(move || {
            state.settings.store(Arc::new(ApiSettings::new(&config)));
            server.commit(plan(&config, listener, tls));
        }))
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Api({})", self.local_addr())
    }
}

impl Reconfigure for Api {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        Box::pin(async move { self.follow(&new).await.map_err(|error| error.to_string()) })
    }
}

async fn load_tls(scope: &Scope, config: &ApiConfig) -> Result<Option<ServerTls>, ApiError> {
    let Some(tls) = config.tls.server_config() else { return Ok(None) };
    let loaded = scope.blocking().run("load certificates", move || ServerTls::load(&tls)).await??;
    for warning in loaded.warnings() {
        tracing::warn!(%warning, "certificate");
    }
    Ok(Some(loaded))
}

/// Refuses a socket that other machines can reach while nobody has to show a token. The configuration's own check cannot
/// know where an inherited socket listens.
fn refuse_open(config: &ApiConfig, addr: &ListenAddr) -> Result<(), ApiError> {
    let is_inherited = matches!(config.listen, ListenAddr::Inherited(_));
    if config.auth == ApiAuth::None && is_inherited && is_reachable(addr) {
        return Err(ApiError::Open(addr.clone()));
    }
    Ok(())
}

fn plan(config: &ApiConfig, listener: Option<Listener>, tls: Option<ServerTls>) -> ListenPlan {
    ListenPlan { listener, tls, proxy_protocol: TrustedSources::default(), limits: config.http_limits() }
}

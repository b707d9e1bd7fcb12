//! From configuration to a running gateway, and from one configuration to the next.

use std::sync::Arc;

use arc_swap::ArcSwap;
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
    serve::{HttpServer, ListenPlan, Roles},
    tls::{ServerTls, TlsError},
};

use crate::{
    GatewayConfig,
    proxy::Proxy,
    router::{Route, Router},
    upstream::Upstream,
};

/// Why a gateway could not be built, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The socket cannot be had.
    #[error("gateway: {0}")]
    Bind(#[from] BindError),
    /// The certificates cannot be used.
    #[error("gateway: {0}")]
    Tls(#[from] TlsError),
    /// The blocking pool did not load them.
    #[error("gateway: {0}")]
    Blocking(#[from] BlockingError),
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    scope: Scope,
    router: Arc<ArcSwap<Router>>,
    server: HttpServer<Proxy>,
}

impl Gateway {
    /// Builds and starts a gateway as configured.
    ///
    /// Cancel safe: what was opened closes when the future is dropped.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build(
        scope: &Scope,
        config: &GatewayConfig,
        inherited: &mut Inherited,
    ) -> Result<Arc<Self>, BuildError> {
        let tls = load_tls(scope, config).await?;
        let listener = inherited.listen(&config.listen, BindOptions::default())?;
        let router = Arc::new(ArcSwap::from_pointee(build_router(
            scope,
            config,
            &Router::default(),
        )));
        let plan = listen_plan(config, Some(listener), tls);
        let server = HttpServer::start(scope, Roles::default(), plan, |_core| {
            Proxy::new(scope, Arc::clone(&router))
        });
        let sampled = Arc::clone(&router);
        scope.sampled(move || {
            sampled
                .load()
                .routes()
                .iter()
                .for_each(|route| route.metrics.sample());
        });
        Ok(Arc::new(Self {
            scope: scope.clone(),
            router,
            server,
        }))
    }

    /// Where it listens, with the port the system chose.
    #[must_use]
    pub fn local_addr(&self) -> ListenAddr {
        self.server.local_addr()
    }

    /// The listening socket, to hand it to a successor.
    #[must_use]
    pub fn listener(&self) -> Arc<Listener> {
        self.server.listener()
    }

    async fn follow(&self, new: Arc<Snapshot>) -> Result<Commit, BuildError> {
        let config = new.get::<GatewayConfig>();
        let tls = load_tls(&self.scope, &config).await?;
        let listener = self.server.bind(&config.listen, BindOptions::default())?;
        let router = Arc::new(build_router(&self.scope, &config, &self.router.load()));
        let (server, current) = (self.server.clone(), Arc::clone(&self.router));
        Ok(Box::new(move || {
            current.store(router);
            server.commit(listen_plan(&config, listener, tls));
        }))
    }
}

impl Reconfigure for Gateway {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        Box::pin(async move { self.follow(new).await.map_err(|error| error.to_string()) })
    }
}

async fn load_tls(scope: &Scope, config: &GatewayConfig) -> Result<Option<ServerTls>, BuildError> {
    let Some(tls) = config.tls.server_config() else {
        return Ok(None);
    };
    let loaded = scope
        .blocking()
        .run("load certificates", move || ServerTls::load(&tls))
        .await??;
    for warning in loaded.warnings() {
        tracing::warn!(%warning, "certificate");
    }
    Ok(Some(loaded))
}

fn listen_plan(config: &GatewayConfig, listener: Option<Listener>, tls: Option<ServerTls>) -> ListenPlan {
    ListenPlan {
        listener,
        tls,
        proxy_protocol: TrustedSources::new(config.proxy_protocol.clone()),
        limits: config.limits(),
    }
}

/// The routes of a configuration; upstreams that did not change keep their connections.
fn build_router(scope: &Scope, config: &GatewayConfig, old: &Router) -> Router {
    let cores = scope.planes().cores().len();
    let upstream = |name: &str| {
        let wanted = config.upstream.get(name)?;
        let kept = old
            .routes()
            .iter()
            .map(|route| &route.upstream)
            .find(|u| u.is(name, wanted));
        Some(kept.map_or_else(
            || Arc::new(Upstream::new(name, wanted, cores, scope.clock())),
            Arc::clone,
        ))
    };
    let routes = config.route.iter().filter_map(|route| {
        Some(Route {
            prefix: route.path.clone(),
            upstream: upstream(&route.upstream)?,
            metrics: scope.metrics().route(route.path.clone()),
        })
    });
    Router::new(routes.collect())
}

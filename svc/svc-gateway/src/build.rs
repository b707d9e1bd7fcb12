//! From configuration to a running gateway, and from one configuration to the next.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ron_kernel::{
    Scope,
    blocking::BlockingError,
    config::Snapshot,
    metrics::RouteMetrics,
    reload::{Commit, Preparing, Reconfigure},
};
use ron_transport::{
    addr::ListenAddr,
    inherit::Inherited,
    listen::{BindError, BindOptions, Listener},
    proxy_protocol::TrustedSources,
    resolve::Resolver,
    serve::{HttpServer, ListenPlan, Roles},
    tls::{ServerTls, TlsError},
};

use types::Deadline;

use crate::{
    GatewayConfig,
    proxy::Proxy,
    redirect::Redirect,
    router::{Route, Router, Split},
    sweeper,
    upstream::{self, Groups, Upstream, Upstreams},
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

/// The routes in force, by core.
pub(crate) type Routers = Arc<[Arc<ArcSwap<Router>>]>;

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    scope: Scope,
    upstreams: Upstreams,
    routers: Routers,
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
        let upstreams = Upstreams::new(scope, Resolver::new(scope));
        let groups = upstreams.prepare(&config.upstream).await?;
        let routers: Routers = build_routers(scope, config, &groups, None)
            .into_iter()
            .map(|router| Arc::new(ArcSwap::new(router)))
            .collect();
        upstreams.commit(groups);
        let plan = listen_plan(config, Some(listener), tls);
        let server = HttpServer::start(scope, Roles::default(), plan, |core| {
            Proxy::new(scope, Arc::clone(&routers[core]))
        });
        sweeper::start(scope, &upstreams);
        upstream::start(scope, &upstreams);
        // Cores share a route's metrics, so one of them stands for all.
        let sampled = Arc::clone(&routers[0]);
        scope.sampled(move || sampled.load().routes().iter().for_each(|route| route.metrics.sample()));
        let sampled = upstreams.clone();
        scope.sampled(move || sampled.sample());
        Ok(Arc::new(Self { scope: scope.clone(), upstreams, routers, server }))
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

    /// Waits until every endpoint of every upstream has been well once: has answered its health check, or where there is
    /// none has accepted a connection.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The endpoints that were not well by the deadline.
    pub async fn all_healthy_once(&self, deadline: Deadline) -> Result<(), Vec<String>> {
        self.upstreams.all_healthy_once(deadline).await
    }

    async fn follow(&self, new: Arc<Snapshot>) -> Result<Commit, BuildError> {
        let config = new.get::<GatewayConfig>();
        let tls = load_tls(&self.scope, &config).await?;
        let listener = self.server.bind(&config.listen, BindOptions::default())?;
        let groups = self.upstreams.prepare(&config.upstream).await?;
        let prepared = build_routers(&self.scope, &config, &groups, Some(&self.routers));
        let upstreams = self.upstreams.clone();
        let (server, routers) = (self.server.clone(), Arc::clone(&self.routers));
        let metrics = self.scope.metrics().clone();
        Ok(Box::new(move || {
            upstreams.commit(groups);
            let before = routers[0].load_full();
            for (current, router) in routers.iter().zip(prepared) {
                current.store(router);
            }
            let gone = |route: &&Arc<Route>| config.route.iter().all(|kept| kept.label() != &*route.label);
            before.routes().iter().filter(gone).for_each(|route| metrics.forget_route(&route.label));
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
    let loaded = scope.blocking().run("load certificates", move || ServerTls::load(&tls)).await??;
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

/// The routes of a configuration, for each core. Routes that were there before keep their counts.
fn build_routers(
    scope: &Scope,
    config: &GatewayConfig,
    groups: &Groups,
    old: Option<&Routers>,
) -> Vec<Arc<Router>> {
    let first = old.map_or_else(Arc::default, |routers| routers[0].load_full());
    let metrics_of = |label: &str| {
        let kept = first.routes().iter().find(|route| &*route.label == label);
        kept.map_or_else(|| scope.metrics().route(label.to_owned()), |route| route.metrics.clone())
    };
    let metrics: Vec<_> = config.route.iter().map(|route| metrics_of(route.label())).collect();
    let cores = scope.planes().cores().iter();
    cores.map(|core| Arc::new(build_router(config, groups, &metrics, core.index()))).collect()
}

fn build_router(config: &GatewayConfig, groups: &Groups, metrics: &[RouteMetrics], core: usize) -> Router {
    let upstream = |name: &str| Some(Arc::new(Upstream::new(groups.get(name)?, core)));
    let routes = config.route.iter().zip(metrics).map(|(route, metrics)| {
        let shares = route.shares().filter_map(|(name, weight)| Some((weight, upstream(name)?)));
        let redirect = route.redirect.as_ref().and_then(|to| Redirect::new(to, https_port(config)).ok());
        Arc::new(Route::new(route, Split::new(shares), redirect, metrics.clone()))
    });
    Router::new(routes.collect(), TrustedSources::new(config.trusted_proxies.clone()))
}

/// Where clients find HTTPS: here, or with whoever ends it in front of us.
fn https_port(config: &GatewayConfig) -> u16 {
    match (&config.listen, config.tls.server_config()) {
        (ListenAddr::Tcp(addr), Some(_)) => addr.port(),
        _ => 443,
    }
}

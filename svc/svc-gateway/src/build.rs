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

use crate::{
    GatewayConfig,
    access_log::{AccessLog, OpenError, Output},
    proxy::Proxy,
    redirect::{self, Redirect, ToHttps},
    router::{Route, Router, Split},
    sweeper,
    upstream::{Timeouts, Upstream},
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
    /// The access log cannot be written.
    #[error("gateway: {0}")]
    AccessLog(#[from] OpenError),
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
    resolver: Resolver,
    routers: Routers,
    server: HttpServer<Proxy>,
    redirect: Option<HttpServer<ToHttps>>,
    access_log: AccessLog,
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
        let redirect = redirect::listener(scope, config, inherited)?;
        let access_log =
            AccessLog::start(scope, &config.access_log, Output::open(scope, &config.access_log).await?);
        let resolver = Resolver::new(scope);
        let routers: Routers = build_routers(scope, &resolver, config, None)
            .into_iter()
            .map(|router| Arc::new(ArcSwap::new(router)))
            .collect();
        let plan = listen_plan(config, Some(listener), tls);
        let server = HttpServer::start(scope, Roles::default(), plan, |core| {
            Proxy::new(scope, Arc::clone(&routers[core]), access_log.for_core())
        });
        sweeper::start(scope, &routers);
        // Cores share a route's metrics, so one of them stands for all.
        let sampled = Arc::clone(&routers[0]);
        scope.sampled(move || sampled.load().routes().iter().for_each(|route| route.metrics.sample()));
        Ok(Arc::new(Self { scope: scope.clone(), resolver, routers, server, redirect, access_log }))
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

    /// The listening socket of the redirect to HTTPS, if there is one, to hand it to a successor.
    #[must_use]
    pub fn redirect_listener(&self) -> Option<Arc<Listener>> {
        self.redirect.as_ref()?.listener()
    }

    /// Where the redirect to HTTPS listens.
    #[must_use]
    pub fn redirect_addr(&self) -> Option<ListenAddr> {
        Some(self.redirect.as_ref()?.local_addr())
    }

    async fn follow(&self, new: Arc<Snapshot>) -> Result<Commit, BuildError> {
        let config = new.get::<GatewayConfig>();
        let tls = load_tls(&self.scope, &config).await?;
        let listener = self.server.bind(&config.listen, BindOptions::default())?;
        let output = Output::open(&self.scope, &config.access_log).await?;
        let access_log = self.access_log.for_core();
        let prepared = build_routers(&self.scope, &self.resolver, &config, Some(&self.routers));
        let (server, routers) = (self.server.clone(), Arc::clone(&self.routers));
        let metrics = self.scope.metrics().clone();
        Ok(Box::new(move || {
            let before = routers[0].load_full();
            for (current, router) in routers.iter().zip(prepared) {
                current.store(router);
            }
            let gone = |route: &&Arc<Route>| config.route.iter().all(|kept| kept.label() != &*route.label);
            before.routes().iter().filter(gone).for_each(|route| metrics.forget_route(&route.label));
            server.commit(listen_plan(&config, listener, tls));
            access_log.commit(&config.access_log, output);
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

/// The routes of a configuration, for each core. Upstreams that did not change keep their connections, routes their
/// counts.
fn build_routers(
    scope: &Scope,
    resolver: &Resolver,
    config: &GatewayConfig,
    old: Option<&Routers>,
) -> Vec<Arc<Router>> {
    let old_of = |core: usize| old.map_or_else(Arc::default, |routers| routers[core].load_full());
    let first = old_of(0);
    let metrics_of = |label: &str| {
        let kept = first.routes().iter().find(|route| &*route.label == label);
        kept.map_or_else(|| scope.metrics().route(label.to_owned()), |route| route.metrics.clone())
    };
    let metrics: Vec<_> = config.route.iter().map(|route| metrics_of(route.label())).collect();
    let cores = scope.planes().cores().iter();
    cores
        .map(|core| Arc::new(build_router(scope, resolver, config, &metrics, &old_of(core.index()))))
        .collect()
}

fn build_router(
    scope: &Scope,
    resolver: &Resolver,
    config: &GatewayConfig,
    metrics: &[RouteMetrics],
    old: &Router,
) -> Router {
    let upstream = |name: &str| {
        let wanted = config.upstream.get(name)?;
        let kept = old.upstreams().find(|u| u.is(name, wanted));
        Some(kept.map_or_else(
            || {
                let timeouts = Timeouts::new(scope.metrics());
                Arc::new(Upstream::new(name, wanted, scope.clock(), resolver, timeouts))
            },
            Arc::clone,
        ))
    };
    let routes = config.route.iter().zip(metrics).map(|(route, metrics)| {
        let shares = route.shares().filter_map(|(name, weight)| Some((name, weight, upstream(name)?)));
        let redirect =
            route.redirect.as_ref().and_then(|to| Redirect::new(to, redirect::https_port(config)).ok());
        Arc::new(Route::new(route, Split::new(shares), redirect, metrics.clone()))
    });
    Router::new(routes.collect(), TrustedSources::new(config.trusted_proxies.clone()))
}

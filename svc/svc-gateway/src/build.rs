//! From configuration to a running gateway, and from one configuration to the next.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use captoken::{KeyRing, RevocationList};
use http::HeaderName;
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
    serve::{HttpServer, ListenPlan, Roles, WORKER},
    tls::{ServedCertificate, ServerTls, TlsError},
};
use types::Deadline;

use crate::{
    AuthConfig, AuthError, GatewayConfig, RouteConfig,
    access_log::{AccessLog, OpenError, Output},
    acme::{self, Acme, AcmeError, AcmeSettings, AcmeStatus},
    auth::{Auth, AuthFiles, JwtKeys},
    basic_auth::BasicAuth,
    cache::{CacheStoreError, RouteCache},
    fleet::{Limits, QuotaStoreFault},
    jwt::{JwksSettings, SettingsError},
    local::{Local, LocalServices, UnknownService, check_services},
    message::identity,
    mirror::Mirror,
    passwords::{self, Users, UsersError},
    policy::{Policies, Policy, Ways},
    proxy::Proxy,
    redirect::{self, ToHttps},
    respond::OwnAnswer,
    router::{GoesTo, Guards, Route, Router, Split, narrowing::Narrowing},
    shared::Shared,
    sweeper, transfer,
    upstream::{self, Groups, Upstream, Upstreams},
    views::{self, Views},
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
    /// Certificates cannot be obtained as configured.
    #[error("gateway: {0}")]
    Acme(#[from] AcmeError),
    /// The keys of capabilities cannot be used.
    #[error("gateway: {0}")]
    Auth(#[from] AuthError),
    /// The issuer of JWTs cannot be asked for its keys.
    #[error("gateway: {0}")]
    Jwks(#[from] SettingsError),
    /// A file of users cannot be used.
    #[error("gateway: {0}")]
    Users(#[from] UsersError),
    /// The access log cannot be written.
    #[error("gateway: {0}")]
    AccessLog(#[from] OpenError),
    /// Servers are not well, and the start is strict.
    #[error("gateway: these servers are unhealthy, and gateway.strict_boot is on: {}", .0.join(", "))]
    Unwell(Vec<String>),
    /// Responses cannot be stored where they should be.
    #[error("gateway: {0}")]
    CacheStore(#[from] CacheStoreError),
    /// Limits cannot be shared as configured.
    #[error("gateway: {0}")]
    QuotaStore(#[from] QuotaStoreFault),
    /// A route leads to a service that is not there.
    #[error("{0}")]
    Service(#[from] UnknownService),
    /// The blocking pool did not load them.
    #[error("gateway: {0}")]
    Blocking(#[from] BlockingError),
}

/// How long servers have to be well when the start is strict.
const WELL_WITHIN: Duration = Duration::from_secs(10);

/// The two tables a gateway is made from.
#[derive(Clone, Copy, Debug)]
pub struct GatewaySettings<'a> {
    /// The section `[gateway]` of the configuration.
    pub gateway: &'a GatewayConfig,
    /// The section `[auth]` of the configuration.
    pub auth: &'a AuthConfig,
    /// Where the node keeps its data; `None` if it must not write anything.
    pub data_dir: Option<&'a Path>,
}

/// Who answers requests in the end.
#[derive(Debug)]
struct Ends {
    upstreams: Upstreams,
    services: LocalServices,
}

impl Ends {
    /// The service of that name in this process, as a route leads to it.
    fn local(&self, name: &str) -> Option<Local> {
        let service = self.services.get(name)?;
        Some(Local::new(name, service, self.upstreams.latency_of_service(name)))
    }
}

/// A running gateway service.
#[derive(Debug)]
pub struct Gateway {
    scope: Scope,
    shared: Arc<Shared>,
    ends: Ends,
    acme: Acme,
    jwt: JwtKeys,
    auth_files: Arc<AuthFiles>,
    policies: Policies,
    server: HttpServer<Proxy>,
    redirect: Option<HttpServer<ToHttps>>,
    access_log: AccessLog,
    data_dir: Option<PathBuf>,
}

impl Gateway {
    /// Builds and starts a gateway as configured, whose routes may lead to these services in this process.
    ///
    /// Cancel safe: what was opened closes when the future is dropped.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build(
        scope: &Scope,
        settings: GatewaySettings<'_>,
        services: LocalServices,
        inherited: &mut Inherited,
    ) -> Result<Arc<Self>, BuildError> {
        let config = settings.gateway;
        check_services(config, services.names())?;
        let resolver = Resolver::new(scope);
        let acme = Acme::start(scope, &resolver);
        let (tls, acme_settings) = load_tls(scope, config, settings.data_dir, &acme).await?;
        let auth_files = Arc::new(AuthFiles::default());
        let keys = load_keys(scope, &auth_files, (settings.auth, config)).await?;
        let jwt = JwtKeys::new(scope, &resolver, settings, keys.jwks.clone());
        let auth = Arc::new(keys.auth(&jwt));
        let listener = inherited.listen(&config.listen, BindOptions::default())?;
        let output = Output::open(scope, &config.access_log).await?;
        let access_log = AccessLog::start(scope, &config.access_log, output);
        let limits = Limits::start(scope, &config.quotas, &resolver).await?;
        let ends = Ends { upstreams: Upstreams::new(scope, resolver), services };
        let shared = Shared::new(scope, config, limits);
        shared.prepare_cache(scope, config, settings.data_dir).await?;
        let groups = ends.upstreams.prepare(&config.upstream).await?;
        let built = build_policies(scope, config, &ends, &groups, &auth, None);
        let policies: Policies =
            built.into_iter().map(|policy| Arc::new(ArcSwap::from_pointee(policy))).collect();
        ends.upstreams.commit(groups);
        let redirect = redirect::listener(scope, config, inherited, &policies, &shared, acme.answers())?;
        let server = HttpServer::start(
            scope,
            Roles { worker: Some(&WORKER), ..Roles::default() },
            listen_plan(config, Some(listener), tls.clone()),
            |core| Proxy::new(scope, core, &policies, Arc::clone(&shared), access_log.for_core()),
        );
        sweeper::start(scope, &ends.upstreams);
        transfer::start(scope, &shared.transfers);
        upstream::start(scope, &ends.upstreams);
        if config.strict_boot {
            let well = ends.upstreams.all_healthy_once(scope.clock().within(WELL_WITHIN)).await;
            well.map_err(BuildError::Unwell)?;
        }
        sample(scope, &policies, &ends.upstreams);
        let shown = server.clone();
        acme::publish(scope, &acme, move || shown.certificates());
        acme.follow(acme_settings, tls.as_ref());
        let (scope, data_dir) = (scope.clone(), settings.data_dir.map(ToOwned::to_owned));
        Ok(Arc::new(Self {
            scope,
            shared,
            ends,
            acme,
            jwt,
            auth_files,
            policies,
            server,
            redirect,
            access_log,
            data_dir,
        }))
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

    /// Where the redirect to HTTPS listens, if it does.
    #[must_use]
    pub fn redirect_addr(&self) -> Option<ListenAddr> {
        Some(self.redirect.as_ref()?.local_addr())
    }

    /// Waits until every endpoint of every upstream has been well once: has answered its health check, or where there is
    /// none has accepted a connection.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The endpoints that were not well by the deadline.
    pub async fn all_healthy_once(&self, deadline: Deadline) -> Result<(), Vec<String>> {
        self.ends.upstreams.all_healthy_once(deadline).await
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The certificates that clients are shown.
    pub(crate) fn certificates(&self) -> Vec<ServedCertificate> {
        self.server.certificates()
    }

    /// The names that certificates are obtained for.
    pub(crate) fn acme_status(&self) -> Arc<Vec<AcmeStatus>> {
        self.acme.status()
    }

    pub(crate) fn upstreams(&self) -> &Upstreams {
        &self.ends.upstreams
    }

    /// What is in force; cores differ in nothing that is shown.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        self.policies[0].load_full()
    }

    async fn follow(&self, new: Arc<Snapshot>) -> Result<Commit, BuildError> {
        let (config, auth) = (new.get::<GatewayConfig>(), new.get::<AuthConfig>());
        check_services(&config, self.ends.services.names())?;
        let (tls, acme_settings) =
            load_tls(&self.scope, &config, self.data_dir.as_deref(), &self.acme).await?;
        let keys = load_keys(&self.scope, &self.auth_files, (&auth, &config)).await?;
        let (jwt, jwks, checks) = (self.jwt.clone(), keys.jwks.clone(), Arc::new(keys.auth(&self.jwt)));
        let listener = self.server.bind(&config.listen, BindOptions::default())?;
        let output = Output::open(&self.scope, &config.access_log).await?;
        let access_log = self.access_log.for_core();
        let groups = self.ends.upstreams.prepare(&config.upstream).await?;
        let prepared =
            build_policies(&self.scope, &config, &self.ends, &groups, &checks, Some(&self.policies));
        let (upstreams, shared, server) =
            (self.ends.upstreams.clone(), Arc::clone(&self.shared), self.server.clone());
        let (policies, metrics) = (Arc::clone(&self.policies), self.scope.metrics().clone());
        let (acme, redirect) = (self.acme.clone(), self.redirect.clone());
        self.shared.prepare_cache(&self.scope, &config, self.data_dir.as_deref()).await?;
        Ok(Box::new(move || {
            upstreams.commit(groups);
            shared.admission.reconfigure(&config.fair_queue);
            shared.decoding.set_limit(config.limits.decode_memory.as_u64());
            shared.buffers.set_limit(config.limits.buffer_memory.as_u64());
            jwt.follow(GatewaySettings { gateway: &config, auth: &auth, data_dir: None }, jwks);
            let before = policies[0].load_full();
            for (current, policy) in policies.iter().zip(prepared) {
                current.store(Arc::new(policy));
            }
            let gone = |route: &&Arc<Route>| routes_of(&config).all(|kept| kept.label() != &*route.label);
            before.router.routes().iter().filter(gone).for_each(|route| metrics.forget_route(&route.label));
            server.commit(listen_plan(&config, listener, tls.clone()));
            if let Some(redirect) = redirect {
                redirect.commit(redirect::listen_plan(&config, None));
            }
            acme.follow(acme_settings, tls.as_ref());
            access_log.commit(&config.access_log, output);
        }))
    }
}

impl Reconfigure for Gateway {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        Box::pin(async move { self.follow(new).await.map_err(|error| error.to_string()) })
    }
}

/// The certificates of the listener, if it speaks TLS, and what is needed to obtain more, if that is wanted.
async fn load_tls(
    scope: &Scope,
    config: &GatewayConfig,
    data_dir: Option<&Path>,
    acme: &Acme,
) -> Result<(Option<ServerTls>, Option<AcmeSettings>), BuildError> {
    let (config, data_dir) = (config.clone(), data_dir.map(ToOwned::to_owned));
    let load = move || -> Result<_, BuildError> {
        let acme = AcmeSettings::load(&config, data_dir.as_deref())?;
        let tls = acme.as_ref().map(AcmeSettings::server_config).or_else(|| config.tls.server_config());
        Ok((tls.map(|tls| ServerTls::load(&tls)).transpose()?, acme))
    };
    let (tls, settings) = scope.blocking().run("load certificates", load).await??;
    for warning in tls.iter().flat_map(ServerTls::warnings) {
        tracing::warn!(%warning, "certificate");
    }
    Ok((tls.map(|tls| tls.answering(acme.answers().handshakes())), settings))
}

fn listen_plan(config: &GatewayConfig, listener: Option<Listener>, tls: Option<ServerTls>) -> ListenPlan {
    ListenPlan {
        listener,
        tls,
        proxy_protocol: TrustedSources::new(config.proxy_protocol.clone()),
        limits: config.limits(),
    }
}

/// Publishes what is counted where requests pass and shown where somebody asks.
fn sample(scope: &Scope, policies: &Policies, upstreams: &Upstreams) {
    // Cores share a route's metrics, so one of them stands for all.
    let sampled = Arc::clone(&policies[0]);
    scope.sampled(move || sampled.load().router.routes().iter().for_each(|route| route.metrics.sample()));
    let sampled = upstreams.clone();
    scope.sampled(move || sampled.sample());
}

/// Everything that the `[auth]` table names, loaded.
struct Keys {
    ring: KeyRing,
    revoked: RevocationList,
    jwks: Vec<JwksSettings>,
    users: BTreeMap<PathBuf, Arc<Users>>,
}

impl Keys {
    fn auth(self, jwt: &JwtKeys) -> Auth {
        let verifier = (!self.jwks.is_empty()).then(|| Arc::clone(jwt.verifier()));
        Auth::new(self.ring, self.revoked, verifier, self.users)
    }
}

async fn load_keys(
    scope: &Scope,
    files: &Arc<AuthFiles>,
    (auth, gateway): (&AuthConfig, &GatewayConfig),
) -> Result<Keys, BuildError> {
    let (files, auth, gateway) = (Arc::clone(files), auth.clone(), gateway.clone());
    let load = move || -> Result<Keys, BuildError> {
        let (ring, revoked) = files.load(&auth)?;
        let users = passwords::load_users(&gateway)?;
        Ok(Keys { ring, revoked, jwks: JwksSettings::load(&auth)?, users })
    };
    scope.blocking().run("load keys", load).await?
}

/// What a configuration puts into force on each core. Routes that were there before keep their counts.
fn build_policies(
    scope: &Scope,
    config: &GatewayConfig,
    ends: &Ends,
    groups: &Groups,
    auth: &Arc<Auth>,
    old: Option<&Policies>,
) -> Vec<Policy> {
    let before = old.map(|policies| policies[0].load_full());
    let known = before.iter().flat_map(|before| before.router.routes());
    let known: HashMap<&str, &RouteMetrics> = known.map(|route| (&*route.label, &route.metrics)).collect();
    let metrics_of = |label: &str| {
        known.get(label).map_or_else(|| scope.metrics().route(label.to_owned()), |kept| (*kept).clone())
    };
    let metrics: Vec<_> = routes_of(config).map(|route| metrics_of(route.label())).collect();
    let generation = before.as_ref().map_or(0, |before| before.generation + 1);
    let cores = scope.planes().cores().iter();
    cores
        .map(|core| {
            let ways = build_ways((config, auth), ends, groups, &metrics, core.index());
            Policy::new(config, generation, ways, Arc::clone(auth))
        })
        .collect()
}

/// Where requests go from one core.
fn build_ways(
    (config, auth): (&GatewayConfig, &Auth),
    ends: &Ends,
    groups: &Groups,
    metrics: &[RouteMetrics],
    core: usize,
) -> Ways {
    let seen = |(name, group): (&String, &Arc<_>)| (name.clone(), Arc::new(Upstream::new(group, core)));
    let upstreams: BTreeMap<_, _> = groups.iter().map(seen).collect();
    let views = Views::new(&config.view);
    let (deciding_fields, identity_fields) = (deciding_fields(config), identity::fields(config.route.iter()));
    let routes = routes_of(config).zip(metrics).map(|(route, metrics)| {
        let shares = route
            .shares()
            .filter_map(|(name, weight)| Some((name, weight, Arc::clone(upstreams.get(name)?))));
        // A configured route with the path of a view is still a route.
        let view = matches!(route, Cow::Owned(_)).then(|| views.find(&route.path)).flatten();
        let goes_to = match (view, ends.local(&route.service)) {
            (Some(view), _) => GoesTo::View(Arc::clone(view)),
            (None, Some(local)) => GoesTo::Local(local),
            (None, None) => Split::new(shares).map_or(GoesTo::Nobody, GoesTo::Upstreams),
        };
        let own_answer = OwnAnswer::of(&route, redirect::https_port(config));
        let cache = RouteCache::of(&route, &config.upstream);
        let basic_auth = route.basic_auth.as_ref().map(|basic| {
            let users = auth.users.get(&basic.users_path).expect("the file of every route was loaded");
            BasicAuth::new(basic, Arc::clone(users))
        });
        let (deciding_fields, identity_fields) = (&deciding_fields[..], &identity_fields[..]);
        let guards = Guards { deciding_fields, identity_fields, basic_auth };
        let mirror = route.mirror.as_ref();
        let mirror =
            mirror.and_then(|mirror| Some(Mirror::new(mirror, &route, upstreams.get(&mirror.upstream)?)));
        let built = Route::new(&route, guards, goes_to, own_answer, cache, metrics.clone());
        Arc::new(built.with_mirror(mirror))
    });
    Ways { router: Router::new(routes.collect()), upstreams: upstreams.clone() }
}

/// The header fields that name tenants or that routes are chosen by, each once.
fn deciding_fields(config: &GatewayConfig) -> Vec<HeaderName> {
    let narrowings = routes_of(config).map(|route| Narrowing::new(&route).0);
    let choosing = narrowings.flat_map(|narrowing| narrowing.field_names().cloned().collect::<Vec<_>>());
    let mut names: Vec<_> = config.tenant_fields().cloned().chain(choosing).collect();
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    names
}

/// The routes of a configuration, views among them, which are owned.
fn routes_of(config: &GatewayConfig) -> impl Iterator<Item = Cow<'_, RouteConfig>> {
    let views = config.view.iter().map(|(name, view)| Cow::Owned(views::route(name, view)));
    views.chain(config.route.iter().map(Cow::Borrowed))
}

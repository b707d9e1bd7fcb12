//! The admin listener's handler: finds the endpoint, asks who may ask, answers and counts.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts};
use ron_kernel::{
    Fault, Scope,
    metrics::{OPENMETRICS, PROMETHEUS_TEXT, RouteMetrics},
    reload::{NoReload, ReloadDesk},
    topology::Topology,
};
use ron_transport::{Body, Conn, ConnInfo, Request, Response, Service, addr::ListenAddr, serve::HttpLimits};
use serde_json::json;
use types::{Reason, Refusal};

use crate::settings::{AdminConfig, Role};

use super::{
    MadeOf,
    access::{self, Operator, Tokens},
    audit::{self, Detail, Trail},
    cache::CachePages,
    console::{self, Console},
    endpoint::{Audience, Endpoint},
    events::EventStreams,
    live, local_user, objects,
    overlay::OverlayPages,
    readyz,
    rehearse::Rehearsal,
    reply,
};

/// Connections in all. Scrapers, balancers and people share them.
pub(super) const MAX_CONNS: usize = 64;
/// Connections beyond those, which are answered nothing but `/healthz` and `/readyz`.
pub(super) const SPARE_CONNS: usize = 16;
/// How long a connection may be silent between requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// When a client that found only a spare place should try again.
const SPARE_RETRY: Duration = Duration::from_secs(5);

/// The listener's limits: few connections, any of which may come from one client, because most come from this machine.
pub(super) fn limits() -> HttpLimits {
    HttpLimits {
        max_conns: MAX_CONNS,
        max_conns_per_client: MAX_CONNS / 2,
        spare_conns: SPARE_CONNS,
        idle_timeout: IDLE_TIMEOUT,
        ..HttpLimits::default()
    }
}

/// What the handlers of all cores share.
#[derive(Debug)]
pub(super) struct Shared {
    scope: Scope,
    topologies: Vec<&'static Topology>,
    tokens: ArcSwap<Tokens>,
    /// The ports that it listens on, and listened on before the last reload that moved it.
    ports: ArcSwap<Vec<u16>>,
    trail: Trail,
    rehearsal: Rehearsal,
    events: EventStreams,
    console: Console,
    overlay: OverlayPages,
    cache: CachePages,
    reloads: ReloadDesk,
    /// One per endpoint, in the order of [`Endpoint::ALL`], and one for everything else.
    routes: Vec<RouteMetrics>,
}

impl Shared {
    pub(super) fn new(
        scope: &Scope,
        config: &AdminConfig,
        MadeOf { topologies, gateway, overlay, shown, reloads }: MadeOf,
    ) -> Self {
        let names = Endpoint::ALL.into_iter().map(Endpoint::path).chain(["other"]);
        let routes: Vec<RouteMetrics> = names.map(|name| scope.metrics().route(name)).collect();
        let sampled = routes.clone();
        scope.sampled(move || sampled.iter().for_each(RouteMetrics::sample));
        Self {
            console: Console::start(scope, &topologies, shown),
            scope: scope.clone(),
            topologies,
            tokens: ArcSwap::from_pointee(Tokens::of(config)),
            ports: ArcSwap::default(),
            trail: Trail::default(),
            rehearsal: Rehearsal::new(config.rehearse),
            events: EventStreams::new(),
            overlay: OverlayPages::new(scope, overlay),
            cache: CachePages(gateway),
            reloads,
            routes,
        }
    }

    /// Puts other tokens, or none, into force, and says again whether crashes may be rehearsed.
    pub(super) fn reconfigure(&self, config: &AdminConfig) {
        self.tokens.store(Arc::new(Tokens::of(config)));
        self.rehearsal.allow(config.rehearse);
    }

    /// Learns where it listens. Connections to the place before stay open for a while.
    pub(super) fn listens_on(&self, addr: &ListenAddr) {
        if let ListenAddr::Tcp(addr) = addr {
            let before = self.ports.load();
            let others = before.iter().copied().filter(|port| *port != addr.port()).take(1);
            self.ports.store(Arc::new([addr.port()].into_iter().chain(others).collect()));
        }
    }

    fn route(&self, endpoint: Option<Endpoint>) -> &RouteMetrics {
        let index = endpoint.and_then(|e| Endpoint::ALL.iter().position(|other| *other == e));
        &self.routes[index.unwrap_or(Endpoint::ALL.len())]
    }

    fn operator(&self, conn: &ConnInfo, uri: &Uri, headers: &HeaderMap) -> Result<Operator, Refusal> {
        access::admit_site(uri, headers)?;
        access::admit_operator(&self.tokens.load(), conn, uri, headers)
    }

    /// Lets a local caller without a token pass if its process belongs to root or to the node's own user. A Unix socket has
    /// permissions of its own.
    async fn admit_user(&self, conn: &ConnInfo) -> Result<(), Refusal> {
        let Some(client) = conn.client() else { return Ok(()) };
        let ports = self.ports.load_full();
        let look_up = move || local_user::admit_user(client, &ports);
        let looked_up = self.scope.blocking().run("find the caller's user", look_up);
        looked_up.await.unwrap_or_else(|error| Err(Refusal::new(Reason::Busy, error.to_string())))
    }

    /// Answers, and adds to the audit trail what changes something or is refused to its sender.
    async fn answer_audited(&self, conn: &ConnInfo, request: Parts, body: Body) -> Result<Response, Refusal> {
        let operator = self.operator(conn, &request.uri, &request.headers);
        let answer = self.answer(conn, &request, body, &operator).await;
        let changes =
            Endpoint::find(request.uri.path()).is_some_and(|(found, _)| found.role() == Role::Operate);
        let actor = audit::actor(operator.as_ref().ok(), conn);
        match &answer {
            Err(refusal) if matches!(refusal.reason, Reason::Unauth | Reason::Forbidden) => {
                self.trail.refused(self.scope.clock().now(), &request, &actor, refusal);
            }
            _ if !changes || operator.is_err() => {}
            Ok(response) => {
                let detail = response.extensions().get::<Detail>();
                audit::done(&request, &actor, response.status().as_u16(), detail);
            }
            Err(refusal) => audit::done(&request, &actor, refusal.reason.status(), None),
        }
        answer
    }

    async fn answer(
        &self,
        conn: &ConnInfo,
        request: &Parts,
        body: Body,
        operator: &Result<Operator, Refusal>,
    ) -> Result<Response, Refusal> {
        let (uri, headers) = (&request.uri, &request.headers);
        let Some((endpoint, rest)) = Endpoint::find(uri.path()) else {
            let detail = format!("there are {}", Endpoint::paths());
            return Err(Refusal::new(Reason::NotFound, detail));
        };
        if conn.spare && !matches!(endpoint, Endpoint::Healthz | Endpoint::Readyz) {
            let detail = "all places are taken; only /healthz and /readyz are answered beyond them";
            return Err(Refusal::new(Reason::Busy, detail).retry_after(SPARE_RETRY));
        }
        if endpoint == Endpoint::Index && wants_html(headers) {
            return Ok(reply::see(Endpoint::Console.path()));
        }
        if endpoint.audience() == Audience::Operator {
            let operator = operator.as_ref().map_err(Clone::clone)?;
            access::admit_role(operator, endpoint.role())?;
            if endpoint.is_for_owners() && operator.token.is_none() {
                self.admit_user(conn).await?;
            }
        }
        if !endpoint.takes(&request.method) {
            self.scope.metrics().rejected(Reason::MethodNotAllowed).inc();
            return Ok(reply::method_not_allowed(&request.method, endpoint.path(), endpoint.allow()));
        }
        match endpoint {
            Endpoint::Index => Ok(reply::text(Endpoint::index())),
            Endpoint::Metrics => self.metrics(headers).await,
            Endpoint::Healthz => Ok(readyz::healthz(&self.scope)),
            Endpoint::Readyz => readyz::readyz(&self.scope, rest, operator.is_ok()),
            Endpoint::Version => Ok(reply::json(StatusCode::OK, &crate::commands::about())),
            Endpoint::Status => Ok(reply::json(StatusCode::OK, &self.console.look(&self.scope).await?)),
            Endpoint::Topology => {
                Ok(reply::json(StatusCode::OK, &live::topology(&self.scope, &self.topologies)))
            }
            Endpoint::Events => self.events.open(&self.scope),
            Endpoint::Config => Ok(reply::json(StatusCode::OK, &self.console.config())),
            Endpoint::Console => console::file(rest),
            Endpoint::Live => self.console.open(&self.scope),
            Endpoint::Shutdown => self.shutdown(headers),
            Endpoint::Reload => self.reload(headers).await,
            Endpoint::Rehearse => {
                access::admit_intent(headers)?;
                self.rehearsal.end(&self.scope, rest.unwrap_or_default())
            }
            Endpoint::OverlayPub => {
                access::admit_intent(headers)?;
                self.overlay.publish(rest.unwrap_or_default(), body).await
            }
            Endpoint::OverlaySub => {
                let after = headers.get("last-event-id").map(http::HeaderValue::as_bytes);
                self.overlay.subscribe(rest.unwrap_or_default(), after).await
            }
            Endpoint::OverlayPeers => self.overlay.peers(),
            Endpoint::OverlayTopics => self.overlay.topics(),
            Endpoint::OverlayLosses => self.overlay.losses(uri.query()),
            Endpoint::OverlayStore => {
                access::admit_intent(headers)?;
                objects::store(self.overlay.overlay()?, body).await
            }
            Endpoint::OverlayObject => {
                let is_head = request.method == Method::HEAD;
                objects::read(self.overlay.overlay()?, rest.unwrap_or_default(), is_head).await
            }
            Endpoint::OverlayOffer => {
                access::admit_intent(headers)?;
                objects::offer(self.overlay.overlay()?, rest.unwrap_or_default(), uri.query())
            }
            Endpoint::Cache => self.cache.show(uri.query()),
            Endpoint::CachePurge => {
                access::admit_intent(headers)?;
                self.cache.purge(body).await
            }
            Endpoint::Rewarder => self.console.rewarder(request).await,
        }
    }

    /// The scrape, in the format the scraper prefers. Written off the data plane: it may be long.
    async fn metrics(&self, headers: &HeaderMap) -> Result<Response, Refusal> {
        let accepts = headers.get_all(header::ACCEPT).iter();
        let openmetrics = accepts
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.contains("application/openmetrics-text"));
        let metrics = self.scope.all_metrics().clone();
        let written = self.scope.blocking().run("write the metrics", move || {
            if openmetrics {
                (OPENMETRICS, metrics.openmetrics())
            } else {
                (PROMETHEUS_TEXT, metrics.prometheus_text())
            }
        });
        let (content_type, text) = written.await.map_err(Fault::from)?;
        Ok(reply::with_type(StatusCode::OK, content_type, text.into()))
    }

    fn shutdown(&self, headers: &HeaderMap) -> Result<Response, Refusal> {
        access::admit_intent(headers)?;
        self.scope.shutdown().request("asked on the admin listener");
        Ok(reply::json(StatusCode::ACCEPTED, &json!({ "status": "draining" })))
    }

    /// Has the configuration read again, and waits until it is in force or refused.
    async fn reload(&self, headers: &HeaderMap) -> Result<Response, Refusal> {
        access::admit_intent(headers)?;
        let outcome = self.reloads.reload().await.map_err(|error| match error {
            NoReload::Busy => Refusal::new(Reason::Busy, error.to_string()).retry_after(SPARE_RETRY),
            NoReload::Unattended => Refusal::new(Reason::Conflict, error.to_string()),
            NoReload::Stopped => Refusal::new(Reason::Draining, error.to_string()),
        })?;
        let generation = outcome.map_err(not_reloaded)?;
        let restart: Vec<String> = self
            .scope
            .readiness()
            .standing(None)
            .into_iter()
            .filter(|standing| standing.name == "restart_needed")
            .map(|standing| standing.reason)
            .collect();
        Ok(reply::json(StatusCode::OK, &json!({ "generation": generation, "restart_needed": restart })))
    }
}

/// What the configuration is refused for, as an answer.
fn not_reloaded(problem: String) -> Refusal {
    Refusal::new(Reason::Conflict, problem)
}

/// Whether a browser requests a page. A client that accepts anything is a program.
fn wants_html(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

/// The handler of one core.
#[derive(Debug)]
pub(super) struct AdminService(Arc<Shared>);

impl AdminService {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self(Arc::clone(shared))
    }
}

impl Service for AdminService {
    type PerConn = ();

    async fn call(&self, conn: &Arc<Conn<()>>, request: Request) -> Result<Response, Refusal> {
        let (request, body) = request.into_parts();
        let shared = &self.0;
        let clock = shared.scope.clock();
        let route = shared.route(Endpoint::find(request.uri.path()).map(|(endpoint, _)| endpoint));
        let (began, _in_flight) = (clock.now(), route.enter());
        let method = request.method.clone();
        let answer = shared.answer_audited(conn, request, body).await;
        // Made here and not by the listener, so that a browser is told the same of refusals.
        let answer = answer.unwrap_or_else(|refusal| {
            shared.scope.metrics().rejected(refusal.reason).inc();
            reply::refused(&refusal)
        });
        let answer = reply::protected(answer);
        let status = answer.status().as_u16();
        route.record(method.as_str(), status, clock.now().since(began));
        Ok(answer)
    }
}

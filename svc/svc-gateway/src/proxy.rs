//! The gateway's handler on one core: from a request to its answer, measured and told apart from all others.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{
    HeaderValue, Method,
    header::{ALLOW, CONNECTION, WWW_AUTHENTICATE},
};
use ron_kernel::{
    Scope, Shutdown,
    metrics::{RouteMetrics, ServiceMetrics},
    readiness::ServiceReadiness,
};
use ron_transport::{Conn, ConnInfo, Request, Response, Service, caps::ClientKey, problem, stream::Peer};
use types::{Moment, Reason, Refusal};

use crate::{
    access_log::{AccessLog, Entry, Line},
    admission::Door,
    caller::ConnMemo,
    client_addr::Client,
    grpc,
    message::Survey,
    passage::Passage,
    policy::Policy,
    quotas,
    router::Miss,
    shared::Shared,
    trace::{Trace, Tracer},
    transfer::Transfers,
};

/// The gateway's handler on one core.
pub(crate) struct Proxy {
    policy: Arc<ArcSwap<Policy>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) door: Arc<Door>,
    /// The transfers of this core.
    pub(crate) transfers: Arc<Transfers>,
    pub(crate) readiness: ServiceReadiness,
    pub(crate) shutdown: Shutdown,
    unrouted: RouteMetrics,
    metrics: ServiceMetrics,
    tracer: Tracer,
    log: AccessLog,
}

impl Proxy {
    pub(crate) fn new(
        scope: &Scope,
        core: usize,
        policies: &[Arc<ArcSwap<Policy>>],
        shared: Arc<Shared>,
        log: AccessLog,
    ) -> Self {
        Self {
            policy: Arc::clone(&policies[core]),
            door: Door::new(&shared.admission),
            transfers: Arc::clone(&shared.transfers[core]),
            shared,
            readiness: scope.readiness().service(scope.service()),
            shutdown: scope.shutdown().clone(),
            unrouted: scope.metrics().route("unrouted"),
            metrics: scope.metrics().clone(),
            tracer: Tracer::new(scope.spans().clone()),
            log,
        }
    }
}

impl Service for Proxy {
    type PerConn = ConnMemo;

    async fn call(&self, conn: &Arc<Conn<ConnMemo>>, mut request: Request) -> Result<Response, Refusal> {
        let began = self.shared.clock.now();
        let is_grpc = grpc::is_call(&request);
        let mut survey = Survey::of(&request);
        let checked = survey.check(&request);
        let trace = self.tracer.trace(request.headers(), &survey);
        let mut entry = self.begin_entry(conn, &request, &trace);
        // Owned, so that a reload during a long request can let the old policy go.
        let policy = self.policy.load_full();
        let client = Client::of(conn, request.headers(), &survey, &policy.trusted_proxies);
        let mut passage = Passage {
            proxy: self,
            conn,
            policy: &policy,
            survey,
            client,
            trace: &trace,
            began,
            entry: entry.as_mut(),
            is_grpc,
            allowance: None,
            user: None,
            written: None,
        };
        let mut response = match checked.and_then(|()| passage.check_tenant_fields(&request)) {
            Ok(()) => self.routed(&mut request, &mut passage).await,
            Err(refusal) => self.malformed(refusal, &request, &mut passage),
        };
        trace.tell(response.headers_mut());
        Ok(match entry {
            Some(entry) => entry.finish(response),
            None => response,
        })
    }

    fn turns_away(&self, peer: &Peer) -> bool {
        self.shared.floods.turns_away(ClientKey::of(peer), self.shared.clock.now())
    }

    fn speaks_for_many(&self, peer: &Peer) -> bool {
        self.policy.load().trusted_proxies.trusts(peer)
    }

    fn parks(&self, conn: &Conn<ConnMemo>) {
        conn.memo().forget();
    }

    fn refuse_head(&self, conn: &Conn<ConnMemo>, refusal: Refusal) -> Refusal {
        quotas::charge_for_head(conn, &self.policy.load(), &self.shared, refusal)
    }

    fn flooded(&self, conn: &Conn<ConnMemo>) {
        quotas::count_flood(conn, &self.policy.load(), &self.shared);
    }

    fn wasted_connection(&self, conn: &ConnInfo) {
        let (client, now) = (ClientKey::of(&conn.peer), self.shared.clock.now());
        quotas::cut_off_floods(conn, client, &self.policy.load(), &self.shared, now);
    }
}

impl Proxy {
    /// What is told of a request when it is over, if somebody wants to hear it.
    fn begin_entry(&self, conn: &ConnInfo, request: &Request, trace: &Trace) -> Option<Entry> {
        let logged = self.log.wants_next();
        if !logged && trace.span.is_none() {
            return None;
        }
        let mut line = Line::of(request, self.shared.clock.unix(), trace.corr_id.clone());
        line.tls = conn.tls.as_ref().map(|tls| tls.version);
        let span = trace.span.map(|ids| (ids, self.tracer.spans().clone()));
        Some(self.log.begin(line, logged, span))
    }

    /// Finds a request's route and has it answered there.
    async fn routed(&self, request: &mut Request, passage: &mut Passage<'_>) -> Response {
        let (began, method, corr_id) = (passage.began, request.method().clone(), &passage.trace.corr_id);
        if let Some(entry) = &mut passage.entry {
            entry.line().client = passage.client.ip;
        }
        passage.client.remove_claims(request.headers_mut(), &passage.survey);
        let route = match passage.policy.router.find(request, &passage.survey) {
            Ok(route) => route,
            Err(miss) => return self.missed(&miss, request, passage),
        };
        if let Some(entry) = &mut passage.entry {
            entry.line().route = Some(Arc::clone(&route.label));
        }
        let _in_flight = route.metrics.enter();
        let told = route.browser.as_ref().map(|browser| (browser, browser.site(request.headers())));
        let answer = passage.pass(route, request).await;
        let mut response = answer.unwrap_or_else(|refusal| {
            let mut response = self.refused(&refusal, corr_id, passage.entry.take(), passage.is_grpc);
            if let (Reason::Unauth, Some(basic)) = (refusal.reason, &route.basic_auth) {
                basic.challenge(response.headers_mut());
            }
            response
        });
        if let Some(allowance) = &passage.allowance {
            allowance.tell(response.headers_mut());
        }
        if let Some((browser, site)) = told {
            browser.dress(site, passage.client.is_https, response.headers_mut());
        }
        self.record(&route.metrics, &method, response.status().as_u16(), began);
        response
    }

    /// Refuses a request that cannot be passed on, and takes it out of the allowance of its client.
    fn malformed(&self, refusal: Refusal, request: &Request, passage: &mut Passage<'_>) -> Response {
        if let Some(entry) = &mut passage.entry {
            entry.line().client = passage.client.ip;
        }
        let refusal = passage.charge_client().err().unwrap_or(refusal);
        self.record(&self.unrouted, request.method(), refusal.reason.status(), passage.began);
        let corr_id = &passage.trace.corr_id;
        let mut response = self.refused(&refusal, corr_id, passage.entry.take(), passage.is_grpc);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        if let Some(allowance) = &passage.allowance {
            allowance.tell(response.headers_mut());
        }
        response
    }

    /// Tells a client that there is no route for its request, as often as its address may ask.
    fn missed(&self, miss: &Miss, request: &Request, passage: &mut Passage<'_>) -> Response {
        let charged = passage.charge_client();
        let (allow, refusal) = match charged {
            Ok(()) => (miss.allow(), miss.refusal(request.uri().path())),
            Err(used_up) => (None, used_up),
        };
        self.record(&self.unrouted, request.method(), refusal.reason.status(), passage.began);
        let corr_id = &passage.trace.corr_id;
        let mut response = self.refused(&refusal, corr_id, passage.entry.take(), passage.is_grpc);
        if let Some(allow) = allow {
            response.headers_mut().insert(ALLOW, allow.clone());
        }
        if let Some(allowance) = &passage.allowance {
            allowance.tell(response.headers_mut());
        }
        response
    }

    fn record(&self, route: &RouteMetrics, method: &Method, status: u16, began: Moment) {
        route.record(method.as_str(), status, self.shared.clock.now().since(began));
    }

    fn refused(
        &self,
        refusal: &Refusal,
        corr_id: &HeaderValue,
        entry: Option<&mut Entry>,
        is_grpc: bool,
    ) -> Response {
        self.metrics.rejected(refusal.reason).inc();
        if let Some(entry) = entry {
            entry.line().reason = Some(refusal.reason);
        }
        let mut response = problem::response_to(refusal, corr_id);
        let headers = response.headers_mut();
        match refusal.reason {
            Reason::Unauth => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            // What follows on the connection may have been meant as a part of what was refused. HTTP/2 has no such
            // doubts, and the library leaves the field out there.
            Reason::Malformed => drop(headers.insert(CONNECTION, HeaderValue::from_static("close"))),
            _ => {}
        }
        if is_grpc {
            grpc::reword(&mut response, refusal);
        }
        response
    }
}

//! The request path of the gateway: route, forward, answer.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use http::{
    HeaderValue, Method,
    header::{ALLOW, CONNECTION},
};
use ron_kernel::{
    Clock, Scope, Shutdown,
    meter::Meter,
    metrics::{RouteMetrics, ServiceMetrics},
    readiness::ServiceReadiness,
};
use ron_transport::{Conn, ConnInfo, Request, Response, Service, problem};
use types::{ActorId, Moment, Reason, Refusal};

use crate::{
    access_log::{AccessLog, Entry, Line},
    client_addr::Client,
    message::{self, Onward, Survey},
    router::{Miss, Route, Router},
    trace::{Trace, TraceIds},
};

/// When a refused write may be tried again: lost tasks are back within a second.
const DEGRADED_RETRY: Duration = Duration::from_secs(1);

/// The gateway's handler on one core.
pub(crate) struct Proxy {
    router: Arc<ArcSwap<Router>>,
    clock: Clock,
    readiness: ServiceReadiness,
    shutdown: Shutdown,
    unrouted: RouteMetrics,
    requests: Meter,
    metrics: ServiceMetrics,
    ids: TraceIds,
    log: AccessLog,
}

impl Proxy {
    pub(crate) fn new(scope: &Scope, router: Arc<ArcSwap<Router>>, log: AccessLog) -> Self {
        Self {
            router,
            clock: scope.clock(),
            readiness: scope.readiness().service(scope.service()),
            shutdown: scope.shutdown().clone(),
            unrouted: scope.metrics().route("unrouted"),
            // Without tenants, everybody is one.
            requests: scope.meters().meter(&ActorId::other(), "used.requests"),
            metrics: scope.metrics().clone(),
            ids: TraceIds::new(),
            log,
        }
    }
}

/// What is known of a request when its route is.
#[derive(Clone, Copy)]
struct Known<'a> {
    survey: &'a Survey,
    client: &'a Client,
    trace: &'a Trace,
    began: Moment,
}

impl Service for Proxy {
    type PerConn = ();

    async fn call(&self, conn: &Arc<Conn<()>>, request: Request) -> Result<Response, Refusal> {
        let began = self.clock.now();
        let surveyed = Survey::of(&request);
        let trace = self.ids.trace(request.headers(), surveyed.as_ref().unwrap_or(&Survey::default()));
        let mut entry = self.log.wants_next().then(|| {
            let (method, target) = (request.method().clone(), request.uri().clone());
            self.log.begin(Line::new(self.clock.unix(), trace.corr_id.clone(), method, target))
        });
        let mut response = match surveyed {
            Ok(survey) => self.routed(conn, request, &survey, &trace, &mut entry, began).await,
            Err(refusal) => {
                self.record(&self.unrouted, request.method(), refusal.reason.status(), began);
                self.refused(&refusal)
            }
        };
        trace.tell(response.headers_mut());
        Ok(match entry {
            Some(entry) => {
                let reason = response.extensions().get().copied();
                entry.finish(response, reason)
            }
            None => response,
        })
    }
}

impl Proxy {
    /// Finds a request's route and has it answered there.
    async fn routed(
        &self,
        conn: &ConnInfo,
        mut request: Request,
        survey: &Survey,
        trace: &Trace,
        entry: &mut Option<Entry>,
        began: Moment,
    ) -> Response {
        let method = request.method().clone();
        let (route, client) = match self.route(conn, &request, survey) {
            Ok(found) => found,
            Err(miss) => {
                let refusal = miss.refusal(request.uri().path());
                self.record(&self.unrouted, &method, refusal.reason.status(), began);
                let mut response = self.refused(&refusal);
                if let Some(allow) = miss.allow() {
                    response.headers_mut().insert(ALLOW, allow.clone());
                }
                return response;
            }
        };
        if let Some(entry) = entry {
            entry.line().client = client.ip;
            entry.line().route = Some(Arc::clone(&route.label));
            request = entry.counting(request);
        }
        let _in_flight = route.metrics.enter();
        let answer =
            self.answer(request, &route, Known { survey, client: &client, trace, began }, entry).await;
        let response = answer.unwrap_or_else(|refusal| self.refused(&refusal));
        self.record(&route.metrics, &method, response.status().as_u16(), began);
        response
    }

    /// The route of a request; owned, so that a reload during a long request can let the old router go.
    fn route(
        &self,
        conn: &ConnInfo,
        request: &Request,
        survey: &Survey,
    ) -> Result<(Arc<Route>, Client), Miss> {
        let router = self.router.load();
        let client = Client::of(conn, request.headers(), survey, &router.trusted_proxies);
        Ok((Arc::clone(router.find(request)?), client))
    }

    fn record(&self, route: &RouteMetrics, method: &Method, status: u16, began: Moment) {
        route.record(method.as_str(), status, self.clock.now().since(began));
    }

    fn refused(&self, refusal: &Refusal) -> Response {
        self.metrics.rejected(refusal.reason).inc();
        let mut response = problem::response(refusal);
        response.extensions_mut().insert(refusal.reason);
        // What follows on the connection may have been meant as a part of what was refused. HTTP/2 has no such doubts,
        // and the library leaves the field out there.
        if refusal.reason == Reason::Malformed {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// The steps of a request on its route, each of which can refuse before the next spends anything.
    async fn answer(
        &self,
        mut request: Request,
        route: &Route,
        Known { survey, client, trace, began }: Known<'_>,
        entry: &mut Option<Entry>,
    ) -> Result<Response, Refusal> {
        self.refuse_writes_while_degraded(request.method())?;
        if let Some(redirect) = &route.redirect
            && let Some(response) = redirect.answer(&request, client.is_https)?
        {
            return Ok(response);
        }
        let upgrade = message::upgrade_wanted(&request, survey, &route.upgrade);
        let (rewrite, rules) = (route.rewrite.as_ref(), &route.request_headers);
        message::onward(&mut request, &Onward { survey, client, trace, rewrite, rules, upgrade });
        let share = route.split.as_ref().ok_or(Reason::Internal)?.next();
        if let Some(entry) = entry {
            entry.line().upstream = Some(Arc::clone(&share.name));
            entry.line().tries = 1;
        }
        let mut response = share.upstream.send(request, began).await?;
        message::back(&mut response, &route.response_headers, upgrade)?;
        self.requests.add(1);
        Ok(response)
    }

    /// While capacity is lost, writes make way for reads. A drain is no such time: what got in is answered.
    fn refuse_writes_while_degraded(&self, method: &Method) -> Result<(), Refusal> {
        if self.readiness.sheds_writes() && !method.is_safe() && !self.shutdown.is_draining() {
            let refusal = Refusal::new(Reason::Degraded, "writes are refused for now; /readyz says why");
            return Err(refusal.retry_after(DEGRADED_RETRY));
        }
        Ok(())
    }
}

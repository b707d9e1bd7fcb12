//! The request path of the gateway: route, forward, answer.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use http::Method;
use ron_kernel::{Clock, Scope, Shutdown, meter::Meter, metrics::RouteMetrics, readiness::ServiceReadiness};
use ron_transport::{Conn, ConnInfo, Request, Response, Service};
use types::{ActorId, Deadline, Moment, Reason, Refusal};

use crate::{
    forward,
    router::{self, Route, Router},
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
}

impl Proxy {
    pub(crate) fn new(scope: &Scope, router: Arc<ArcSwap<Router>>) -> Self {
        Self {
            router,
            clock: scope.clock(),
            readiness: scope.readiness().service(scope.service()),
            shutdown: scope.shutdown().clone(),
            unrouted: scope.metrics().route("unrouted"),
            // Without tenants, everybody is one.
            requests: scope.meters().meter(&ActorId::other(), "used.requests"),
        }
    }
}

impl Service for Proxy {
    type PerConn = ();

    async fn call(&self, conn: &Arc<Conn<()>>, request: Request) -> Result<Response, Refusal> {
        let began = self.clock.now();
        let method = request.method().clone();
        if router::has_dot_segment(request.uri().path()) {
            self.unrouted.record(method.as_str(), Reason::Malformed.status(), self.clock.now().since(began));
            return Err(Refusal::new(Reason::Malformed, "a path with `.` or `..` may lead past its route"));
        }
        let Some(route) = self.route(request.uri().path()) else {
            self.unrouted.record(method.as_str(), Reason::NotFound.status(), self.clock.now().since(began));
            return Err(no_route(request.uri().path()));
        };
        let _in_flight = route.metrics.enter();
        let outcome = self.answer(conn, &route, request, began).await;
        let status = match &outcome {
            Ok(response) => response.status().as_u16(),
            Err(refusal) => refusal.reason.status(),
        };
        route.metrics.record(method.as_str(), status, self.clock.now().since(began));
        outcome
    }
}

impl Proxy {
    /// The route of a path; owned, so that a reload during a long request can let the old router go.
    fn route(&self, path: &str) -> Option<Arc<Route>> {
        self.router.load().find(path).map(Arc::clone)
    }

    /// The steps of a request on its route, each of which can refuse before the next spends anything.
    async fn answer(
        &self,
        conn: &ConnInfo,
        route: &Route,
        mut request: Request,
        began: Moment,
    ) -> Result<Response, Refusal> {
        self.refuse_writes_while_degraded(request.method())?;
        forward::request(conn, &mut request)?;
        let mut response = route.upstream.send(request, began, Deadline::NEVER).await?;
        forward::response(&mut response)?;
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

fn no_route(path: &str) -> Refusal {
    let detail = format!("no route matches {path}; routes are [[gateway.route]] in the configuration");
    Refusal::new(Reason::NotFound, detail)
}

//! The request path of the gateway: route, forward, answer.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use http::Method;
use ron_kernel::{Clock, Scope, Shutdown, meter::Meter, metrics::RouteMetrics, readiness::ServiceReadiness};
use ron_transport::{Conn, ConnInfo, Request, Response, Service};
use types::{ActorId, Moment, Reason, Refusal};

use crate::{
    message,
    router::{Route, Router},
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
        let route = match self.route(&request) {
            Ok(route) => route,
            Err(refusal) => {
                self.unrouted.record(method.as_str(), refusal.reason.status(), self.clock.now().since(began));
                return Err(refusal);
            }
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
    /// The route of a request; owned, so that a reload during a long request can let the old router go.
    fn route(&self, request: &Request) -> Result<Arc<Route>, Refusal> {
        self.router.load().find(request).map(Arc::clone).map_err(|miss| miss.refusal(request.uri().path()))
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
        if let Some(redirect) = &route.redirect
            && let Some(response) = redirect.answer(&request, conn.tls.is_some())?
        {
            return Ok(response);
        }
        message::request(conn, &mut request)?;
        let upstream = route.split.as_ref().ok_or(Reason::Internal)?.next();
        let mut response = upstream.send(request, began).await?;
        message::response(&mut response)?;
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

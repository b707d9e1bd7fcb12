//! The request path of the gateway: route, forward, answer.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ron_kernel::{
    Clock, Scope,
    meter::Meter,
    metrics::{Counter, RouteMetrics},
};
use ron_transport::{ConnInfo, Request, Response, Service};
use types::{ActorId, Reason, Refusal};

use crate::{forward, router::Router};

/// The gateway's handler on one core.
pub(crate) struct Proxy {
    router: Arc<ArcSwap<Router>>,
    clock: Clock,
    unrouted: RouteMetrics,
    timeouts: Counter,
    requests: Meter,
}

impl Proxy {
    pub(crate) fn new(scope: &Scope, router: Arc<ArcSwap<Router>>) -> Self {
        Self {
            router,
            clock: scope.clock(),
            unrouted: scope.metrics().route("unrouted"),
            timeouts: scope.metrics().io_timeouts("rpc"),
            // Without tenants, everybody is one.
            requests: scope.meters().meter(&ActorId::other(), "used.requests"),
        }
    }
}

impl Service for Proxy {
    async fn call(&self, conn: &Arc<ConnInfo>, mut request: Request) -> Result<Response, Refusal> {
        let began = self.clock.now();
        let method = request.method().clone();
        let router = self.router.load();
        let Some(route) = router.find(request.uri().path()) else {
            self.unrouted.record(method.as_str(), Reason::NotFound.status(), self.clock.now().since(began));
            let detail = format!(
                "no route matches {}; routes are [[gateway.route]] in the configuration",
                request.uri().path()
            );
            return Err(Refusal::new(Reason::NotFound, detail));
        };
        // Owned, so that a reload during a long request can let the old router go.
        let route = Arc::clone(route);
        drop(router);
        let _in_flight = route.metrics.enter();
        forward::request(conn, &mut request);
        let outcome = route.upstream.send(request).await;
        let status = match &outcome {
            Ok(response) => response.status().as_u16(),
            Err(refusal) => refusal.reason.status(),
        };
        route.metrics.record(method.as_str(), status, self.clock.now().since(began));
        self.requests.add(1);
        if let Err(refusal) = &outcome
            && refusal.reason == Reason::DownstreamTimeout
        {
            self.timeouts.inc();
        }
        outcome.map(|mut response| {
            forward::response(&mut response);
            response
        })
    }
}

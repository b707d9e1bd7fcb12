//! The edge's handler on one core: from a request to its answer, at once if it is hot.

mod assets;
mod filled;
mod objects;
mod pages;
mod site;
mod tiles;

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header::ALLOW, request::Parts};
use httprules::{freshness::Time, host};
use ron_kernel::metrics::{RouteMetrics, ServiceMetrics};
use ron_transport::{Body, Conn, ConnInfo, Request, Response, Service, deadline};
use types::{Deadline, Moment, Reason, Refusal};

use crate::{
    assets::chosen,
    deny::{Deny, METHODS},
    ingress::{self, Client, ConnMemo, Place},
    policy::Policy,
    ram::{Ready, Variant},
    route::{Route, decoded},
    serve::{Asked, Class, Plan, Representation, Source, TO_THE_END, plan},
    shared::Shared,
    spans::Teller,
};

/// The edge's handler on one core.
#[derive(Debug)]
pub(crate) struct Handler {
    policy: Arc<ArcSwap<Policy>>,
    shared: Arc<Shared>,
    metrics: ServiceMetrics,
    routes: Routes,
    teller: Teller,
}

/// What a request is answered with.
type Answer = Result<Response, Deny>;

/// The metrics of each route.
#[derive(Debug)]
struct Routes {
    assets: RouteMetrics,
    tiles: RouteMetrics,
    objects: RouteMetrics,
    pages: RouteMetrics,
    unrouted: RouteMetrics,
}

impl Routes {
    fn of(&self, route: &Result<Route<'_>, Refusal>) -> &RouteMetrics {
        match route {
            Ok(Route::Asset(_) | Route::Page(_)) => &self.assets,
            Ok(Route::Tile(_) | Route::TileJson(_)) => &self.tiles,
            Ok(Route::Object(_)) => &self.objects,
            Ok(Route::Home | Route::Packs | Route::Preview(_) | Route::PreviewFile(_)) => &self.pages,
            Err(_) => &self.unrouted,
        }
    }
}

/// One request, and what is in force for it.
struct Visit<'a> {
    handler: &'a Handler,
    policy: &'a Policy,
    request: &'a Parts,
    client: &'a Arc<Client>,
    began: Moment,
    tls: bool,
}

impl Handler {
    pub(crate) fn new(policy: Arc<ArcSwap<Policy>>, shared: Arc<Shared>) -> Self {
        let metrics = shared.scope.metrics().clone();
        let routes = Routes {
            assets: metrics.route("/edge/assets"),
            tiles: metrics.route("/edge/tiles"),
            objects: metrics.route("/edge/cas"),
            pages: metrics.route("/edge/packs"),
            unrouted: metrics.route("unrouted"),
        };
        let teller = Teller::new(shared.scope.spans().clone());
        Self { policy, shared, metrics, routes, teller }
    }

    /// Publishes how many requests are in flight, by route.
    pub(crate) fn sample(&self) {
        let Routes { assets, tiles, objects, pages, unrouted } = &self.routes;
        [assets, tiles, objects, pages, unrouted].into_iter().for_each(RouteMetrics::sample);
    }

    fn refused(&self, deny: Deny, request: &HeaderMap) -> Response {
        self.metrics.rejected(deny.refusal.reason).inc();
        self.shared.metrics.refused(deny.refusal.reason);
        deny.response(&self.teller.corr_id(request))
    }
}

impl Service for Handler {
    type PerConn = ConnMemo;

    async fn call(&self, conn: &Arc<Conn<ConnMemo>>, request: Request) -> Result<Response, Refusal> {
        let began = self.shared.clock.now();
        let policy = self.policy.load_full();
        let client = self.shared.ingress.known_client(conn, began);
        let charged = client.charge(&policy.limits, began).map_err(Deny::from);
        let sound = host::check(request.version(), request.uri(), request.headers()).map_err(Deny::host);
        let admitted = charged.and(sound);
        Ok(self.answer((conn, client), request, &policy, began, admitted).await)
    }

    fn refuse_head(&self, conn: &Conn<ConnMemo>, refusal: Refusal) -> Refusal {
        let now = self.shared.clock.now();
        let charged = self.shared.ingress.known_client(conn, now).charge(&self.policy.load().limits, now);
        charged.err().unwrap_or(refusal)
    }
}

impl Handler {
    /// Answers a request that somebody else in this process has admitted.
    ///
    /// Cancel safe.
    pub(crate) async fn answer_admitted(&self, conn: &ConnInfo, request: Request) -> Response {
        let began = self.shared.clock.now();
        let client = self.shared.ingress.client(conn, began);
        self.answer((conn, &client), request, &self.policy.load_full(), began, Ok(())).await
    }

    async fn answer(
        &self,
        (conn, client): (&ConnInfo, &Arc<Client>),
        request: Request,
        policy: &Policy,
        began: Moment,
        admitted: Result<(), Deny>,
    ) -> Response {
        let (request, body) = request.into_parts();
        let span = self.teller.begin(&request.headers);
        let tls = conn.tls.is_some();
        let visit = Visit { handler: self, policy, request: &request, client, began, tls };
        let route = Route::find(request.uri.path(), policy.site.enabled);
        let metrics = self.routes.of(&route);
        let _in_flight = metrics.enter();
        let answer = match visit.at_once(admitted, route, &body) {
            Some(answer) => answer,
            // Boxed, because most requests do without, and every one moves with its future.
            None => Box::pin(visit.worked_out()).await,
        };
        let mut response = answer.unwrap_or_else(|deny| self.refused(deny, &request.headers));
        policy.dress.protect(&request.headers, visit.tls, response.headers_mut());
        self.shared.usage.requests.add(1);
        let took = self.shared.clock.now().since(began);
        metrics.record(request.method.as_str(), response.status().as_u16(), took);
        if let Some(ids) = span {
            let times = (self.shared.clock.unix(), took);
            self.teller.tell(ids, (&request, metrics.name()), response.status(), times);
        }
        response
    }
}

impl Visit<'_> {
    /// The answer, if it can be had without waiting: refusals, what is in RAM, and pages.
    fn at_once(
        &self,
        admitted: Result<(), Deny>,
        route: Result<Route<'_>, Refusal>,
        body: &Body,
    ) -> Option<Answer> {
        let limits = &self.policy.limits;
        if let Err(deny) = admitted {
            return Some(Err(deny));
        }
        if self.request.method == Method::OPTIONS && self.request.uri.path() == "*" {
            return Some(Ok(self.options()));
        }
        let route = match ingress::admit(&self.request.method, body, limits).and(route) {
            Ok(route) => route,
            Err(refusal) => return Some(Err(refusal.into())),
        };
        if self.request.method == Method::OPTIONS {
            return Some(Ok(self.options()));
        }
        match route {
            Route::Asset(raw) => self.hot_asset(raw),
            Route::Page(raw) => self.hot_page(raw),
            Route::Tile(_) => self.hot_tile(),
            Route::Object(id) => self.hot_object(id),
            Route::TileJson(pack) => Some(self.tilejson(pack)),
            Route::Home => Some(Ok(pages::home(self.request.uri.query()))),
            Route::Packs => Some(self.packs()),
            Route::Preview(pack) => Some(self.map(pack)),
            Route::PreviewFile(name) => Some(self.preview_file(name)),
        }
    }

    /// The answer that has to be waited for, with a place among those that wait.
    async fn worked_out(&self) -> Answer {
        let route = Route::find(self.request.uri.path(), self.policy.site.enabled)?;
        let place = self.shared().ingress.enter(self.client).inspect_err(|_| self.has_not_looked(&route))?;
        match route {
            Route::Page(raw) => self.in_time(self.site_page(raw, place)).await?,
            Route::Asset(raw) => match self.origin(raw) {
                Some((fill, url)) => self.filled(fill, &url, place).await,
                None => self.in_time(self.asset(raw, place)).await?,
            },
            Route::Tile(at) => self.in_time(self.tile(at)).await?,
            Route::Object(id) => self.in_time(self.object(id, place)).await?,
            _ => Err(Reason::NotFound.into()),
        }
    }

    /// Leaves the look at a file that is in RAM to the next who asks for it: otherwise a client that is refused could keep a change
    /// of the file from being noticed.
    fn has_not_looked(&self, route: &Route<'_>) {
        if let Route::Page(raw) | Route::Asset(raw) = route
            && let Ok(path) = decoded(raw)
            && let Some(ready) = self.shared().ram.get(Variant::File, &path)
        {
            ready.not_looked_at();
        }
    }

    /// Waits for a disk, no longer than the request may take.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Deny> {
        Ok(self.shared().scope.by("read", self.deadline(), work).await?)
    }

    /// By when the response's head must be there: what is configured, or what the client wishes, if that is sooner.
    fn deadline(&self) -> Deadline {
        let wished = deadline::wished(self.headers(), self.began, self.shared().clock.unix());
        wished.tightened(Deadline::within(self.began, self.policy.limits.timeout))
    }

    fn options(&self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(ALLOW, METHODS);
        self.policy.dress.preflight(self.headers(), response.headers_mut());
        response
    }

    /// A representation that is in RAM.
    fn ram(&self, of: &Representation, bytes: &bytes::Bytes, class: Class) -> Answer {
        match plan(&self.asked(), of, &self.policy.dress, class) {
            Plan::Done(response) => Ok(response),
            Plan::Unsatisfiable(content_range) => Err(Deny::range(content_range)),
            Plan::Send(mut response, range) => {
                let at = |offset: u64| usize::try_from(offset).expect("what is in RAM fits in it");
                self.shared().usage.bytes.add(range.end - range.start);
                *response.body_mut() = bytes.slice(at(range.start)..at(range.end)).into();
                Ok(response)
            }
        }
    }

    /// A representation, wherever it is.
    async fn represent(&self, of: &Representation, class: Class, place: Place) -> Answer {
        match plan(&self.asked(), of, &self.policy.dress, class) {
            Plan::Done(response) => Ok(response),
            Plan::Unsatisfiable(content_range) => Err(Deny::range(content_range)),
            Plan::Send(mut response, range) => {
                let (reader, patience) = (&self.shared().reader, self.policy.limits.timeout);
                *response.body_mut() = match &of.source {
                    Source::Ram(bytes) => return self.ram(of, bytes, class),
                    Source::Disk { verified, owner } => {
                        reader.body(verified, owner, range, patience, place).await?
                    }
                    Source::Growing(fill) => {
                        let end = Some(range.end).filter(|end| *end != TO_THE_END);
                        reader.growing(fill, range.start, end, place)?
                    }
                };
                Ok(response)
            }
        }
    }

    /// An answer that is ready and holds, if it is in RAM.
    fn ready(&self, ready: &Ready, class: Class) -> Option<Answer> {
        let representation = chosen(self.headers(), ready.representation.as_ref()?, &ready.coded);
        let Source::Ram(bytes) = &representation.source else { return None };
        self.shared().metrics.hits.inc();
        Some(self.ram(representation, bytes, class))
    }

    fn asked(&self) -> Asked<'_> {
        Asked { method: &self.request.method, headers: self.headers(), unix: self.unix() }
    }

    /// Returns the current time in Unix seconds.
    fn unix(&self) -> u64 {
        self.shared().clock.unix().as_secs()
    }

    /// Returns the current time by both clocks.
    fn time(&self) -> Time {
        Time { unix: self.unix(), steady: self.shared().clock.steady_unix().as_secs() }
    }

    fn headers(&self) -> &HeaderMap {
        &self.request.headers
    }

    fn shared(&self) -> &Shared {
        &self.handler.shared
    }
}

/// A response that sends the client elsewhere.
fn redirect(status: StatusCode, to: HeaderValue) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::LOCATION, to);
    response
}

//! The handler of one core: finds what is asked for, who asks, answers and counts.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use oap::PUBLICATION_MAX;
use ron_kernel::metrics::RouteMetrics;
use ron_transport::{
    Body, BodyError, Conn, ConnInfo, Request, Response, Service, caps::ClientKey, corr_id, deadline, problem,
};
use topics::Filter;
use types::{Reason, Refusal};

use super::{
    access::{self, Caller, Sender},
    events, route,
    route::Route,
    socket,
    state::{State, Who},
};
use crate::{Cursor, told};

/// Fields that pages of other origins may send.
const ALLOWED_FIELDS: &str = "authorization, content-type, deadline, last-event-id, request-timeout, x-corr-id, \
                              x-request-timeout-ms";

/// The handler of one core.
#[derive(Debug)]
pub(super) struct Handler {
    state: Arc<State>,
    routes: [RouteMetrics; Route::NAMES.len()],
    unrouted: RouteMetrics,
}

impl Handler {
    pub(super) fn new(state: &Arc<State>) -> Self {
        let metrics = state.scope.metrics();
        let routes = Route::NAMES.map(|name| metrics.route(name));
        Self { state: Arc::clone(state), unrouted: metrics.route("unrouted"), routes }
    }

    /// Publishes how many requests are in flight, by route.
    pub(super) fn sample(&self) {
        self.routes.iter().chain([&self.unrouted]).for_each(RouteMetrics::sample);
    }

    async fn answer(
        &self,
        conn: &ConnInfo,
        request: &Parts,
        body: Body,
        route: Result<Route, Refusal>,
        corr_id: &HeaderValue,
    ) -> Result<Response, Refusal> {
        let settings = self.state.settings.load_full();
        let origin = settings.origins.admit(&request.uri, &request.headers, settings.auth)?;
        if request.method == Method::OPTIONS && origin.is_some() {
            return Ok(preflight());
        }
        match route? {
            Route::Publish(topic) => {
                let (caller, client) = self.caller(conn, request)?;
                caller.may_publish(topic.as_str())?;
                self.state.admit_publication(client, &caller)?;
                let clock = self.state.scope.clock();
                let wished = deadline::wished(&request.headers, clock.now(), clock.unix());
                let published =
                    self.state.publish(topic, read(body).await?, wished, Who::new(client, &caller)).await?;
                Ok(json(StatusCode::OK, &told::published_json(&published)))
            }
            Route::Events(filter) => {
                let (caller, client) = self.caller(conn, request)?;
                let after = after(request)?;
                caller.may_subscribe(&filter, sender_of(conn, request), self.state.unix())?;
                self.events(filter, after, caller, client).await
            }
            Route::Socket(filter) => {
                let upgrade = socket::Upgrade::of(request)?;
                let after = after(request)?;
                let sender = socket::From::new(conn, request, corr_id);
                socket::open(&self.state, upgrade, sender, filter, after)
            }
        }
    }

    /// Who asks, by what it shows in `Authorization`.
    fn caller(&self, conn: &ConnInfo, request: &Parts) -> Result<(Caller, ClientKey), Refusal> {
        let (auth, tokens) =
            (self.state.settings.load().auth, Arc::clone(&self.state.overlay.settings.load().tokens));
        let shown = access::bearer(&request.headers);
        let caller = access::caller(shown, auth, &tokens, sender_of(conn, request), self.state.unix())?;
        Ok((caller, ClientKey::of(&conn.peer)))
    }

    async fn events(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        caller: Caller,
        client: ClientKey,
    ) -> Result<Response, Refusal> {
        let place = self.state.place(client, &caller)?;
        let feed = self.state.subscribe(&filter, after, Who::new(client, &caller)).await?;
        Ok(events::response(&self.state, feed, caller, place))
    }
}

impl Service for Handler {
    type PerConn = ();

    async fn call(&self, conn: &Arc<Conn<()>>, request: Request) -> Result<Response, Refusal> {
        let (request, body) = request.into_parts();
        let clock = self.state.scope.clock();
        let route = Route::find(&request.method, &request.uri);
        let metrics = route.as_ref().map_or(&self.unrouted, |route| &self.routes[route.index()]);
        let (began, _in_flight) = (clock.now(), metrics.enter());
        let corr_id = corr_id::of(&request.headers);
        let answered = Box::pin(self.answer(conn, &request, body, route, &corr_id)).await;
        let mut response = answered.unwrap_or_else(|refusal| {
            self.state.scope.metrics().rejected(refusal.reason).inc();
            refused(&refusal, &corr_id)
        });
        response.headers_mut().insert(corr_id::CORR_ID, corr_id);
        self.share(&request, response.headers_mut());
        metrics.record(request.method.as_str(), response.status().as_u16(), clock.now().since(began));
        Ok(response)
    }
}

impl Handler {
    /// Lets the page that sent a request read the answer, if it may.
    fn share(&self, request: &Parts, headers: &mut HeaderMap) {
        let settings = self.state.settings.load();
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let Ok(Some(origin)) = settings.origins.admit(&request.uri, &request.headers, settings.auth) else {
            return;
        };
        if let Ok(origin) = HeaderValue::from_str(origin) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            let exposed = HeaderValue::from_static("retry-after, x-corr-id");
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

fn sender_of<'a>(conn: &'a ConnInfo, request: &'a Parts) -> Sender<'a> {
    Sender { conn, method: request.method.as_str(), path: request.uri.path() }
}

/// What a browser is told that asks before it sends a request of a page of another origin.
fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_FIELDS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// A refusal. One for want of a token tells how to show one.
fn refused(refusal: &Refusal, corr_id: &HeaderValue) -> Response {
    let mut response = problem::response_to(refusal, corr_id);
    let headers = response.headers_mut();
    if refusal.reason == Reason::Unauth {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"omnigate\""));
    }
    if refusal.reason == Reason::MethodNotAllowed {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(format!("{value}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What a subscriber that comes back heard last: as browsers say it in a field, or in the query.
fn after(request: &Parts) -> Result<Option<Cursor>, Refusal> {
    let malformed = || Refusal::new(Reason::Malformed, "Last-Event-ID: not the id of an event");
    let in_field = request.headers.get("last-event-id").map(|value| value.to_str().map(str::to_owned));
    let text = match in_field {
        Some(text) => Some(text.map_err(|_| malformed())?),
        None => route::after(request.uri.query())?,
    };
    // Browsers send an empty one before the first event.
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|_| malformed())).transpose()
}

/// A whole body, no longer than a publication.
async fn read(body: Body) -> Result<Bytes, Refusal> {
    match Limited::new(body, PUBLICATION_MAX).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Refusal::new(Reason::BodyCap, format!("a publication has at most {PUBLICATION_MAX} bytes")))
        }
        Err(error) => Err(match error.downcast_ref::<BodyError>() {
            Some(error) => error.refusal(),
            None => Refusal::new(Reason::Malformed, "the body broke off"),
        }),
    }
}

//! From the HTTP library's requests to ours and back, with a request's life counted around it.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderValue, Version, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use ron_kernel::{Clock, InFlight, InFlightGuard, Shutdown, metrics::ServiceMetrics};

use super::{Activity, Roles};
use crate::{
    Body,
    body::BodyError,
    problem,
    service::{ConnInfo, Service},
};

/// What the requests of one connection share.
pub(super) struct ConnState<S> {
    pub(super) service: Arc<S>,
    pub(super) info: Arc<ConnInfo>,
    pub(super) activity: Arc<Activity>,
    pub(super) work: InFlight,
    pub(super) shutdown: Shutdown,
    pub(super) metrics: ServiceMetrics,
    pub(super) clock: Clock,
    pub(super) roles: Roles,
}

/// Answers one request; a refusal becomes a problem document.
pub(super) async fn answer<S: Service>(
    state: Arc<ConnState<S>>,
    request: http::Request<Incoming>,
) -> Result<http::Response<Served>, Infallible> {
    let life = Life::begin(&state);
    let version = request.version();
    let request = request.map(|incoming| Body::watched(incoming, &state.activity));
    let mut response = state
        .service
        .call(&state.info, request)
        .await
        .unwrap_or_else(|refusal| {
            state.metrics.rejected(refusal.reason).inc();
            problem::response(&refusal)
        });
    if state.shutdown.is_draining() && version < Version::HTTP_2 {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Served {
        body,
        handed_over: false,
        life,
    }))
}

/// A request in flight, from its complete head until its response is sent or given up.
struct Life {
    activity: Arc<Activity>,
    _work: InFlightGuard,
}

impl Life {
    fn begin<S>(state: &ConnState<S>) -> Self {
        state.activity.request_began();
        Self {
            activity: Arc::clone(&state.activity),
            _work: state.work.enter(),
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.activity.request_ended();
    }
}

/// A response's body on its way out.
pub(super) struct Served {
    body: Body,
    handed_over: bool,
    life: Life,
}

impl Served {
    fn settle(&mut self) {
        if std::mem::take(&mut self.handed_over) {
            self.life.activity.frame_taken();
        }
    }
}

impl HttpBody for Served {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.settle();
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if matches!(frame, Some(Ok(_))) && !self.body.is_end_stream() {
            self.handed_over = true;
            self.life.activity.frame_handed_over();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.settle();
    }
}

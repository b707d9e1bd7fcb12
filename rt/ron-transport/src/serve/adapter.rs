//! What the requests of a connection share, and from the HTTP library's requests to ours and back on HTTP/2.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use ron_kernel::{Clock, InFlightShard, Shutdown, metrics::ServiceMetrics};
use types::{Moment, Reason, Refusal};

use super::{Activity, Pace, Roles};
use crate::{
    Body,
    body::BodyError,
    problem,
    service::{Conn, Response, Service},
    trailers,
};

/// What the requests of one connection share.
pub(super) struct ConnState<S: Service> {
    pub(super) service: Arc<S>,
    pub(super) conn: Arc<Conn<S::PerConn>>,
    pub(super) activity: Arc<Activity>,
    pub(super) shutdown: Shutdown,
    pub(super) metrics: ServiceMetrics,
    pub(super) clock: Clock,
    pub(super) roles: Roles,
    /// When the connection is too old for another request.
    pub(super) last_request_at: Moment,
    /// Whether it closes because the node stops.
    pub(super) closed_by_node: AtomicBool,
    /// Whether a request without an answer is given up, because the drain is about to end.
    pub(super) given_up: AtomicBool,
}

impl<S: Service> ConnState<S> {
    /// Notes that the connection closes because the node stops.
    pub(super) fn node_closes(&self) {
        self.closed_by_node.store(true, Ordering::Relaxed);
    }

    /// Has a request that has no answer yet answered 503. Its task has to be polled after this.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Returns true if the request was given up.
    pub(super) fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }
}

/// Answers one request of an HTTP/2 connection; a refusal becomes a problem document.
pub(super) async fn answer<S: Service>(
    state: Arc<ConnState<S>>,
    request: http::Request<Incoming>,
) -> Result<http::Response<Served>, Infallible> {
    let life = Life::begin(&state);
    let only_head = request.method() == Method::HEAD;
    // Reading the body of a client that waits to be asked for it is how it is asked.
    let may_look = request.body().is_end_stream() || !request.headers().contains_key(header::EXPECT);
    let request = request.map(|incoming| Body::watched(incoming, &state.activity, may_look));
    state.conn.asks();
    let outcome = match state.service.call(&state.conn, request).await {
        Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            Err(Refusal::new(Reason::BadGateway, "the upstream switched protocols without having been asked"))
        }
        outcome => outcome,
    };
    let mut response = outcome.unwrap_or_else(|refusal| {
        state.metrics.rejected(refusal.reason).inc();
        problem::response(&refusal)
    });
    if only_head {
        drop_body(&mut response);
    }
    Ok(response.map(|body| Served::new(body, life)))
}

/// Answers a request whose head cannot be served, with this status unless the service says otherwise.
pub(super) fn refuse_head<S: Service>(
    state: &ConnState<S>,
    status: StatusCode,
    refusal: Refusal,
) -> http::Response<Served> {
    let (life, reason) = (Life::begin(state), refusal.reason);
    let refusal = state.service.refuse_head(&state.conn, refusal);
    let status = if refusal.reason == reason { status } else { problem::status_of(&refusal) };
    state.metrics.rejected(refusal.reason).inc();
    problem::response_to_head(status, &refusal).map(|body| Served::new(body, life))
}

/// Leaves of a response what answers HEAD, which the library does not.
fn drop_body(response: &mut Response) {
    let body = std::mem::take(response.body_mut());
    if let Some(length) = body.size_hint().exact().filter(|length| *length > 0) {
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
}

/// A request in flight, from its complete head until its response is sent or given up.
pub(super) struct Life {
    activity: Arc<Activity>,
    work: InFlightShard,
}

impl Life {
    pub(super) fn begin<S: Service>(state: &ConnState<S>) -> Self {
        Self { work: state.activity.request_began(), activity: Arc::clone(&state.activity) }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.activity.request_ended(self.work);
    }
}

/// The most of a response that HTTP/2 is given at once. What it has been given counts as taken only when it comes back
/// for more, and the last piece of a response is out of sight.
const PIECE: usize = 16 * 1024;

/// A response's body on its way out over HTTP/2, where a client can refuse single responses while the connection moves.
pub(super) struct Served {
    body: Body,
    /// What is left of a frame that is handed over in pieces.
    rest: Bytes,
    handed_over: Option<HandedOver>,
    pace: Pace,
    life: Life,
}

/// A frame that waits for room.
struct HandedOver {
    since: Moment,
    bytes: usize,
}

impl Served {
    fn new(body: Body, life: Life) -> Self {
        Self { body, rest: Bytes::new(), handed_over: None, pace: Pace::default(), life }
    }

    /// The next frame, as it may be handed over.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(passed_on(other)))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

/// A frame that is not data, without what has no place in trailers.
fn passed_on(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        trailers::clean(trailers);
    }
    frame
}

impl HttpBody for Served {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.as_mut().get_mut();
        if let Some(HandedOver { since, bytes }) = this.handed_over.take() {
            this.life.activity.frame_taken(since, bytes, &mut this.pace);
        }
        let frame = ready!(this.poll_piece(cx));
        if let Some(Ok(frame)) = &frame {
            let since = this.life.activity.frame_handed_over(&this.pace);
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            this.handed_over = Some(HandedOver { since, bytes });
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Asked before the first piece only, when nothing rests.
        self.body.size_hint()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(HandedOver { since, .. }) = self.handed_over.take() {
            self.life.activity.frame_dropped(since);
        }
        self.life.activity.frames_ended();
    }
}

//! Copies of requests for another upstream. The request that is copied never waits for its copy, and nothing that becomes
//! of the copy reaches its client.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use http::{
    HeaderName, HeaderValue,
    header::{AUTHORIZATION, COOKIE},
};
use http_body::Body as _;
use ron_kernel::{
    Clock, Shutdown,
    supervisor::Children,
    topology::{ChildSpec, Plane, Stage},
};
use ron_transport::{Body, Request, Response};
use types::Deadline;

use crate::{
    config::{MirrorConfig, RouteConfig},
    router::turn_of,
    upstream::{Held, MirrorMetrics, MirrorOutcome, Sent, Upstream},
};

/// Copies of requests on their way.
pub(crate) const MIRRORED: ChildSpec = ChildSpec {
    kind: "mirrored",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "`mirror.max_inflight` of its route",
    doc: "sends the copy of a request to the upstream of its route's `mirror` and drops the response; ends at once when the \
          node drains",
};

/// Says that a request is a copy. Clients cannot say it: all fields of this kind that they send are removed.
const MARK: HeaderName = HeaderName::from_static("x-omnigate-mirror");
/// The whole of what `percent` is counted in.
const WHOLE: u32 = 10_000;
/// How much of a response is read, so that its connection can be used again.
const MAX_DISCARDED: u64 = 1 << 20;

/// What a route copies, as one core sees it.
#[derive(Debug)]
pub(crate) struct Mirror {
    upstream: Arc<Upstream>,
    /// Of [`WHOLE`] requests.
    share: u32,
    turn: AtomicU32,
    max_body: u64,
    max_inflight: u32,
    /// Fields that copies do not have, because they authenticate the request to the route's own server.
    left_out: Box<[HeaderName]>,
    /// Copies on their way to the upstream, on all cores.
    inflight: Arc<AtomicU32>,
    children: Children,
    metrics: MirrorMetrics,
}

/// A place among the copies that are on their way, given back when dropped.
struct Place(Arc<AtomicU32>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Mirror {
    /// A mirror as configured for a route, to this upstream.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be from 0.01 to 100"
    )]
    pub(crate) fn new(config: &MirrorConfig, route: &RouteConfig, upstream: &Arc<Upstream>) -> Self {
        let (inflight, children, metrics) = upstream.mirrored();
        Self {
            upstream: Arc::clone(upstream),
            share: (config.percent * 100.0).round() as u32,
            turn: AtomicU32::new(0),
            max_body: config.max_body_bytes.as_u64(),
            max_inflight: config.max_inflight.min(upstream.room_for_copies()),
            left_out: if config.credentials { Box::default() } else { credentials(route) },
            inflight,
            children,
            metrics,
        }
    }

    /// Sends a copy of a request that is about to be sent, if it is its turn and there is room.
    pub(crate) fn copy(&self, request: &Request, clock: Clock, shutdown: &Shutdown) {
        if turn_of(self.turn.fetch_add(1, Ordering::Relaxed), WHOLE) >= self.share {
            return;
        }
        let body = request.body().whole().filter(|bytes| bytes.len() as u64 <= self.max_body);
        let Some(body) = body else { return self.metrics.count(MirrorOutcome::TooLarge) };
        let Some(place) = self.place() else { return self.metrics.count(MirrorOutcome::Busy) };
        let mut copy = Request::new(Body::from(body));
        copy.method_mut().clone_from(request.method());
        copy.uri_mut().clone_from(request.uri());
        *copy.version_mut() = request.version();
        copy.headers_mut().clone_from(request.headers());
        for name in &self.left_out {
            copy.headers_mut().remove(name);
        }
        copy.headers_mut().insert(MARK, HeaderValue::from_static("1"));
        let (upstream, metrics, shutdown) =
            (Arc::clone(&self.upstream), self.metrics.clone(), shutdown.clone());
        self.children.spawn(async move {
            let _place = place;
            let outcome = tokio::select! {
                biased;
                () = shutdown.reached(Stage::Readiness) => MirrorOutcome::Failed,
                outcome = send(&upstream, copy, clock) => outcome,
            };
            metrics.count(outcome);
        });
    }

    fn place(&self) -> Option<Place> {
        let more = |inflight: u32| (inflight < self.max_inflight).then(|| inflight + 1);
        let taken = self.inflight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Place(Arc::clone(&self.inflight)))
    }
}

/// The fields that authenticate requests to a route's own server: the client's, and those that the route adds.
fn credentials(route: &RouteConfig) -> Box<[HeaderName]> {
    let (rules, auth) = (&route.request_headers, route.forward_auth.iter());
    let added = rules.set.keys().chain(rules.add.keys()).chain(auth.flat_map(|auth| &auth.copy_headers));
    [AUTHORIZATION, COOKIE].into_iter().chain(added.filter_map(|name| name.parse().ok())).collect()
}

/// Sends a copy once, and reads what is answered.
async fn send(upstream: &Upstream, mut copy: Request, clock: Clock) -> MirrorOutcome {
    let (now, mut sent) = (clock.now(), Sent { is_copy: true, ..Sent::default() });
    let times = (now, Deadline::within(now, upstream.timeout()));
    let answer = upstream.send(&mut copy, None, (Held::Shared(None, 0), None), times, &mut sent).await;
    let Ok(response) = answer else { return MirrorOutcome::Failed };
    clock.by(times.1, discard(response)).await;
    MirrorOutcome::Answered
}

/// Reads a response to its end, unless it is longer than [`MAX_DISCARDED`].
async fn discard(mut response: Response) {
    let mut left = MAX_DISCARDED;
    let body = response.body_mut();
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        match left.checked_sub(length) {
            Some(less) => left = less,
            None => return,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use http_body::Frame;
    use ron_transport::BodyError;

    use super::*;

    /// A body of pieces of equal length without end; counts those that were read.
    struct Endless {
        piece: Bytes,
        read: Arc<AtomicU32>,
    }

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            self.read.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
        }
    }

    #[tokio::test]
    async fn a_response_is_read_up_to_the_limit_and_no_further() {
        let piece = Bytes::from(vec![0; 64 << 10]);
        let read = Arc::new(AtomicU32::new(0));
        let body = Endless { piece: piece.clone(), read: Arc::clone(&read) };
        discard(Response::new(Body::streaming(body))).await;
        let whole = u32::try_from(MAX_DISCARDED / piece.len() as u64).unwrap();
        assert_eq!(read.load(Ordering::Relaxed), whole + 1, "the piece beyond the limit is the last");
    }

    #[test]
    fn credentials_are_the_clients_and_those_that_the_route_adds() {
        let route: RouteConfig = serde_json::from_value(serde_json::json!({
            "path": "/",
            "request_headers": { "set": { "x-api-key": "1" }, "add": { "x-more": "2" }, "remove": ["x-other"] },
            "forward_auth": { "upstream": "auth", "copy_headers": ["x-access-token"] },
        }))
        .unwrap();
        let names: Vec<String> = credentials(&route).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["authorization", "cookie", "x-api-key", "x-more", "x-access-token"]);
    }
}

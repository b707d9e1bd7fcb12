//! A line while its request is in progress.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use ron_kernel::{
    Clock,
    spans::{SpanIds, Spans},
};
use ron_transport::{
    Body, BodyError, Request, Response,
    tunnel::{Traffic, TunnelEnd, TunnelWatch},
};
use types::Moment;

use super::{Line, Lines};

/// A request that will be told of. The line is on its way when this is dropped: after the last byte of the response, or when
/// the client has left.
pub(crate) struct Entry {
    /// `None` only while it is dropped.
    line: Option<Line>,
    /// Where lines go, if this one is logged.
    lines: Option<Lines>,
    /// Where its span belongs and goes, if it has one.
    span: Option<(SpanIds, Spans)>,
    clock: Clock,
    began: Moment,
}

impl Entry {
    pub(super) fn new(
        line: Line,
        lines: Option<Lines>,
        span: Option<(SpanIds, Spans)>,
        clock: Clock,
    ) -> Self {
        Self { line: Some(line), lines, span, clock, began: clock.now() }
    }

    /// The line, to fill in what became known.
    pub(crate) fn line(&mut self) -> &mut Line {
        self.line.as_mut().expect("it goes when the entry is dropped, and not before")
    }

    /// Counts what is read of a request's body.
    pub(crate) fn count(&mut self, request: &mut Request) {
        if request.body().is_end_stream() {
            return;
        }
        let read = Arc::clone(&self.line().bytes_in);
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = Body::streaming(Counted { body, to: ReadBytes(read) });
    }

    /// Goes with a response until its last byte, or the last byte of what becomes of its connection.
    pub(crate) fn finish(mut self, mut response: Response) -> Response {
        self.line().status = Some(response.status().as_u16());
        if let Some(tunnel) = response.body_mut().take_tunnel() {
            *response.body_mut() = Body::tunnel(tunnel.with_watch(self));
            return response;
        }
        if response.body().is_end_stream() {
            return response;
        }
        response.map(|body| Body::streaming(Counted { body, to: self }))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(mut line) = self.line.take() {
            line.took = self.clock.now().since(self.began);
            if let Some((ids, spans)) = self.span.take() {
                spans.tell(line.span(ids));
            }
            if let Some(lines) = &self.lines {
                lines.send(line);
            }
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("line", &self.line).finish_non_exhaustive()
    }
}

impl TunnelWatch for Entry {
    fn ended(mut self: Box<Self>, traffic: Traffic, _: TunnelEnd) {
        let line = self.line();
        line.bytes_in.fetch_add(traffic.from_client, Ordering::Relaxed);
        line.bytes_out = traffic.to_client;
    }
}

/// A body whose bytes are counted.
struct Counted<C> {
    body: Body,
    to: C,
}

/// A counter of the bytes of a body.
trait Count: Unpin + Send {
    fn count(&mut self, bytes: u64);
}

struct ReadBytes(Arc<AtomicU64>);

impl Count for ReadBytes {
    fn count(&mut self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Count for Entry {
    fn count(&mut self, bytes: u64) {
        self.line().bytes_out += bytes;
    }
}

impl<C: Count> HttpBody for Counted<C> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            this.to.count(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

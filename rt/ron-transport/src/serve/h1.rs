//! One stretch of HTTP/1.1 on a connection: from its first byte until it closes or has been idle long enough to park.

use std::{borrow::Cow, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

use types::Moment;

use super::{
    HttpLimits,
    activity::Verdict,
    adapter::{self, ConnState},
    greeting::{LAST_ANSWER, LAST_LOOK, LAST_WORDS},
    one_by_one::OneByOne,
};
use crate::{framing::Flaw, service::Service, stream::HangUp, tunnel::Tunnel};

/// What the library may hold of a request and, again, of a response.
pub(super) const BUFFER: usize = 64 * 1024;

/// How a stretch ended; the stream comes back open.
pub(super) enum Ended<IO> {
    /// Idle; bytes that were read ahead come along.
    Parked(IO, Bytes),
    /// No longer HTTP: what the client sent ahead comes along, and what it is sent to.
    Switched(IO, Bytes, Tunnel),
    /// Over, in good order or because the client left.
    Done(IO),
    /// Over, because of what the client did or did not do.
    Failed(IO, Fault),
}

/// What a client did or did not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Part of a head, and no more.
    LateHead,
    /// A head that cannot be served; the client is told.
    BadHead(BadHead),
    Body,
    Write,
    /// A response taken at less than the minimum rate.
    WriteRate,
    /// Nothing that could be answered.
    Malformed,
    /// More than a client may send that belongs to no request, or carries nothing.
    Flood,
}

/// Why a head cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadHead {
    TooLarge,
    NotHttp,
    Flawed(Flaw),
}

impl BadHead {
    /// What it is answered with.
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::NotHttp | Self::Flawed(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// What exactly is wrong, for the person reading.
    pub(super) fn detail(self) -> Cow<'static, str> {
        match self {
            Self::TooLarge => "the request's head has more bytes or fields than it may have".into(),
            Self::NotHttp => "the request's head is not HTTP/1.1".into(),
            Self::Flawed(flaw) => flaw.to_string().into(),
        }
    }
}

/// Serves until the connection closes or parks.
pub(super) async fn serve<IO, S>(
    io: IO,
    ahead: Bytes,
    state: &Arc<ConnState<S>>,
    limits: &HttpLimits,
) -> Ended<IO>
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
    S: Service,
{
    let io = TokioIo::new(OneByOne::new(io, ahead, Arc::clone(&state.activity)));
    let shared = Arc::clone(state);
    let service = service_fn(move |request| adapter::answer(Arc::clone(&shared), request));
    let mut connection = builder(limits).serve_connection(io, service);
    let mut timer = pin!(tokio::time::sleep(limits.first_look()));
    let mut closing = pin!(state.shutdown.reached(state.roles.connection.stop));
    let mut told_to_close = false;
    let fault = loop {
        tokio::select! {
            biased;
            result = &mut connection => break bad_head(result).map(Fault::BadHead),
            () = &mut timer => match state.activity.judge(state.now()) {
                Verdict::Wait(_) | Verdict::Park if told_to_close => match state.closes_at() {
                    Some(at) if at <= state.now() => break None,
                    at => timer.as_mut().reset(state.look_at_drain(at)),
                },
                Verdict::Wait(until) => timer.as_mut().reset(Instant::now() + until.since(state.now())),
                Verdict::Park => {
                    let parts = connection.into_parts();
                    let (io, ahead) = parts.io.into_inner().into_parts(&parts.read_buf);
                    return Ended::Parked(io, ahead);
                }
                Verdict::IdleTooLong => break None,
                Verdict::HeadTooSlow => break Some(Fault::LateHead),
                Verdict::BodyTooSlow => break Some(Fault::Body),
                Verdict::WriteTooSlow => break Some(Fault::Write),
                Verdict::WriteBelowMinRate => break Some(Fault::WriteRate),
            },
            // The response to the next request says that the connection closes.
            () = &mut closing, if !told_to_close => {
                told_to_close = true;
                state.node_closes();
                timer.as_mut().reset(Instant::now() + LAST_LOOK);
            }
        }
    };
    let parts = connection.into_parts();
    let io = parts.io.into_inner();
    let flawed = || io.flawed_head().map(|flaw| Fault::BadHead(BadHead::Flawed(flaw)));
    let fault = fault.or_else(flawed);
    let (io, ahead) = io.into_parts(&parts.read_buf);
    match (fault, state.take_tunnel()) {
        (None, Some(tunnel)) => Ended::Switched(io, ahead, tunnel),
        (None, None) => Ended::Done(io),
        (Some(fault), _) => Ended::Failed(io, fault),
    }
}

/// When a connection that is to close at `at` is looked at again; without `at`, once its request may have ended.
fn next_look(now: Moment, at: Option<Moment>) -> Instant {
    Instant::now() + at.map_or(LAST_WORDS, |at| at.since(now)).min(LAST_WORDS)
}

impl<S: Service> ConnState<S> {
    /// Ends a request that has no answer yet if the drain is about to; says when to look again at a connection that closes `at`
    /// a moment, or once its request is answered.
    fn look_at_drain(&self, at: Option<Moment>) -> Instant {
        let now = self.now();
        let left = self.shutdown.ends_at().map(|ends| ends.since(now).saturating_sub(LAST_ANSWER));
        if left == Some(Duration::ZERO) {
            self.give_up();
        }
        let last_answer = left.filter(|left| !left.is_zero()).map(|left| now.after(left));
        next_look(now, at.into_iter().chain(last_answer).min())
    }

    /// When a connection closes because the node does; `None` while it has a request, or sends a response.
    fn closes_at(&self) -> Option<Moment> {
        let activity = &self.activity;
        if activity.is_busy() || activity.is_stalled() {
            return None;
        }
        // Part of a head is no request: a drain does not wait long for the rest.
        let head = activity.head_began().map_or(Moment::ORIGIN, |began| began.after(LAST_WORDS));
        Some(self.shutdown.idle_until(activity.last_use()).max(head))
    }
}

/// What the library found wrong with a head.
fn bad_head(result: hyper::Result<()>) -> Option<BadHead> {
    match result {
        Err(error) if error.is_parse_too_large() => Some(BadHead::TooLarge),
        Err(error) if error.is_parse() => Some(BadHead::NotHttp),
        _ => None,
    }
}

/// What the library allows without being told.
const LIBRARY_MAX_HEADERS: usize = 100;

fn builder(limits: &HttpLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .max_buf_size(BUFFER.max(limits.max_head_bytes))
        .max_header_size(limits.max_head_bytes)
        // A client that closes its side has gone: what was being done for it is dropped.
        .half_close(false)
        // Heads are timed by the connection's own timer.
        .header_read_timeout(None);
    // With its own default the library parses on the stack; with any other number it allocates for each request.
    if limits.max_headers != LIBRARY_MAX_HEADERS {
        builder.max_headers(limits.max_headers);
    }
    builder
}

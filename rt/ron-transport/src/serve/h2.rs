//! An HTTP/2 connection, from its preface until it closes.
//!
//! Floods are the peer's to pay for: streams opened and reset at once, header continuations without end and streams
//! beyond the limit end the connection (the library counts them; the limits are ours).

use std::{convert::Infallible, error::Error, future::poll_fn, pin::pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::{body::Incoming, rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ron_kernel::supervisor::Children;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use types::{Reason, Refusal};

use types::Moment;

use super::{
    Activity, HttpLimits,
    activity::{Protocol, Verdict},
    adapter::{self, ConnState, Served},
    greeting::LAST_WORDS,
    h1::Fault,
    metered::Metered,
};
use crate::{
    field_values,
    frame_guard::{Guarded, Turns},
    service::Service,
};

/// Flow-control window of a stream. The connection's is that times the streams, or one stalled upload would stop
/// all the others.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The largest window there is.
const MAX_WINDOW: u32 = (1 << 31) - 1;

/// What the library may hold of a response.
const SEND_BUFFER: usize = 64 * 1024;

/// Runs the library's tasks as counted children of ours.
#[derive(Clone)]
pub(super) struct Streams(pub(super) Children);

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.0.spawn(stream);
    }
}

/// How an HTTP/2 connection's bytes are judged. What a client may send without getting any request further is what its
/// windows allow, while the service is busy with something else, and as much again as a megabyte of control frames.
pub(super) fn protocol(limits: &HttpLimits) -> Protocol {
    let windows = u64::from(STREAM_WINDOW) * u64::from(limits.h2_streams);
    Protocol::Http2 { max_idle_bytes: windows + 1024 * 1024 }
}

/// Serves until the connection closes; `Some` if that was the client's fault. The stream stays open.
pub(super) async fn serve<IO, S>(
    io: &mut IO,
    ahead: Bytes,
    state: &Arc<ConnState<S>>,
    limits: &HttpLimits,
    streams: Streams,
) -> Option<Fault>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
    S: Service,
{
    let io = Metered::new(io, ahead, Arc::clone(&state.activity));
    let turns = Turns::default();
    let io = TokioIo::new(Guarded::of_client(io, turns.clone(), limits.max_head_bytes));
    let (shared, max_headers) = (Arc::clone(state), limits.max_headers);
    let service = service_fn(move |request| answer(Arc::clone(&shared), request, max_headers));
    let mut connection = pin!(builder(limits, streams).serve_connection(io, service));
    let mut timer = pin!(tokio::time::sleep(limits.first_look()));
    let mut aged = pin!(state.clock.sleep_until(state.last_request_at));
    let mut draining = pin!(state.shutdown.reached(state.roles.listener.stop));
    let mut closing = pin!(async {
        state.shutdown.reached(state.roles.connection.stop).await;
        // The client may not have read the GOAWAY when it asks for the next time.
        state.clock.sleep_until(state.shutdown.idle_until(state.activity.last_use())).await;
    });
    let (mut told_to_close, mut last_words) = (false, None::<LastWords>);
    loop {
        let verdict = tokio::select! {
            biased;
            result = poll_fn(|cx| {
                turns.begin();
                connection.as_mut().poll(cx)
            }) => return fault_of(result, state, &turns),
            () = &mut timer => state.activity.judge(state.now()),
            // A GOAWAY: streams in progress finish, new ones go elsewhere.
            () = &mut draining, if !told_to_close => {
                told_to_close = true;
                state.node_closes();
                connection.as_mut().graceful_shutdown();
                continue;
            }
            () = &mut aged, if !told_to_close && state.last_request_at != Moment::END => {
                told_to_close = true;
                connection.as_mut().graceful_shutdown();
                continue;
            }
            () = &mut closing, if last_words.is_none() => {
                last_words = Some(LastWords::begin(&state.activity));
                timer.as_mut().reset(Instant::now() + LAST_WORDS);
                continue;
            }
        };
        if last_words.as_mut().is_some_and(|words| words.are_spoken(&state.activity)) {
            return None;
        }
        match verdict {
            Verdict::Wait(_) if last_words.is_some() => timer.as_mut().reset(Instant::now() + LAST_WORDS),
            Verdict::Wait(until) => timer.as_mut().reset(Instant::now() + until.since(state.now())),
            Verdict::IdleTooLong if told_to_close => return None,
            Verdict::IdleTooLong | Verdict::Park => {
                told_to_close = true;
                connection.as_mut().graceful_shutdown();
                timer.as_mut().reset(Instant::now() + limits.write_timeout);
            }
            Verdict::HeadTooSlow | Verdict::BodyTooSlow => return Some(Fault::Body),
            Verdict::WriteTooSlow => return Some(Fault::Write),
            Verdict::WriteBelowMinRate => return Some(Fault::WriteRate),
        }
    }
}

/// Answers one request, if its head can be served.
async fn answer<S: Service>(
    state: Arc<ConnState<S>>,
    request: http::Request<Incoming>,
    max_headers: usize,
) -> Result<http::Response<Served>, Infallible> {
    match check_head(request.headers(), max_headers) {
        Ok(()) => adapter::answer(state, request).await,
        Err((status, detail)) => {
            Ok(adapter::refuse_head(&state, status, Refusal::new(Reason::Malformed, detail)))
        }
    }
}

/// What the library does not check: the number of fields, and blanks around their values (RFC 9113 8.2.1), which HTTP/1.1
/// servers would cut off.
fn check_head(headers: &HeaderMap, max_headers: usize) -> Result<(), (StatusCode, &'static str)> {
    if headers.len() > max_headers {
        return Err((
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the request's head has more fields than it may have",
        ));
    }
    if field_values::have_blanks(headers) {
        return Err((StatusCode::BAD_REQUEST, "a field's value begins or ends with a blank"));
    }
    Ok(())
}

/// How a connection without requests ends when the node closes: the library waits for the client to confirm the
/// GOAWAY, which one that is not there never does; but it may also still hold the last of a response.
struct LastWords {
    looks: u8,
    writes: u32,
}

impl LastWords {
    /// How often a client that still takes something is looked at again.
    const LOOKS: u8 = 4;

    fn begin(activity: &Activity) -> Self {
        Self { looks: 0, writes: activity.writes() }
    }

    /// Whether nothing more is to be expected.
    fn are_spoken(&mut self, activity: &Activity) -> bool {
        if activity.is_busy() {
            return false;
        }
        self.looks += 1;
        let before = std::mem::replace(&mut self.writes, activity.writes());
        self.looks > Self::LOOKS || (before == self.writes && !activity.is_stalled())
    }
}

/// Whether the connection ended because the client broke the protocol.
fn fault_of<S: Service>(result: hyper::Result<()>, state: &ConnState<S>, turns: &Turns) -> Option<Fault> {
    let error = result.err()?;
    if turns.were_flooded() || state.activity.was_flooded() {
        return Some(Fault::Flood);
    }
    let cause = error.source().and_then(|cause| cause.downcast_ref::<::h2::Error>());
    let broke_protocol = turns.were_refused() || cause.is_some_and(::h2::Error::is_library);
    broke_protocol.then_some(Fault::Malformed)
}

fn builder(limits: &HttpLimits, streams: Streams) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.h2_streams)
        .max_pending_accept_reset_streams(limits.h2_pending_resets)
        .max_header_list_size(u32::try_from(limits.max_head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW.saturating_mul(limits.h2_streams).min(MAX_WINDOW))
        .max_send_buf_size(SEND_BUFFER)
        // A peer that vanished without a word is found before the idle timeout.
        .keep_alive_interval(limits.idle_timeout / 2)
        .keep_alive_timeout(limits.write_timeout);
    builder
}

//! An HTTP/2 connection, from its preface until it closes.
//!
//! Floods are the peer's to pay for: streams opened and reset at once, header continuations without end and streams
//! beyond the limit end the connection (the library counts them; the limits are ours).

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use hyper::{rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ron_kernel::supervisor::Children;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

use super::{
    HttpLimits,
    activity::Verdict,
    adapter::{self, ConnState},
    h1::Fault,
    metered::Metered,
};
use crate::service::Service;

/// Flow-control window of a stream. The connection's is that times the streams, or one stalled upload would stop
/// all the others.
const STREAM_WINDOW: u32 = 64 * 1024;

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

/// Serves until the connection closes; `Some` if that was the client's fault.
pub(super) async fn serve<IO, S>(
    io: IO,
    ahead: Bytes,
    state: &Arc<ConnState<S>>,
    limits: &HttpLimits,
    streams: Streams,
) -> Option<Fault>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let io = TokioIo::new(Metered::new(io, ahead, Arc::clone(&state.activity)));
    let shared = Arc::clone(state);
    let service = service_fn(move |request| adapter::answer(Arc::clone(&shared), request));
    let mut connection = pin!(builder(limits, streams).serve_connection(io, service));
    let mut timer = pin!(tokio::time::sleep(limits.park_after));
    let mut draining = pin!(state.shutdown.reached(state.roles.listener.stop));
    let mut told_to_close = false;
    loop {
        let verdict = tokio::select! {
            biased;
            result = &mut connection => return result.is_err_and(|e| e.is_parse()).then_some(Fault::Malformed),
            () = &mut timer => state.activity.judge(state.now(), limits),
            // A GOAWAY: streams under way finish, new ones go elsewhere.
            () = &mut draining, if !told_to_close => {
                told_to_close = true;
                connection.as_mut().graceful_shutdown();
                continue;
            }
        };
        match verdict {
            Verdict::Wait(until) => timer.as_mut().reset(Instant::now() + until.since(state.now())),
            Verdict::Park => timer.as_mut().reset(Instant::now() + limits.park_after),
            Verdict::IdleTooLong if told_to_close => return None,
            Verdict::IdleTooLong => {
                told_to_close = true;
                connection.as_mut().graceful_shutdown();
                timer.as_mut().reset(Instant::now() + limits.write_timeout);
            }
            Verdict::HeadTooSlow => return Some(Fault::Head),
            Verdict::BodyTooSlow => return Some(Fault::Body),
            Verdict::WriteTooSlow => return Some(Fault::Write),
        }
    }
}

fn builder(limits: &HttpLimits, streams: Streams) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.h2_streams)
        .max_pending_accept_reset_streams(limits.h2_pending_resets)
        .max_header_list_size(u32::try_from(limits.max_head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW.saturating_mul(limits.h2_streams))
        // A peer that vanished without a word is found before the idle timeout.
        .keep_alive_interval(limits.idle_timeout / 2)
        .keep_alive_timeout(limits.write_timeout);
    builder
}

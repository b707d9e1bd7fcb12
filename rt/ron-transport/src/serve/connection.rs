//! The life of a connection: handshake, first bytes, stretches of HTTP with idle waits between, a clean end.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use ron_kernel::{Clock, planes::Seat};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::Notify,
};
use types::{Moment, Reason, Refusal};

use super::{
    Activity, HttpLimits,
    activity::Protocol,
    adapter::ConnState,
    close::{close, close_on_nonsense},
    greeting::{Spoken, Waited, protocol, wait},
    h1::{self, Ended, Fault},
    h2,
    server::Shared,
};
use crate::{
    caps::ConnPermit,
    problem,
    proxy_protocol::{self, ProxyError},
    rewound::Rewound,
    service::{Conn, ConnInfo, Service, TlsInfo},
    stream::{HangUp, Peer, RawStream, Stream},
    tls::{HandshakeError, ServerTls, TlsStream, certificate::ClientCertificate},
    tunnel::{Tunnel, TunnelEnd},
};

/// A connection that has been accepted and given a seat.
pub(super) struct Accepted {
    pub(super) stream: RawStream,
    pub(super) peer: Peer,
    /// Whether a PROXY header is to tell who the client is.
    pub(super) proxied: bool,
    pub(super) permit: ConnPermit,
    /// Tells that the connection is to end: a newcomer has its place, or its service cuts it off.
    pub(super) given_away: Arc<Notify>,
    /// Whether its place is a spare one.
    pub(super) spare: bool,
    pub(super) seat: Seat,
}

/// What ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Itself: the client left, was done, or was refused.
    Own,
    /// The node, which stops.
    NodeStops,
}

/// Serves one connection to its end.
///
/// The rare and the large parts are boxed: a task is as big as the biggest thing it ever awaits in place, and there
/// are as many tasks as idle connections.
pub(super) async fn run<S: Service>(server: Arc<Shared<S>>, accepted: Accepted) {
    let Accepted { stream, peer, proxied, mut permit, given_away, spare, seat } = accepted;
    let limits = server.limits.load_full();
    let Ok(mut stream) = stream.register() else {
        return;
    };
    let core = seat.core().index();
    let mut info = ConnInfo::new(peer, core);
    let mut ahead = Bytes::new();
    if proxied {
        let named = Box::pin(named_client(&server, &mut stream, &peer, &limits)).await;
        let (client, rest) = match named {
            Ok(named) => named,
            Err(end) => return server.count_end(end),
        };
        (info, ahead) = (ConnInfo::new(client, core), rest);
        if let Err(cap) = permit.rekey(server.account_of(&client)) {
            return server.count_refused(&cap);
        }
    }
    info.spare = spare;
    info.end = Some(Arc::clone(&given_away));
    let served = async {
        match server.tls.load_full() {
            None => serve(&server, stream, ahead, info, false, limits, &mut permit).await,
            Some(tls) => {
                Box::pin(run_tls(&server, &tls, Rewound { ahead, stream }, info, limits, &mut permit)).await
            }
        }
    };
    tokio::select! {
        biased;
        end = served => server.count_end(end),
        () = given_away.notified() => server.count_evicted(),
    }
    drop((permit, seat));
}

/// Whom a trusted proxy speaks for, and what it sent after saying so.
async fn named_client<S: Service>(
    server: &Shared<S>,
    stream: &mut Stream,
    peer: &Peer,
    limits: &HttpLimits,
) -> Result<(Peer, Bytes), End> {
    let header = proxy_protocol::read_header(stream, limits.handshake_timeout);
    match server.unless_closing(header).await.ok_or(End::NodeStops)? {
        Ok((header, rest)) => Ok((header.client().map_or(*peer, Peer::tcp), rest)),
        Err(error) => {
            if matches!(error, ProxyError::Timeout) {
                server.count_timeout("handshake");
            }
            tracing::debug!(%peer, %error, "no PROXY header");
            Err(End::Own)
        }
    }
}

/// Goes on over TLS.
async fn run_tls<S: Service>(
    server: &Shared<S>,
    tls: &ServerTls,
    stream: Rewound<Stream>,
    mut info: ConnInfo,
    limits: Arc<HttpLimits>,
    permit: &mut ConnPermit,
) -> End {
    let handshake = tls.accept(stream, limits.handshake_timeout);
    match server.unless_closing(handshake).await {
        Some(Ok(stream)) => {
            let h2 = stream.alpn() == Some(b"h2");
            info.tls = Some(tls_info(&stream));
            return serve(server, stream, Bytes::new(), info, h2, limits, permit).await;
        }
        Some(Err(HandshakeError::Timeout { .. })) => server.count_timeout("handshake"),
        Some(Err(error)) => tracing::debug!(peer = %info.peer, %error, "TLS handshake failed"),
        None => return End::NodeStops,
    }
    End::Own
}

fn tls_info<IO>(stream: &TlsStream<IO>) -> TlsInfo {
    TlsInfo {
        server_name: stream.server_name().map(str::to_owned),
        client: stream.peer_certificates().first().and_then(ClientCertificate::of),
    }
}

/// Serves HTTP on a stream whose handshakes are done. Kept small: it is all that a parked connection holds.
async fn serve<IO, S>(
    server: &Shared<S>,
    mut io: IO,
    mut ahead: Bytes,
    info: ConnInfo,
    agreed_h2: bool,
    limits: Arc<HttpLimits>,
    permit: &mut ConnPermit,
) -> End
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
    S: Service,
{
    let conn = Arc::new(Conn::new(info));
    let last_request_at = limits.last_request_at(server.scope.clock().now(), fastrand::u64(..));
    // A client that connects and says nothing gets as long as a head may take; later waits are idle ones.
    let (mut fresh, mut patience) = (true, limits.read_timeout);
    loop {
        if ahead.is_empty() {
            let parked = (!fresh).then(|| permit.park());
            match wait(server, &mut io, patience, parked).await {
                Waited::Bytes(bytes) => ahead = bytes,
                Waited::Gone => return Box::pin(finish(io, true, End::Own)).await,
                Waited::Closing => return Box::pin(finish(io, false, End::NodeStops)).await,
                Waited::Evicted => {
                    server.count_evicted();
                    return Box::pin(finish(io, false, End::Own)).await;
                }
                Waited::Late => {
                    if fresh {
                        server.count_timeout("read");
                    }
                    return Box::pin(finish(io, false, End::Own)).await;
                }
            }
        }
        match Box::pin(protocol(server, &mut io, &mut ahead, limits.read_timeout)).await {
            Spoken::Http2 => {
                return Box::pin(serve_h2(server, io, ahead, &conn, &limits, last_request_at)).await;
            }
            Spoken::Http1 if !agreed_h2 => {}
            Spoken::Http1 => return Box::pin(fail(server, io, &conn, Fault::Malformed)).await,
            Spoken::Late => return Box::pin(fail(server, io, &conn, Fault::LateHead)).await,
            Spoken::Closing => return Box::pin(finish(io, false, End::NodeStops)).await,
        }
        let state = server.state(&conn, Protocol::Http1, &limits, last_request_at);
        let ended = Box::pin(h1::serve(io, ahead, &state, &limits)).await;
        (io, ahead) = match ended {
            Ended::Parked(io, ahead) => (io, ahead),
            Ended::Switched(io, ahead, tunnel) => return Box::pin(relay(server, io, ahead, tunnel)).await,
            Ended::Done(io) => return Box::pin(finish_served(io, &state)).await,
            Ended::Failed(io, fault) => return Box::pin(fail(server, io, &conn, fault)).await,
        };
        (fresh, patience) = (false, limits.idle_timeout.saturating_sub(limits.park_after));
    }
}

async fn serve_h2<IO, S>(
    server: &Shared<S>,
    mut io: IO,
    ahead: Bytes,
    conn: &Arc<Conn<S::PerConn>>,
    limits: &Arc<HttpLimits>,
    last_request_at: Moment,
) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
    S: Service,
{
    let state = server.state(conn, h2::protocol(limits), limits, last_request_at);
    let streams = h2::Streams(server.streams.clone());
    match h2::serve(&mut io, ahead, &state, limits, streams).await {
        None => finish_served(io, &state).await,
        Some(fault) => fail(server, io, conn, fault).await,
    }
}

/// Goes on with a connection that no longer speaks HTTP.
async fn relay<IO, S>(server: &Shared<S>, io: IO, ahead: Bytes, tunnel: Tunnel) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    let mut client = Rewound { ahead, stream: io };
    let closing = server.shutdown().reached(server.roles.connection.stop);
    let end = tunnel.relay(&mut client, closing).await;
    let by_node = if end == TunnelEnd::NodeStops { End::NodeStops } else { End::Own };
    finish(client.stream, end == TunnelEnd::Closed, by_node).await
}

/// Closes a connection in good order, and passes on what ended it.
async fn finish<IO>(io: IO, client_has_ended: bool, end: End) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    close(io, client_has_ended).await;
    end
}

/// The same once requests were served.
async fn finish_served<IO, S>(io: IO, state: &ConnState<S>) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    let end = if state.closed_by_node.load(Ordering::Relaxed) { End::NodeStops } else { End::Own };
    let end = finish(io, state.activity.has_ended(), end).await;
    if state.has_given_up() {
        // What was given up was not drained: it is aborted with the rest, and counts so.
        std::future::pending::<()>().await;
    }
    end
}

/// Ends a connection whose client was too slow or spoke nonsense.
async fn fail<IO, S>(server: &Shared<S>, mut io: IO, conn: &Conn<S::PerConn>, fault: Fault) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    server.count_fault(fault);
    match fault {
        Fault::LateHead => {
            let late = Refusal::new(Reason::RequestTimeout, "the request's head was not complete");
            say(&mut io, &problem::last_answer(StatusCode::REQUEST_TIMEOUT, &late)).await;
            close(io, false).await;
        }
        Fault::BadHead(head) => {
            let refusal = server.refuse_head(conn, head.detail());
            let is_told = refusal.reason == Reason::Malformed;
            let status = if is_told { head.status() } else { problem::status_of(&refusal) };
            say(&mut io, &problem::last_answer(status, &refusal)).await;
            close_on_nonsense(io).await;
        }
        Fault::Malformed => {
            server.refuse_head(conn, "nothing that could be answered".into());
            close_on_nonsense(io).await;
        }
        Fault::Flood => {
            server.refuse_head(conn, "more than may come without a request".into());
            // It is reset: reading on would be more of the same.
            server.services[conn.core].flooded(conn);
        }
        // A client that does not take its response will not take an end either.
        Fault::Body | Fault::Response | Fault::Write | Fault::WriteRate => {}
    }
    End::Own
}

/// Says the last that is said on a connection, if the client takes it at once: it may still be sending.
async fn say<IO: AsyncWrite + Unpin>(io: &mut IO, answer: &str) {
    let said = io.write_all(answer.as_bytes());
    let _ = tokio::time::timeout(Duration::from_millis(100), said).await;
}

impl<S: Service> Shared<S> {
    fn state(
        &self,
        conn: &Arc<Conn<S::PerConn>>,
        protocol: Protocol,
        limits: &Arc<HttpLimits>,
        last_request_at: Moment,
    ) -> Arc<ConnState<S>> {
        let (clock, metrics) = (self.scope.clock(), self.scope.metrics().clone());
        let activity = Activity::new(clock, protocol, self.work.clone(), Arc::clone(limits), metrics);
        Arc::new(ConnState {
            service: Arc::clone(&self.services[conn.core]),
            conn: Arc::clone(conn),
            activity: Arc::new(activity),
            last_request_at,
            shutdown: self.shutdown().clone(),
            metrics: self.scope.metrics().clone(),
            clock: self.scope.clock(),
            roles: self.roles,
            closed_by_node: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        })
    }

    /// Counts a connection that ends only because the node stops.
    fn count_end(&self, end: End) {
        if end == End::NodeStops {
            self.connections.count_canceled();
        }
    }

    fn count_fault(&self, fault: Fault) {
        match fault {
            // Counted by what its client is told.
            Fault::Malformed | Fault::Flood | Fault::BadHead(_) | Fault::Response => {}
            Fault::LateHead => {
                self.scope.metrics().rejected(Reason::RequestTimeout).inc();
                self.count_timeout("read");
            }
            Fault::Body => self.count_timeout("read"),
            Fault::Write => self.count_timeout("write"),
            Fault::WriteRate => self.count_timeout("write_rate"),
        }
    }

    /// What a client is told of a head that is malformed; counted.
    fn refuse_head(&self, conn: &Conn<S::PerConn>, detail: Cow<'static, str>) -> Refusal {
        let refusal = Refusal::new(Reason::Malformed, detail);
        let refusal = self.services[conn.core].refuse_head(conn, refusal);
        self.scope.metrics().rejected(refusal.reason).inc();
        refusal
    }

    /// Counts an idle connection that ends to make room for another client.
    pub(super) fn count_evicted(&self) {
        self.scope.metrics().connections_evicted(self.scope.service()).inc();
    }

    fn count_timeout(&self, op: &'static str) {
        self.scope.metrics().io_timeouts(op).inc();
    }
}

impl<S: Service> ConnState<S> {
    pub(super) fn now(&self) -> Moment {
        Clock::now(&self.clock)
    }
}

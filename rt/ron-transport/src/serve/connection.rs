//! The life of a connection: handshake, first bytes, stretches of HTTP with idle waits between, a clean end.

use std::{
    borrow::Cow,
    pin::Pin,
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
    greeting::{NoRequest, Spoken, Waited, protocol, wait},
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

/// The event that ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Itself: the client left, was done, or was refused.
    Own,
    /// The node, which stops.
    NodeStops,
}

/// Serves one connection to its end.
///
/// A task is as big as the biggest thing it ever awaits in place, and there are as many tasks as idle connections. So the
/// rare and the large parts are boxed, and here and in what it awaits in place arguments are captured instead of passed: the
/// arguments of an `async fn` that live across an await are stored twice.
pub(super) fn run<S: Service>(
    server: Arc<Shared<S>>,
    accepted: Accepted,
) -> impl Future<Output = ()> + Send + 'static {
    let Accepted { stream, peer, proxied, mut permit, given_away, spare, seat } = accepted;
    async move {
        let served = async {
            let Ok(stream) = stream.register() else { return End::Own };
            let limits = server.limits.load_full();
            let tls = server.tls.load_full();
            let described = |peer| {
                let mut info = ConnInfo::new(peer, seat.core().index());
                (info.spare, info.end) = (spare, Some(Arc::clone(&given_away)));
                info
            };
            if !proxied && tls.is_none() {
                let conn = Arc::new(Conn::new(described(peer)));
                return serve(&server, stream, Bytes::new(), conn, false, limits, &mut permit).await;
            }
            let greeted = Greeted { stream, peer, proxied, tls, limits };
            Box::pin(serve_greeted(&server, greeted, described, &mut permit)).await
        };
        tokio::select! {
            biased;
            end = served => server.count_end(end),
            () = given_away.notified() => server.count_evicted(),
        }
        drop((permit, seat));
    }
}

/// A connection on which a PROXY header, a TLS handshake or both come before HTTP.
struct Greeted {
    stream: Stream,
    peer: Peer,
    proxied: bool,
    tls: Option<Arc<ServerTls>>,
    limits: Arc<HttpLimits>,
}

/// Serves a connection after what comes before HTTP.
async fn serve_greeted<S: Service>(
    server: &Shared<S>,
    greeted: Greeted,
    described: impl Fn(Peer) -> ConnInfo,
    permit: &mut ConnPermit,
) -> End {
    let Greeted { mut stream, mut peer, proxied, tls, limits } = greeted;
    let mut ahead = Bytes::new();
    if proxied {
        match named_client(server, &mut stream, &peer, &limits).await {
            Ok(named) => (peer, ahead) = named,
            Err(end) => return end,
        }
        if let Err(cap) = permit.rekey(server.account_of(&peer)) {
            server.count_refused(&cap);
            return End::Own;
        }
        // Who came was not known when the connection was accepted.
        if server.turns_away(&peer) {
            return End::Own;
        }
    }
    let info = described(peer);
    match tls {
        None => serve(server, stream, ahead, Arc::new(Conn::new(info)), false, limits, permit).await,
        Some(tls) => run_tls(server, &tls, Rewound { ahead, stream }, info, limits, permit).await,
    }
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
            let conn = Arc::new(Conn::new(info));
            return serve(server, stream, Bytes::new(), conn, h2, limits, permit).await;
        }
        Some(Err(HandshakeError::Timeout { .. })) => server.count_timeout("handshake"),
        Some(Err(HandshakeError::Challenge)) => {
            tracing::debug!(peer = %info.peer, "an authority had its challenge answered");
        }
        Some(Err(error)) => tracing::debug!(peer = %info.peer, %error, "TLS handshake failed"),
        None => return End::NodeStops,
    }
    server.services[info.core].wasted_connection(&info);
    End::Own
}

fn tls_info<IO>(stream: &TlsStream<IO>) -> TlsInfo {
    TlsInfo {
        version: stream.version(),
        server_name: stream.server_name().map(str::to_owned),
        client: stream.peer_certificates().first().and_then(ClientCertificate::of),
    }
}

/// Serves HTTP on a stream whose handshakes are done, and counts a client that asks for nothing. Kept small: it is all that a parked connection holds.
fn serve<'a, IO, S>(
    server: &'a Shared<S>,
    mut io: IO,
    mut ahead: Bytes,
    conn: Arc<Conn<S::PerConn>>,
    agreed_h2: bool,
    limits: Arc<HttpLimits>,
    permit: &'a mut ConnPermit,
) -> impl Future<Output = End> + Send + 'a
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
    S: Service,
{
    let last_request_at = limits.last_request_at(server.scope.clock().now(), fastrand::u64(..));
    // A client that connects and says nothing gets as long as a head may take; later waits are idle ones.
    let mut fresh = true;
    async move {
        let last: Pin<Box<dyn Future<Output = End> + Send + 'a>> = loop {
            if ahead.is_empty() {
                let parked = (!fresh).then(|| permit.park());
                let idle = limits.idle_timeout.saturating_sub(limits.park_after);
                let patience = if fresh { limits.read_timeout } else { idle };
                match wait(server, &mut io, patience, parked).await {
                    Waited::Bytes(bytes) => ahead = bytes,
                    Waited::Nothing(why) => break Box::pin(leave(server, io, why, fresh)),
                }
            }
            match Box::pin(protocol(server, &mut io, &mut ahead, limits.read_timeout)).await {
                Spoken::Http1 if !agreed_h2 => {}
                Spoken::Http1 => break Box::pin(fail(server, io, Arc::clone(&conn), Fault::Malformed)),
                Spoken::Http2 => {
                    break Box::pin(serve_h2(server, io, ahead, Arc::clone(&conn), limits, last_request_at));
                }
                Spoken::Late => break Box::pin(fail(server, io, Arc::clone(&conn), Fault::LateHead)),
                Spoken::Closing => break Box::pin(finish(io, false, End::NodeStops)),
            }
            let state = server.state(&conn, Protocol::Http1, &limits, last_request_at);
            match Box::pin(h1::serve(io, ahead, &state, &limits)).await {
                Ended::Parked(stream, bytes) => (io, ahead) = (stream, bytes),
                Ended::Switched(io, ahead, tunnel) => break Box::pin(relay(server, io, ahead, tunnel)),
                Ended::Done(io) => break Box::pin(finish_served(io, state)),
                Ended::Failed(io, fault) => break Box::pin(fail(server, io, Arc::clone(&conn), fault)),
            }
            server.services[conn.core].parks(&conn);
            fresh = false;
        };
        let end = last.await;
        if end == End::Own && !conn.has_asked() {
            server.services[conn.core].wasted_connection(&conn);
        }
        end
    }
}

/// Ends a connection on which no request came.
async fn leave<IO, S>(server: &Shared<S>, io: IO, why: NoRequest, fresh: bool) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    match why {
        NoRequest::Late if fresh => server.count_timeout("read"),
        NoRequest::Evicted => server.count_evicted(),
        NoRequest::Late | NoRequest::Gone | NoRequest::Closing => {}
    }
    let end = if why == NoRequest::Closing { End::NodeStops } else { End::Own };
    finish(io, why == NoRequest::Gone, end).await
}

async fn serve_h2<IO, S>(
    server: &Shared<S>,
    mut io: IO,
    ahead: Bytes,
    conn: Arc<Conn<S::PerConn>>,
    limits: Arc<HttpLimits>,
    last_request_at: Moment,
) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
    S: Service,
{
    let state = server.state(&conn, h2::protocol(&limits), &limits, last_request_at);
    let streams = h2::Streams(server.streams.clone());
    match h2::serve(&mut io, ahead, &state, &limits, streams).await {
        None => finish_served(io, state).await,
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
async fn finish_served<IO, S>(io: IO, state: Arc<ConnState<S>>) -> End
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
async fn fail<IO, S>(server: &Shared<S>, mut io: IO, conn: Arc<Conn<S::PerConn>>, fault: Fault) -> End
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
            let refusal = server.refuse_head(&conn, head.detail());
            let is_told = refusal.reason == Reason::Malformed;
            let status = if is_told { head.status() } else { problem::status_of(&refusal) };
            say(&mut io, &problem::last_answer(status, &refusal)).await;
            close_on_nonsense(io).await;
        }
        Fault::Malformed => {
            server.refuse_head(&conn, "nothing that could be answered".into());
            close_on_nonsense(io).await;
        }
        Fault::Flood => {
            server.refuse_head(&conn, "more than may come without a request".into());
            // It is reset: reading on would be more of the same.
            server.services[conn.core].flooded(&conn);
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
        let (work, limits) = (self.work.clone(), Arc::clone(limits));
        let activity = Activity::new(clock, protocol, work, limits, metrics, fastrand::u8(..));
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
        conn.asks();
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Service for Nothing {
        type PerConn = ();

        async fn call(&self, _: &Arc<Conn<()>>, _: crate::Request) -> Result<crate::Response, Refusal> {
            Err(Refusal::new(Reason::NotFound, "nothing is served"))
        }
    }

    fn size_of_future<F>(_: impl Fn(Arc<Shared<Nothing>>, Accepted) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_task_of_a_connection_is_small() {
        let size = size_of_future(run::<Nothing>);
        assert!(size <= 900, "{size} bytes for each idle connection");
    }
}

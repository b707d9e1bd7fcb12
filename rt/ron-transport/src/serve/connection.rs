//! The life of a connection: handshake, first bytes, stretches of HTTP with idle waits between, a clean end.

use std::{io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use ron_kernel::{Clock, planes::Seat};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use types::{Moment, Reason};

use super::{
    Activity, HttpLimits,
    adapter::ConnState,
    close::close,
    h1::{self, Ended, Fault},
    h2,
    server::Shared,
};
use crate::{
    caps::{ClientKey, ConnPermit},
    proxy_protocol,
    service::{ConnInfo, Service, TlsInfo},
    stream::{Peer, RawStream, Stream},
    tls::{HandshakeError, TlsStream},
};

/// What an HTTP/2 client says first.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The answer to a head that does not arrive. The client may still be sending it, so it is all we say.
const LATE_HEAD: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A connection that has been accepted and given a seat.
pub(super) struct Accepted {
    pub(super) stream: RawStream,
    pub(super) peer: Peer,
    pub(super) permit: ConnPermit,
    pub(super) seat: Seat,
}

/// Serves one connection to its end.
pub(super) async fn run<S: Service>(server: Arc<Shared<S>>, accepted: Accepted) {
    let Accepted {
        stream,
        mut peer,
        mut permit,
        seat,
    } = accepted;
    let limits = server.limits.load_full();
    let Ok(mut stream) = stream.register() else {
        return;
    };
    let mut ahead = Bytes::new();
    if server.proxy_protocol.load().trusts(&peer) {
        match proxy_protocol::read_header(&mut stream, limits.handshake_timeout).await {
            Ok((header, rest)) => {
                ahead = rest;
                peer = header.client().map_or(peer, Peer::tcp);
            }
            Err(error) => return tracing::debug!(%peer, %error, "no PROXY header"),
        }
        if permit.rekey(ClientKey::of(&peer)).is_err() {
            return server.count_refused("per_client");
        }
    }
    let core = seat.core().index();
    let tls = server.tls.load_full();
    match tls {
        None => {
            serve(
                server,
                stream,
                ahead,
                ConnInfo {
                    peer,
                    core,
                    tls: None,
                },
                false,
                &limits,
            )
            .await;
        }
        Some(tls) => match tls
            .accept(Rewound { ahead, stream }, limits.handshake_timeout)
            .await
        {
            Ok(stream) => {
                let h2 = stream.alpn() == Some(b"h2");
                let info = ConnInfo {
                    peer,
                    core,
                    tls: Some(tls_info(&stream)),
                };
                serve(server, stream, Bytes::new(), info, h2, &limits).await;
            }
            Err(HandshakeError::Timeout { .. }) => server.count_timeout("handshake"),
            Err(error) => tracing::debug!(%peer, %error, "TLS handshake failed"),
        },
    }
    drop((permit, seat));
}

fn tls_info<IO>(stream: &TlsStream<IO>) -> TlsInfo {
    TlsInfo {
        server_name: stream.server_name().map(str::to_owned),
        client_verified: stream.has_peer_certificate(),
    }
}

/// Serves HTTP on a stream whose handshakes are done. Kept small: it is all that a parked connection holds.
async fn serve<IO, S>(
    server: Arc<Shared<S>>,
    mut io: IO,
    mut ahead: Bytes,
    info: ConnInfo,
    mut h2: bool,
    limits: &Arc<HttpLimits>,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let info = Arc::new(info);
    // A client that connects and says nothing gets as long as a head may take; later waits are idle ones.
    let mut patience = limits.read_timeout;
    loop {
        if ahead.is_empty() && !h2 {
            match wait(&server, &mut io, patience).await {
                Waited::Bytes(bytes) => ahead = bytes,
                Waited::Gone => return close(io, true).await,
                Waited::Over => return close(io, false).await,
            }
        }
        h2 = h2 || is_h2(&mut io, &mut ahead, limits.read_timeout).await;
        let state = server.state(&info);
        if h2 {
            let streams = h2::Streams(server.streams.clone());
            let fault = Box::pin(h2::serve(io, ahead, &state, limits, streams)).await;
            return server.count_fault(fault);
        }
        let ended = Box::pin(h1::serve(io, ahead, &state, limits)).await;
        (io, ahead) = match ended {
            Ended::Parked(io, ahead) => (io, ahead),
            Ended::Done(io) => return close(io, state.activity.has_ended()).await,
            Ended::Failed(io, fault) => return fail(&server, io, fault).await,
        };
        patience = limits.idle_timeout.saturating_sub(limits.park_after);
    }
}

enum Waited {
    Bytes(Bytes),
    Gone,
    Over,
}

/// Waits for the first bytes of a request, holding nothing but the socket.
async fn wait<IO, S>(server: &Shared<S>, io: &mut IO, patience: Duration) -> Waited
where
    IO: AsyncRead + Unpin,
    S: Service,
{
    let mut first = [0; H2_PREFACE.len()];
    tokio::select! {
        biased;
        read = io.read(&mut first) => match read {
            Ok(0) | Err(_) => Waited::Gone,
            Ok(n) => Waited::Bytes(Bytes::copy_from_slice(&first[..n])),
        },
        () = server.shutdown().reached(server.roles.connection.stop) => Waited::Over,
        () = tokio::time::sleep(patience) => Waited::Over,
    }
}

/// Whether the client speaks HTTP/2 without asking; reads on while what it said so far could still become that.
async fn is_h2<IO: AsyncRead + Unpin>(io: &mut IO, ahead: &mut Bytes, patience: Duration) -> bool {
    let could_be = |said: &[u8]| said.len() < H2_PREFACE.len() && H2_PREFACE.starts_with(said);
    if could_be(ahead) {
        let mut said = BytesMut::from(&ahead[..]);
        let more = async { while could_be(&said) && io.read_buf(&mut said).await.is_ok_and(|n| n > 0) {} };
        let _ = tokio::time::timeout(patience, more).await;
        *ahead = said.freeze();
    }
    ahead.starts_with(H2_PREFACE)
}

/// Ends a connection whose client was too slow or spoke nonsense.
async fn fail<IO, S>(server: &Shared<S>, mut io: IO, fault: Fault)
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    server.count_fault(Some(fault));
    match fault {
        Fault::Head => {
            let _ = tokio::time::timeout(Duration::from_millis(100), io.write_all(LATE_HEAD)).await;
            close(io, false).await;
        }
        Fault::Malformed => close(io, false).await,
        // A client that does not take its response will not take an end either.
        Fault::Body | Fault::Write => {}
    }
}

impl<S: Service> Shared<S> {
    fn state(&self, info: &Arc<ConnInfo>) -> Arc<ConnState<S>> {
        Arc::new(ConnState {
            service: Arc::clone(&self.services[info.core]),
            info: Arc::clone(info),
            activity: Arc::new(Activity::new(self.scope.clock())),
            work: self.work.clone(),
            shutdown: self.shutdown().clone(),
            metrics: self.scope.metrics().clone(),
            clock: self.scope.clock(),
            roles: self.roles,
        })
    }

    fn count_fault(&self, fault: Option<Fault>) {
        match fault {
            None => {}
            Some(Fault::Malformed) => {
                self.scope.metrics().rejected(Reason::Malformed).inc();
            }
            Some(Fault::Head) => {
                self.scope.metrics().rejected(Reason::RequestTimeout).inc();
                self.count_timeout("read");
            }
            Some(Fault::Body) => self.count_timeout("read"),
            Some(Fault::Write) => self.count_timeout("write"),
        }
    }

    fn count_timeout(&self, op: &'static str) {
        self.scope.metrics().io_timeouts(op).inc();
    }
}

impl<S> ConnState<S> {
    pub(super) fn now(&self) -> Moment {
        Clock::now(&self.clock)
    }
}

/// A stream in front of which bytes were read ahead, for the TLS handshake after a PROXY header.
struct Rewound {
    ahead: Bytes,
    stream: Stream,
}

mod rewound {
    //! [`Rewound`] as a stream.
    use super::{AsyncRead, AsyncWrite, Rewound, io};
    use bytes::Buf;
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };
    use tokio::io::ReadBuf;

    impl AsyncRead for Rewound {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let this = self.get_mut();
            if this.ahead.has_remaining() {
                let n = this.ahead.len().min(buf.remaining());
                buf.put_slice(&this.ahead.split_to(n));
                return Poll::Ready(Ok(()));
            }
            Pin::new(&mut this.stream).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for Rewound {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.get_mut().stream).poll_flush(cx)
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
        }
    }
}

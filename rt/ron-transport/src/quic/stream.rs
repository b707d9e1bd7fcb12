//! The one stream of a connection, as bytes that are read and written.

use std::{
    fmt,
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use quinn::{
    Connection, ConnectionError, ReadError, RecvStream, SendStream, StoppedError, TransportErrorCode, VarInt,
    WriteError, crypto::rustls::HandshakeData,
};
use rustls::AlertDescription;
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::is_end;
use crate::tls::raw_key::PeerKey;

/// Bytes of small pieces that are handed over at once: each time costs a lock and a wake-up.
const GATHERED: usize = 8 * 1024;

/// Errors of the transport from here on are alerts of TLS (RFC 9001, section 4.8).
const TLS_ALERTS: u64 = 0x100;

type Acknowledged = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync>>;

/// A connection's stream. Shutting it down waits until the peer has acknowledged everything; dropping it closes the
/// connection at once.
pub struct QuicStream {
    connection: Connection,
    send: SendStream,
    receive: RecvStream,
    /// Resolves once the peer has everything; present while the stream is being shut down.
    acknowledged: Option<Acknowledged>,
}

impl QuicStream {
    pub(super) const fn new(connection: Connection, send: SendStream, receive: RecvStream) -> Self {
        Self { connection, send, receive, acknowledged: None }
    }

    /// The raw key that the peer has proven.
    #[must_use]
    pub fn peer_key(&self) -> Option<PeerKey> {
        let shown = self.connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
        shown.first().and_then(|spki| PeerKey::from_spki(spki))
    }

    /// The group whose keys were exchanged.
    #[must_use]
    pub fn key_exchange(&self) -> Option<&'static str> {
        let agreed = self.connection.handshake_data()?.downcast::<HandshakeData>().ok()?;
        agreed.negotiated_key_exchange_group.as_str()
    }

    /// Fills `out` with bytes that the two ends of this connection have in common and nobody else has. False if there are
    /// none.
    #[must_use]
    pub fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        self.connection.export_keying_material(out, label, context).is_ok()
    }
}

/// Why a connection is lost, for whoever reads or writes. An end in good order that no end of the stream preceded is an
/// [`io::ErrorKind::UnexpectedEof`], as it is over TLS.
pub(super) fn lost(error: ConnectionError) -> io::Error {
    if let Some(refusal) = refusal(&error) {
        return io::Error::new(io::ErrorKind::InvalidData, refusal);
    }
    let kind = match &error {
        _ if is_end(&error) => io::ErrorKind::UnexpectedEof,
        ConnectionError::TimedOut => io::ErrorKind::TimedOut,
        ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => {
            io::ErrorKind::ConnectionAborted
        }
        ConnectionError::Reset => io::ErrorKind::ConnectionReset,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// What TLS said, where it is why there is no connection: QUIC carries its alerts as errors of the transport.
fn refusal(error: &ConnectionError) -> Option<rustls::Error> {
    let alert = |code: TransportErrorCode| {
        let code = u64::from(code).checked_sub(TLS_ALERTS)?;
        u8::try_from(code).ok().map(AlertDescription::from)
    };
    match error {
        ConnectionError::ConnectionClosed(close) => alert(close.error_code).map(rustls::Error::AlertReceived),
        ConnectionError::TransportError(fault) => {
            alert(fault.code).map(|_| rustls::Error::General(fault.reason.clone()))
        }
        _ => None,
    }
}

impl AsyncRead for QuicStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = ready!(self.get_mut().receive.poll_read_buf(cx, buf));
        Poll::Ready(read.map_err(|error| match error {
            ReadError::ConnectionLost(error) => lost(error),
            other => other.into(),
        }))
    }
}

impl AsyncWrite for QuicStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.get_mut().send).poll_write(cx, buf));
        Poll::Ready(written.map_err(|error| match error {
            WriteError::ConnectionLost(error) => lost(error),
            other => other.into(),
        }))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some(first) = pieces.iter().find(|piece| !piece.is_empty()) else {
            return self.poll_write(cx, &[]);
        };
        if first.len() >= GATHERED {
            return self.poll_write(cx, first);
        }
        let (mut space, mut filled) = ([0; GATHERED], 0);
        for piece in pieces {
            let taken = piece.len().min(GATHERED - filled);
            space[filled..filled + taken].copy_from_slice(&piece[..taken]);
            filled += taken;
            if filled == GATHERED {
                break;
            }
        }
        self.poll_write(cx, &space[..filled])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        let acknowledged = match &mut stream.acknowledged {
            Some(acknowledged) => acknowledged,
            none => {
                // It is finished already, or the connection is lost, which the wait below finds out.
                let _ = stream.send.finish();
                none.insert(Box::pin(stream.send.stopped()))
            }
        };
        Poll::Ready(match ready!(acknowledged.as_mut().poll(cx)) {
            Ok(_) => Ok(()),
            // The peer has closed the connection, so it waits for nothing more.
            Err(StoppedError::ConnectionLost(error)) if is_end(&error) => Ok(()),
            Err(StoppedError::ConnectionLost(error)) => Err(lost(error)),
            Err(other) => Err(other.into()),
        })
    }
}

impl fmt::Debug for QuicStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicStream").field("key_exchange", &self.key_exchange()).finish_non_exhaustive()
    }
}

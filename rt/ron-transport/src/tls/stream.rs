//! An encrypted stream, what its handshake agreed, and the handshake under its time limit.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rustls::{ClientConfig, CommonState, HandshakeKind, ProtocolVersion, ServerConfig, server::Acceptor};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor, TlsConnector};

use super::{AlpnChallenges, HandshakeError, raw_key::PeerKey};
use crate::stream::HangUp;

/// A stream after its handshake, of either side. Shutting it down sends `close_notify` first; a peer that goes
/// without one is reported to the reader as [`io::ErrorKind::UnexpectedEof`], so truncation never passes for an end.
pub struct TlsStream<S> {
    inner: tokio_rustls::TlsStream<S>,
}

impl<S> TlsStream<S> {
    /// The application protocol agreed, if any.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.state().alpn_protocol()
    }

    /// The name the client asked for, in lower case; `None` on the client's side.
    pub fn server_name(&self) -> Option<&str> {
        match &self.inner {
            tokio_rustls::TlsStream::Server(stream) => stream.get_ref().1.server_name(),
            tokio_rustls::TlsStream::Client(_) => None,
        }
    }

    /// Whether the peer proved who it is.
    pub fn has_peer_certificate(&self) -> bool {
        !self.peer_certificates().is_empty()
    }

    /// The verified certificates of the peer, leaf first; with raw keys, its one key.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.state().peer_certificates().unwrap_or_default()
    }

    /// The peer's raw Ed25519 key, if raw keys are what both sides showed.
    pub fn peer_key(&self) -> Option<PeerKey> {
        self.peer_certificates().first().and_then(|spki| PeerKey::from_spki(spki))
    }

    /// The name of the key exchange group. `None` when a TLS 1.2 session was resumed: it exchanges no keys.
    pub fn key_exchange(&self) -> Option<&'static str> {
        self.state().negotiated_key_exchange_group().and_then(|group| group.name().as_str())
    }

    /// Fills `out` with bytes that the two ends of this connection have in common and nobody else has (RFC 8446, section
    /// 7.5). False if the handshake is not over, so that there are none.
    #[must_use]
    pub fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        match &self.inner {
            tokio_rustls::TlsStream::Server(stream) => {
                stream.get_ref().1.export_keying_material(out, label, Some(context)).is_ok()
            }
            tokio_rustls::TlsStream::Client(stream) => {
                stream.get_ref().1.export_keying_material(out, label, Some(context)).is_ok()
            }
        }
    }

    /// The protocol version agreed: `"TLSv1.2"` or `"TLSv1.3"`.
    pub fn version(&self) -> &'static str {
        match self.state().protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        }
    }

    /// Whether an earlier session was resumed.
    pub fn resumed(&self) -> bool {
        self.state().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the underlying transport.
    pub fn get_ref(&self) -> &S {
        self.inner.get_ref().0
    }

    fn state(&self) -> &CommonState {
        self.inner.get_ref().1
    }
}

/// The server's side of a handshake.
pub(super) async fn accept<S>(
    config: Arc<ServerConfig>,
    stream: S,
    limit: Duration,
) -> Result<TlsStream<S>, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    within(limit, TlsAcceptor::from(config).accept(stream)).await
}

/// The server's side of a handshake with a client that may be an authority with a challenge.
pub(super) async fn accept_or_prove<S>(
    config: Arc<ServerConfig>,
    challenges: &AlpnChallenges,
    stream: S,
    limit: Duration,
) -> Result<TlsStream<S>, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = async {
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let Some(proof) = challenges.proof_for(&start.client_hello()) else {
            let stream = start.into_stream(config).await?;
            return Ok(TlsStream { inner: stream.into() });
        };
        let mut proven = start.into_stream(proof).await?;
        let _ = proven.shutdown().await;
        Err(HandshakeError::Challenge)
    };
    tokio::time::timeout(limit, handshake).await.unwrap_or(Err(HandshakeError::Timeout { limit }))
}

/// The client's side of a handshake.
pub(super) async fn connect<S>(
    config: Arc<ClientConfig>,
    stream: S,
    name: ServerName<'static>,
    limit: Duration,
) -> Result<TlsStream<S>, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    within(limit, TlsConnector::from(config).connect(name, stream)).await
}

async fn within<S, T, F>(limit: Duration, handshake: F) -> Result<TlsStream<S>, HandshakeError>
where
    T: Into<tokio_rustls::TlsStream<S>>,
    F: Future<Output = io::Result<T>>,
{
    match tokio::time::timeout(limit, handshake).await {
        Ok(Ok(stream)) => Ok(TlsStream { inner: stream.into() }),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(HandshakeError::Timeout { limit }),
    }
}

impl<S> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream")
            .field("version", &self.version())
            .field("key_exchange", &self.key_exchange())
            .field("server_name", &self.server_name())
            .finish_non_exhaustive()
    }
}

impl<S: HangUp> HangUp for TlsStream<S> {
    fn has_hung_up(&self) -> bool {
        self.get_ref().has_hung_up()
    }

    fn reset_on_drop(&self) {
        self.get_ref().reset_on_drop();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

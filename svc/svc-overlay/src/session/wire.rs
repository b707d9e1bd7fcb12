//! A connection's bytes, in the clear or encrypted.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use ron_transport::{stream::Stream, tls::TlsStream, tls::raw_key::PeerKey};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that the system may hold unsent: more would only make what is urgent wait behind them.
const NOTSENT_LOWAT: u32 = 128 * 1024;

/// The bytes of one connection.
#[derive(Debug)]
pub(crate) enum Wire {
    /// In the clear.
    Plain(Stream),
    /// Encrypted.
    Tls(Box<TlsStream<Stream>>),
}

impl Wire {
    /// The key the peer has proven.
    pub(crate) fn peer_key(&self) -> Option<PeerKey> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.peer_key(),
        }
    }

    /// The group whose keys were exchanged.
    pub(crate) fn key_exchange(&self) -> Option<&'static str> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.key_exchange(),
        }
    }
}

/// Has the system hold little that is not on its way yet. A system that cannot is no reason to refuse a peer.
pub(crate) fn hold_little(stream: &Stream) {
    if let Stream::Tcp(socket) = stream {
        let _ = SockRef::from(socket).set_tcp_notsent_lowat(NOTSENT_LOWAT);
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

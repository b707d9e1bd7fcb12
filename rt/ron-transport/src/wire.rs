//! What a connection runs over: a socket, TLS on one, or QUIC.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(feature = "quic")]
use crate::quic::QuicStream;
use crate::{
    stream::Stream,
    tls::{TlsStream, raw_key::PeerKey},
};

/// The bytes of one connection. TLS is boxed: its session is a kilobyte, and plain connections need not carry that.
#[derive(Debug)]
pub enum Wire {
    /// A connection without TLS.
    Plain(Stream),
    /// A connection with TLS.
    Tls(Box<TlsStream<Stream>>),
    /// Over QUIC, which is encrypted too.
    #[cfg(feature = "quic")]
    Quic(Box<QuicStream>),
}

impl Wire {
    /// Returns true if the connection uses QUIC.
    #[must_use]
    pub const fn is_quic(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Tls(_) => false,
            #[cfg(feature = "quic")]
            Self::Quic(_) => true,
        }
    }

    /// The raw key that the peer has proven; none without TLS.
    #[must_use]
    pub fn peer_key(&self) -> Option<PeerKey> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.peer_key(),
            #[cfg(feature = "quic")]
            Self::Quic(stream) => stream.peer_key(),
        }
    }

    /// Bytes that the two ends of this connection have in common and nobody else has; none without TLS.
    #[must_use]
    pub fn export<const N: usize>(&self, label: &[u8], context: &[u8]) -> Option<[u8; N]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => {
                let mut out = [0; N];
                stream.export(label, context, &mut out).then_some(out)
            }
            #[cfg(feature = "quic")]
            Self::Quic(stream) => {
                let mut out = [0; N];
                stream.export(label, context, &mut out).then_some(out)
            }
        }
    }

    /// The group whose keys were exchanged; none without TLS.
    #[must_use]
    pub fn key_exchange(&self) -> Option<&'static str> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.key_exchange(),
            #[cfg(feature = "quic")]
            Self::Quic(stream) => stream.key_exchange(),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            #[cfg(feature = "quic")]
            Self::Quic(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            #[cfg(feature = "quic")]
            Self::Quic(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            #[cfg(feature = "quic")]
            Self::Quic(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            #[cfg(feature = "quic")]
            Self::Quic(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "quic")]
            Self::Quic(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "quic")]
            Self::Quic(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

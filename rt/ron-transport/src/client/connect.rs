//! From a connected socket to a connection that speaks HTTP: TLS if the server wants it, then the protocol it chose.

use std::time::Duration;

use super::{Drivers, H2Conn, H2Options, HttpConn, SendFault};
use crate::{
    stream::Stream,
    tls::{ClientTls, HandshakeError},
};

/// Which version of HTTP to speak to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Only HTTP/1.1 is used.
    Http1,
    /// HTTP/2; without TLS the server must support it.
    Http2,
    /// What the server chooses during the TLS handshake; HTTP/1.1 without TLS.
    #[default]
    Auto,
}

impl Protocol {
    /// What to offer in a TLS handshake, the preferred one first: the `alpn` of the client's TLS configuration.
    #[must_use]
    pub fn alpn(self) -> Vec<Vec<u8>> {
        let offers: &[&[u8]] = match self {
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
            Self::Auto => &[b"h2", b"http/1.1"],
        };
        offers.iter().map(|offer| offer.to_vec()).collect()
    }
}

/// How a server is to prove itself.
#[derive(Clone, Copy, Debug)]
pub enum Security<'a> {
    /// No TLS is used.
    Clear,
    /// By a certificate for a name.
    Tls {
        /// Whom to trust, what to show and what to offer ([`Protocol::alpn`]).
        tls: &'a ClientTls,
        /// The DNS name or address that the certificate has to be for.
        server_name: &'a str,
        /// How long the handshake may take.
        limit: Duration,
    },
}

/// A connection of either version.
#[derive(Debug)]
pub enum AnyConn {
    /// HTTP/1.1, one request at a time.
    Http1(HttpConn),
    /// HTTP/2, many at once.
    Http2(H2Conn),
}

/// Why a connected server cannot be spoken to. Nothing was asked of it in any case.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The TLS handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The server agreed to another protocol than the one that is wanted.
    #[error("the server does not speak {wanted:?}")]
    Protocol {
        /// The protocol that the configuration asks for.
        wanted: Protocol,
    },
    /// The connection broke off.
    #[error(transparent)]
    Broken(#[from] SendFault),
}

/// Makes an HTTP connection of a connected socket. `drivers` run the task that an HTTP/2 connection needs.
///
/// Cancel safe: dropping the future closes the socket.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(
    stream: Stream,
    security: Security<'_>,
    protocol: Protocol,
    options: &H2Options,
    drivers: &Drivers,
) -> Result<AnyConn, ConnectError> {
    let Security::Tls { tls, server_name, limit } = security else {
        return Ok(match protocol {
            Protocol::Http2 => AnyConn::Http2(H2Conn::open(stream, options, drivers).await?),
            Protocol::Http1 | Protocol::Auto => AnyConn::Http1(HttpConn::open(stream)),
        });
    };
    let stream = tls.connect(stream, server_name, limit).await?;
    let agreed_h2 = stream.alpn() == Some(b"h2");
    match protocol {
        Protocol::Http1 if agreed_h2 => Err(ConnectError::Protocol { wanted: protocol }),
        Protocol::Http2 if !agreed_h2 => Err(ConnectError::Protocol { wanted: protocol }),
        _ if agreed_h2 => Ok(AnyConn::Http2(H2Conn::open_tls(stream, options, drivers).await?)),
        _ => Ok(AnyConn::Http1(HttpConn::open_tls(stream))),
    }
}

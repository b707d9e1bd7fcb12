//! The client side of HTTP: connections to upstream servers, without TLS or over TLS, HTTP/1.1 or HTTP/2.
//!
//! An [`HttpConn`] serves one request at a time and is driven by whoever uses it; an [`H2Conn`] serves many at once
//! and has a task of its own. [`connect`] makes either, as the server likes; [`open`] one for a single request.

mod connect;
mod counted;
mod h1;
mod h2;
mod length;
mod open;
mod stall;
mod unanswered;
mod upload;

pub use connect::{AnyConn, ConnectError, Protocol, Security, connect};
pub use h1::HttpConn;
pub use h2::{Drivers, H2_UPSTREAM, H2Conn, H2Options, Progress};
pub use open::{Once, OpenError, open};
pub use unanswered::{RequestWatch, Unanswered};

use crate::{BodyError, Request};

/// The most interim responses (1xx) that a server may send before its answer. Whoever sends more has the reader do nothing
/// else.
pub(crate) const MAX_INTERIM: usize = 16;

/// Where a connection goes when its response is complete.
pub trait Home: Send + Sync + 'static {
    /// Takes a connection that can be used again. HTTP/2 connections never leave, and never come back.
    fn put_back(&self, conn: HttpConn);

    /// Hears of a server that stopped in the middle of a response's body; the connection, or with HTTP/2 the stream, is
    /// closed.
    fn stalled(&self) {}

    /// Hears of a server that broke off in the middle of a response's body, and how.
    fn broke_off(&self, why: &BodyError) {
        let _ = why;
    }

    /// Hears of a server that was seen to go on after the end of its response, which may not be where it said. The
    /// connection is closed. To be sure, ask a connection that is put back ([`HttpConn::went_on`]).
    fn went_on(&self) {}
}

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
pub enum SendFault {
    /// The server has not looked at the request, and says so or had closed before; it comes back whole.
    #[error("the connection was already closed")]
    Unsent(Box<Request>),
    /// The server broke off, or answered nonsense.
    #[error("{0}")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An answer with a larger head than is taken, as the cause of [`SendFault::Broken`]. The server answered, so another try
/// would come to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LargeHead {
    /// The header has too many bytes.
    #[error("its head is longer than {0} bytes")]
    Bytes(usize),
    /// The header has too many fields.
    #[error("it has more than {0} header fields")]
    Fields(usize),
}

impl SendFault {
    fn broken(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Broken(cause.into())
    }
}

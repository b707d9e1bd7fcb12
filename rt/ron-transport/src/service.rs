//! What an HTTP listener serves: one method from a request to a response or a refusal.

use std::{net::SocketAddr, sync::Arc};

use http::HeaderValue;
use types::Refusal;

use crate::{Body, stream::Peer};

/// A request with the shared body type.
pub type Request = http::Request<Body>;
/// A response with the shared body type.
pub type Response = http::Response<Body>;

/// What is known about a connection before its first request.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    /// The other end; the one a trusted proxy named, if it did.
    pub peer: Peer,
    /// The core that serves it.
    pub core: usize,
    /// What the TLS handshake agreed; `None` in the clear.
    pub tls: Option<TlsInfo>,
    /// The client's IP address as a header value, made once because every request passes it on.
    client_header: Option<HeaderValue>,
}

/// What a TLS handshake agreed.
#[derive(Clone, Debug)]
pub struct TlsInfo {
    /// The server name asked for.
    pub server_name: Option<String>,
    /// Whether the client showed a certificate that verified.
    pub client_verified: bool,
}

impl ConnInfo {
    /// A connection of `peer` served by `core`, in the clear.
    #[must_use]
    pub fn new(peer: Peer, core: usize) -> Self {
        let client_header = peer.addr.and_then(|addr| HeaderValue::from_str(&addr.ip().to_string()).ok());
        Self { peer, core, tls: None, client_header }
    }

    /// The client's IP address as a header value.
    #[must_use]
    pub fn client_header(&self) -> Option<HeaderValue> {
        self.client_header.clone()
    }

    /// The client's address, where it has one.
    #[must_use]
    pub fn client(&self) -> Option<SocketAddr> {
        self.peer.addr
    }
}

/// A handler of requests. There is one per core, so its own state meets no other core.
pub trait Service: Send + Sync + 'static {
    /// Answers a request. A refusal becomes a problem document and is counted by its reason.
    ///
    /// The future is dropped when the client goes away.
    fn call(
        &self,
        conn: &Arc<ConnInfo>,
        request: Request,
    ) -> impl Future<Output = Result<Response, Refusal>> + Send;
}

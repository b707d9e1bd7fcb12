//! What an HTTP listener serves: one method from a request to a response or a refusal.

use std::{
    net::SocketAddr,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::HeaderValue;
use tokio::sync::Notify;
use types::Refusal;

use crate::{
    Body,
    interim::{Interim, InterimSlot},
    stream::Peer,
    tls::certificate::ClientCertificate,
};

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
    /// What the TLS handshake agreed; `None` without TLS.
    pub tls: Option<TlsInfo>,
    /// Whether the connection has a spare place, because the others were taken: its service should answer only what
    /// must be answered at all times, such as a health check.
    pub spare: bool,
    /// The client's IP address as a header value, made once because every request passes it on.
    client_header: Option<HeaderValue>,
    /// Tells the connection to end; `None` if nobody serves it.
    pub(crate) end: Option<Arc<Notify>>,
}

/// The parameters that a TLS handshake agreed on.
#[derive(Clone, Debug)]
pub struct TlsInfo {
    /// The protocol version: `"TLSv1.2"` or `"TLSv1.3"`.
    pub version: &'static str,
    /// The server name asked for.
    pub server_name: Option<String>,
    /// Who the client's certificate says that it is; `None` if it showed none.
    pub client: Option<ClientCertificate>,
}

impl ConnInfo {
    /// A connection of `peer` served by `core`, without TLS.
    #[must_use]
    pub fn new(peer: Peer, core: usize) -> Self {
        let client_header = peer.addr.and_then(|addr| HeaderValue::from_str(&addr.ip().to_string()).ok());
        Self { peer, core, tls: None, spare: false, client_header, end: None }
    }

    /// Ends the connection at once, with whatever it is doing.
    pub fn cut_off(&self) {
        if let Some(end) = &self.end {
            end.notify_one();
        }
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

/// A connection as its service sees it: what is known about it, and what the service has worked out about it.
#[derive(Debug)]
pub struct Conn<P> {
    info: ConnInfo,
    memo: P,
    pub(crate) interim: InterimSlot,
    /// Whether a request has come, or a head that is refused.
    asked: AtomicBool,
}

impl<P: Default> Conn<P> {
    /// A connection of which nothing has been worked out yet.
    #[must_use]
    pub fn new(info: ConnInfo) -> Self {
        let (memo, interim) = (P::default(), InterimSlot::default());
        Self { info, memo, interim, asked: AtomicBool::new(false) }
    }
}

impl<P> Conn<P> {
    /// What the service keeps for this connection, from its first request to its last. Requests of an HTTP/2
    /// connection share it at the same time, so it changes through a `OnceLock`, an atomic or a lock.
    #[must_use]
    pub const fn memo(&self) -> &P {
        &self.memo
    }

    /// Notes that a request has come.
    pub(crate) fn asks(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether a request has come.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Where interim responses to the present request go. Only for a request of HTTP/1.1, of which a connection has one at a
    /// time.
    #[must_use]
    pub fn interim(&self) -> Interim {
        self.interim.present()
    }
}

impl<P> Deref for Conn<P> {
    type Target = ConnInfo;

    fn deref(&self) -> &ConnInfo {
        &self.info
    }
}

/// A handler of requests. There is one per core, so its own state meets no other core.
pub trait Service: Send + Sync + 'static {
    /// What it keeps for each connection, so as not to work it out for each request; `()` for nothing.
    type PerConn: Default + Send + Sync + 'static;

    /// Whether connections of this peer are closed before a byte of them is read, a second after they were accepted.
    fn turns_away(&self, _peer: &Peer) -> bool {
        false
    }

    /// Whether this peer is a proxy that names the client of each request in header fields. It speaks for many clients, and has no
    /// cap of its own.
    fn speaks_for_many(&self, _peer: &Peer) -> bool {
        false
    }

    /// Answers a request. A refusal becomes a problem document and is counted by its reason.
    ///
    /// The future is dropped when the client goes away.
    fn call(
        &self,
        conn: &Arc<Conn<Self::PerConn>>,
        request: Request,
    ) -> impl Future<Output = Result<Response, Refusal>> + Send;

    /// A connection waits for its client's next request, which may be long in coming. The service should let go of what it can
    /// work out again.
    fn parks(&self, _conn: &Conn<Self::PerConn>) {}

    /// Says what the client is told whose request cannot be served, because its head breaks the protocol or a limit: the
    /// refusal itself, or another one if the client has been refused too often. The service does not see such a request.
    fn refuse_head(&self, _conn: &Conn<Self::PerConn>, refusal: Refusal) -> Refusal {
        refusal
    }

    /// A connection is closed because its client flooded it with frames that belong to no request or carry nothing. Such a
    /// connection has cost as much as many refusals.
    fn flooded(&self, _conn: &Conn<Self::PerConn>) {}

    /// A client has connected and asked for nothing, or its TLS handshake failed. A handshake costs more than most requests, and
    /// every connection costs something.
    fn wasted_connection(&self, _conn: &ConnInfo) {}
}

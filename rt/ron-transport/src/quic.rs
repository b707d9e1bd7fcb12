//! QUIC between nodes that know each other by their keys: one connection carries one byte stream, as TLS over TCP does.
//!
//! TLS is that of [`raw_key`](crate::tls::raw_key): the same keys, the same application protocol and the same groups. Early
//! data, datagrams and further streams are not offered. The library's own tasks are children that the caller supervises.

mod runtime;
mod stream;

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use quinn::{
    ConnectionError, Endpoint, EndpointConfig, IdleTimeout, TransportConfig, ValidationTokenConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use socket2::{Domain, Protocol, Socket, Type};

pub use runtime::Drivers;
pub use stream::QuicStream;

use crate::{
    stream::Peer,
    tls::raw_key::{RawClientTls, RawServerTls},
};

/// A peer of which nothing is heard for so long is gone.
pub const IDLE: Duration = Duration::from_secs(30);
/// How often a quiet connection is kept open, at both ends and in what translates addresses between them.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Bytes that a peer may send before they are read.
const RECEIVE_WINDOW: u32 = 1024 * 1024;
/// Bytes of a connection that are kept until the peer has acknowledged them.
const SEND_WINDOW: u64 = 1024 * 1024;
/// Connections that wait to be accepted; one more is refused.
const MAX_INCOMING: usize = 512;
/// Bytes of one of them that are kept meanwhile.
const INCOMING_BYTES: u64 = 16 * 1024;
/// Bytes that the system may keep for a socket in each direction, where it grants that.
const SOCKET_BUFFER: usize = 1024 * 1024;
/// Nodes have no names. The library wants one, which is neither sent nor verified.
const NO_NAME: &str = "node.invalid";

/// How connections of others are answered. Clones are cheap.
#[derive(Clone)]
pub struct QuicServer(Arc<quinn::ServerConfig>);

impl QuicServer {
    /// Answers as `tls` does over TCP.
    ///
    /// # Panics
    /// If the provider of `tls` lacks AES-128-GCM, with which QUIC protects first packets; ours has it.
    #[must_use]
    pub fn new(tls: &RawServerTls) -> Self {
        let crypto = QuicServerConfig::try_from(tls.config()).expect("the provider has AES-128-GCM");
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        let mut tokens = ValidationTokenConfig::default();
        // Each connection proves its address again: nothing has to be remembered of those that came before.
        tokens.sent(0);
        config
            .transport_config(Arc::new(transport()))
            .validation_token_config(tokens)
            .max_incoming(MAX_INCOMING)
            .incoming_buffer_size(INCOMING_BYTES)
            .incoming_buffer_size_total(INCOMING_BYTES * MAX_INCOMING as u64);
        Self(Arc::new(config))
    }
}

/// How connections to others are begun. Clones are cheap.
#[derive(Clone)]
pub struct QuicClient(quinn::ClientConfig);

impl QuicClient {
    /// Begins as `tls` does over TCP.
    ///
    /// # Panics
    /// If the provider of `tls` lacks AES-128-GCM, with which QUIC protects first packets; ours has it.
    #[must_use]
    pub fn new(tls: &RawClientTls) -> Self {
        let crypto = QuicClientConfig::try_from(tls.config()).expect("the provider has AES-128-GCM");
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport()));
        Self(config)
    }

    /// Connects to a node at `addr` from a socket of its own. The node judges our key after this returns: a refusal arrives
    /// with the first read. `drivers` are what the library's tasks become.
    ///
    /// Cancel safe: dropping the future closes the connection.
    ///
    /// # Errors
    /// The system's, or why there is no connection.
    pub async fn connect(&self, addr: SocketAddr, drivers: &Drivers) -> io::Result<QuicStream> {
        let any = if addr.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = bind(any.parse().map_err(io::Error::other)?)?;
        let endpoint = open(socket, None, drivers)?;
        let connecting = endpoint.connect_with(self.0.clone(), addr, NO_NAME).map_err(io::Error::other)?;
        // The endpoint ends with its last connection.
        drop(endpoint);
        let connection = connecting.await.map_err(stream::lost)?;
        let (send, receive) = connection.open_bi().await.map_err(stream::lost)?;
        Ok(QuicStream::new(connection, send, receive))
    }
}

/// A socket on which connections of others arrive.
#[derive(Debug)]
pub struct QuicListener {
    endpoint: Endpoint,
}

impl QuicListener {
    /// Takes connections on a socket of [`bind`], in the runtime that runs now. `drivers` are what the library's tasks become.
    ///
    /// # Errors
    /// The system's.
    pub fn open(socket: std::net::UdpSocket, server: &QuicServer, drivers: &Drivers) -> io::Result<Self> {
        Ok(Self { endpoint: open(socket, Some((*server.0).clone()), drivers)? })
    }

    /// The next connection from an address that was proven: whoever claims to be at another is told to come again with what
    /// was sent there. [`None`] once the socket has failed.
    ///
    /// Cancel safe.
    pub async fn accept(&self) -> Option<QuicIncoming> {
        loop {
            let incoming = self.endpoint.accept().await?;
            if incoming.remote_address_validated() {
                return Some(QuicIncoming(incoming));
            }
            // It can be told so, because it has not proven its address yet.
            let _ = incoming.retry();
        }
    }

    /// Refuses new connections from now on. Those that there are go on, and the socket closes with the last of them.
    pub fn close(self) {
        self.endpoint.set_server_config(None);
    }
}

/// A connection that arrived and was not answered yet; dropped, it is refused.
#[derive(Debug)]
pub struct QuicIncoming(quinn::Incoming);

impl QuicIncoming {
    /// Returns the address of the peer.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::tcp(self.0.remote_address())
    }

    /// Shakes hands as `server` says, and waits for the stream that the dialer opens.
    ///
    /// Cancel safe: dropping the future closes the connection.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn establish(self, server: &QuicServer) -> io::Result<QuicStream> {
        let connecting = self.0.accept_with(Arc::clone(&server.0)).map_err(stream::lost)?;
        let connection = connecting.await.map_err(stream::lost)?;
        let (send, receive) = connection.accept_bi().await.map_err(stream::lost)?;
        Ok(QuicStream::new(connection, send, receive))
    }
}

/// Binds a socket. On `[::]` it takes IPv4 as well.
///
/// # Errors
/// The system's.
pub fn bind(addr: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    if addr.is_ipv6() && addr.ip().is_unspecified() {
        // Said explicitly, because the system's default differs between hosts.
        socket.set_only_v6(false)?;
    }
    // Less is granted where the system says so, which costs speed and nothing else.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

fn open(
    socket: std::net::UdpSocket,
    server: Option<quinn::ServerConfig>,
    drivers: &Drivers,
) -> io::Result<Endpoint> {
    Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(drivers.clone()))
}

/// One stream for each connection, and nothing besides.
fn transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    let idle = IdleTimeout::try_from(IDLE).expect("it fits the field");
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .send_window(SEND_WINDOW)
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(KEEP_ALIVE));
    config
}

impl fmt::Debug for QuicServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicServer").finish_non_exhaustive()
    }
}

impl fmt::Debug for QuicClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicClient").finish_non_exhaustive()
    }
}

/// Whether a connection ended because the far end closed it in good order.
fn is_end(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ApplicationClosed(close) if close.error_code == VarInt::from_u32(0))
}

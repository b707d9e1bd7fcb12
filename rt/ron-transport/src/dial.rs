//! Opening connections to upstreams, within a time budget and with typed failures.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpSocket, TcpStream, UnixStream},
    time::{Instant, timeout_at},
};

use crate::{
    addr::{Endpoint, Host, Target},
    descriptors,
    resolve::{ResolveError, Resolver},
    socks5::{self, Socks5Error, Socks5Proxy},
    stream::Stream,
};

/// Stands in for budgets that the clock cannot add up.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Why an upstream could not be reached. Nothing was sent in any case, so a retry never repeats a request.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The time budget ran out.
    #[error("{endpoint} did not answer within {after:?}")]
    Timeout {
        /// The endpoint that was dialled.
        endpoint: Endpoint,
        /// The timeout that passed.
        after: Duration,
    },
    /// The connection was refused.
    #[error("{endpoint} refused the connection")]
    Refused {
        /// The endpoint that was dialled.
        endpoint: Endpoint,
    },
    /// The name has no address.
    #[error("{endpoint} does not resolve: {source}")]
    Resolve {
        /// The endpoint that was dialled.
        endpoint: Endpoint,
        /// The error of the resolver.
        source: ResolveError,
    },
    /// A proxy made no connection.
    #[error("{endpoint} could not be reached through {proxy}: {source}")]
    Proxy {
        /// The endpoint that was dialled.
        endpoint: Endpoint,
        /// The proxy that was asked.
        proxy: Socks5Proxy,
        /// The error of the proxy.
        source: Socks5Error,
    },
    /// Anything else the system reports.
    #[error("{endpoint} could not be reached: {source}")]
    Io {
        /// The endpoint that was dialled.
        endpoint: Endpoint,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl DialError {
    /// Whether another attempt may succeed without anybody changing something: not where a permission is
    /// missing or the address cannot be dialled at all.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Refused { .. } | Self::Resolve { .. } | Self::Proxy { .. } => true,
            Self::Io { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ),
        }
    }

    /// Whether this machine lacked what a connection needs, such as a file descriptor. Nothing is known about the server then.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Io { source, .. } => descriptors::are_exhausted(source),
            Self::Resolve { source, .. } => source.is_local(),
            Self::Timeout { .. } | Self::Refused { .. } | Self::Proxy { .. } => false,
        }
    }

    fn from_io(endpoint: &Endpoint, source: io::Error) -> Self {
        let endpoint = endpoint.clone();
        match source.kind() {
            // A Unix socket without its file is a server that is not up, like a port without a listener.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Self::Refused { endpoint },
            _ => Self::Io { endpoint, source },
        }
    }
}

/// Connects to `endpoint` within `timeout`, name resolution included. TCP connections have Nagle's delay off. Only a host
/// name asks the `resolver`.
///
/// The addresses of a name are tried in the resolver's order; each gets an even part of the time left, so that a silent
/// first one leaves time for the next. The last failure is reported.
///
/// Cancel safe: dropping the future closes the half-open socket. A lookup already begun runs to its end in the blocking
/// pool, and its answer is kept.
///
/// # Errors
/// [`DialError`].
pub async fn dial(endpoint: &Endpoint, resolver: &Resolver, timeout: Duration) -> Result<Stream, DialError> {
    let now = Instant::now();
    let deadline = now.checked_add(timeout).unwrap_or(now + LONGEST);
    let late = || DialError::Timeout { endpoint: endpoint.clone(), after: timeout };
    let connected = match endpoint.target() {
        Target::Unix(path) => match timeout_at(deadline, UnixStream::connect(path)).await {
            Err(_) => Err(None),
            Ok(connected) => connected.map(Stream::Unix).map_err(Some),
        },
        Target::Tcp { host: Host::Ip(ip), port } => {
            connect_any(&[SocketAddr::new(*ip, *port)], deadline).await.map(Stream::Tcp)
        }
        Target::Tcp { host: Host::Name(name), port } => {
            let addresses = timeout_at(deadline, resolver.lookup(name, *port)).await.map_err(|_| late())?;
            let addresses =
                addresses.map_err(|source| DialError::Resolve { endpoint: endpoint.clone(), source })?;
            connect_any(&addresses, deadline).await.map(Stream::Tcp)
        }
    };
    connected.map_err(|error| error.map_or_else(late, |error| DialError::from_io(endpoint, error)))
}

/// Connects to `endpoint` through a proxy within `timeout`. The name of `endpoint` is the proxy's to resolve: only that of the
/// proxy itself asks the `resolver`. A Unix socket is connected to directly.
///
/// Cancel safe: dropping the future closes the connection to the proxy.
///
/// # Errors
/// [`DialError`], about the proxy where that cannot be reached.
pub async fn dial_through(
    proxy: &Socks5Proxy,
    endpoint: &Endpoint,
    resolver: &Resolver,
    timeout: Duration,
) -> Result<Stream, DialError> {
    let Target::Tcp { host, port } = endpoint.target() else {
        return dial(endpoint, resolver, timeout).await;
    };
    let late = || DialError::Timeout { endpoint: endpoint.clone(), after: timeout };
    let through = async {
        let mut stream = dial(proxy.endpoint(), resolver, timeout).await?;
        let asked = socks5::connect(&mut stream, host, *port).await;
        let refused = |source| DialError::Proxy { endpoint: endpoint.clone(), proxy: proxy.clone(), source };
        asked.map(|()| stream).map_err(refused)
    };
    tokio::time::timeout(timeout, through).await.unwrap_or_else(|_| Err(late()))
}

/// The addresses of a host and a port, at least one, within `timeout`. For transports that connect by themselves.
///
/// Cancel safe: a lookup already begun runs to its end in the blocking pool, and its answer is kept.
///
/// # Errors
/// [`DialError`]; a Unix socket has no address.
pub async fn resolve(
    endpoint: &Endpoint,
    resolver: &Resolver,
    timeout: Duration,
) -> Result<Arc<[SocketAddr]>, DialError> {
    let (host, port) = match endpoint.target() {
        Target::Unix(_) => return Err(DialError::from_io(endpoint, io::ErrorKind::Unsupported.into())),
        Target::Tcp { host, port } => (host.to_string(), *port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match tokio::time::timeout(timeout, resolver.lookup(host, port)).await {
        Err(_) => Err(DialError::Timeout { endpoint: endpoint.clone(), after: timeout }),
        Ok(found) => found.map_err(|source| DialError::Resolve { endpoint: endpoint.clone(), source }),
    }
}

/// Tries each address; the error is the last one, `None` if the last attempt ran out of time.
async fn connect_any(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, Option<io::Error>> {
    let mut last = None;
    for (attempts_left, address) in (1..=addresses.len()).rev().zip(addresses) {
        let now = Instant::now();
        let parts = u32::try_from(attempts_left).unwrap_or(u32::MAX);
        let attempt_ends = now + deadline.saturating_duration_since(now) / parts;
        last = match timeout_at(attempt_ends, connect(*address)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
    }
    Err(last)
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_nodelay(true)?;
    socket.connect(address).await
}

#[cfg(test)]
mod tests {
    //! Several addresses behind one name cannot be had from outside without a name server.

    #![expect(clippy::unwrap_used, reason = "tests")]

    use tokio::net::TcpListener;

    use super::*;

    /// An address nobody listens at; it stays taken, or another test's listener could get it.
    fn refusing() -> SocketAddr {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let addr = socket.local_addr().unwrap().as_socket().unwrap();
        std::mem::forget(socket);
        addr
    }

    #[tokio::test]
    async fn the_next_address_is_tried_after_a_refusal() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listening = listener.local_addr().unwrap();
        let addresses = [refusing(), refusing(), listening];
        let socket = connect_any(&addresses, Instant::now() + LONGEST).await.unwrap();
        assert_eq!(socket.peer_addr().unwrap(), listening);
    }

    #[tokio::test]
    async fn the_last_failure_is_reported_when_none_answers() {
        let addresses = [refusing(), refusing()];
        let error = connect_any(&addresses, Instant::now() + LONGEST).await.unwrap_err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_leaves_the_next_its_part_of_the_budget() {
        let silent = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        silent.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        silent.listen(0).unwrap();
        let silent_addr = silent.local_addr().unwrap().as_socket().unwrap();
        let _fills_the_backlog = connect(silent_addr).await.unwrap();
        let begun = Instant::now();
        let addresses = [silent_addr, refusing()];
        let error = connect_any(&addresses, begun + Duration::from_secs(2)).await.unwrap_err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(
            begun.elapsed() - Duration::from_secs(1) <= Duration::from_millis(1),
            "{:?}",
            begun.elapsed()
        );
    }
}

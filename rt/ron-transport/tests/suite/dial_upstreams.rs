//! Dialling upstreams: what connects, what each failure is called, and that the budget holds.

use std::{io, net::SocketAddr, os::unix::net::UnixListener, sync::Arc, time::Duration};

use ron_kernel::{Kernel, planes::RuntimeMode, topology::Topology};
use ron_transport::{
    addr::{Endpoint, Scheme},
    dial::{self, DialError},
    resolve::{ResolveError, Resolver},
    stream::Stream,
};
use socket2::{Domain, Socket, Type};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};

const LIMIT: Duration = Duration::from_secs(60);

static TOPOLOGY: Topology = Topology {
    service: "t",
    purpose: "dials",
    last_reviewed: "2026-01-01",
    invariants: &[],
    tasks: &[],
    children: &[],
    queues: &[],
    locks: &[],
    timeouts: &[],
    metrics: &[],
    trade_offs: &[],
};

/// Dials with the system's resolver.
async fn dial(endpoint: &Endpoint, timeout: Duration) -> Result<Stream, DialError> {
    let kernel = Kernel::builder("test").runtime(RuntimeMode::Current).build().unwrap();
    dial::dial(endpoint, &Resolver::new(&kernel.scope(&TOPOLOGY)), timeout).await
}

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap()
}

#[tokio::test]
async fn an_address_and_a_name_are_dialled_without_delay() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost"] {
        let mut stream = dial(&endpoint(&format!("http://{host}:{port}")), LIMIT).await.unwrap();
        let Stream::Tcp(socket) = &stream else { panic!("not TCP") };
        assert!(socket.nodelay().unwrap());
        let (mut accepted, _) = listener.accept().await.unwrap();
        accepted.write_all(b"hello").await.unwrap();
        drop(accepted);
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "hello");
    }
}

#[tokio::test]
async fn a_unix_socket_is_dialled_and_its_absence_is_a_refusal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let upstream = Endpoint::unix(Scheme::Http, &path).unwrap();
    assert!(matches!(dial(&upstream, LIMIT).await, Err(DialError::Refused { .. })));
    let listener = UnixListener::bind(&path).unwrap();
    assert!(matches!(dial(&upstream, LIMIT).await, Ok(Stream::Unix(_))));
    drop(listener);
    let refused = dial(&upstream, LIMIT).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("{upstream} refused the connection"));
    assert!(refused.retryable());
}

#[tokio::test]
async fn a_port_without_listener_refuses() {
    // Bound, so that nobody else gets it meanwhile.
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    taken.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let addr = taken.local_addr().unwrap().as_socket().unwrap();
    let upstream = endpoint(&format!("http://{addr}"));
    assert!(matches!(dial(&upstream, LIMIT).await, Err(DialError::Refused { .. })));
}

/// A listener whose backlog is full: the kernel ignores further connection attempts.
fn silent_listener() -> (Socket, SocketAddr, Vec<Socket>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let addr = listener.local_addr().unwrap();
    let waiting = (0..3).map(|_| {
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        client.set_nonblocking(true).unwrap();
        let _in_progress = client.connect(&addr);
        client
    });
    let waiting = waiting.collect();
    (listener, addr.as_socket().unwrap(), waiting)
}

#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_given_up_at_the_end_of_the_budget() {
    let (_listener, addr, _waiting) = silent_listener();
    let upstream = endpoint(&format!("http://{addr}"));
    for budget in [Duration::ZERO, Duration::from_millis(250)] {
        let begun = Instant::now();
        let late = dial(&upstream, budget).await.unwrap_err();
        assert!(matches!(late, DialError::Timeout { after, .. } if after == budget), "{late:?}");
        assert!(late.retryable());
        assert!(begun.elapsed() - budget <= Duration::from_millis(1), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_budget_beyond_the_clock_is_no_panic() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = endpoint(&format!("http://{}", listener.local_addr().unwrap()));
    assert!(dial(&upstream, Duration::MAX).await.is_ok());
}

#[test]
fn failures_that_need_a_hand_are_not_retried() {
    let upstream = endpoint("http://a.example:80");
    let failure = |kind: io::ErrorKind| DialError::Io { endpoint: upstream.clone(), source: kind.into() };
    for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported] {
        assert!(!failure(kind).retryable(), "{kind:?}");
    }
    for kind in [io::ErrorKind::NetworkUnreachable, io::ErrorKind::ConnectionReset, io::ErrorKind::WouldBlock]
    {
        assert!(failure(kind).retryable(), "{kind:?}");
    }
    let source = ResolveError::Failed(Arc::new(io::Error::other("no such host")));
    let unresolved = DialError::Resolve { endpoint: upstream, source };
    assert_eq!(unresolved.to_string(), "http://a.example:80 does not resolve: no such host");
    assert!(unresolved.retryable());
}

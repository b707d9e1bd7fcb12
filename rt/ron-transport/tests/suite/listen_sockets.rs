//! Listening sockets: binding and its failures, accepting on one runtime for another, closing without resets.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
};

use crate::listen_support::{connect, debug_messages, tcp_addr, tcp_listener};
use ron_transport::{
    addr::ListenAddr,
    listen::{AcceptFault, BindError, BindOptions, Listener},
    stream::{Peer, RawStream, Stream},
};
use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    runtime,
};

#[tokio::test]
async fn an_accepted_connection_knows_its_peer_and_carries_bytes_both_ways() {
    let listener = tcp_listener();
    let mut client = connect(&listener);
    let (raw, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, Peer::tcp(client.local_addr().unwrap()));
    let RawStream::Tcp(socket) = &raw else { panic!("not TCP") };
    assert!(socket.nodelay().unwrap(), "inherited from the listener");

    let mut served = raw.register().unwrap();
    assert_eq!(served.peer().unwrap(), peer);
    client.write_all(b"ping").unwrap();
    served.readable().await.unwrap();
    let mut ping = [0; 4];
    served.read_exact(&mut ping).await.unwrap();
    let parts = [io::IoSlice::new(b"po"), io::IoSlice::new(b"ng")];
    assert!(served.is_write_vectored());
    assert_eq!(served.write_vectored(&parts).await.unwrap(), 4);
    served.shutdown().await.unwrap();
    let mut pong = Vec::new();
    client.read_to_end(&mut pong).unwrap();
    assert_eq!((&ping, &pong[..]), (b"ping", &b"pong"[..]));
    assert!(listener.close().is_empty());
}

#[test]
fn a_stream_outlives_the_runtime_that_accepted_it() {
    let build = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = tcp_listener();
    let mut client = connect(&listener);
    let accepting = build();
    let (raw, _) = accepting.block_on(listener.accept()).unwrap();
    drop(listener.close());
    drop(accepting);

    let mut stream = build().block_on(async move {
        let mut stream = raw.register().unwrap();
        stream.write_all(b"first").await.unwrap();
        stream.into_raw().unwrap()
    });
    build().block_on(async move {
        if let RawStream::Tcp(socket) = &mut stream {
            socket.set_nodelay(true).unwrap();
        }
        stream.register().unwrap().write_all(b"second").await.unwrap();
    });
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "firstsecond");
}

#[tokio::test]
async fn two_callers_may_wait_for_connections_at_once() {
    let listener = tcp_listener();
    let connects = async {
        tokio::task::yield_now().await;
        (connect(&listener), connect(&listener))
    };
    let (first, second, _clients) = tokio::join!(listener.accept(), listener.accept(), connects);
    assert_ne!(first.unwrap().1, second.unwrap().1);
    drop(listener.close());
}

#[tokio::test]
async fn a_cancelled_accept_loses_no_connection() {
    let listener = tcp_listener();
    tokio::select! {
        biased;
        _ = listener.accept() => panic!("nobody has connected"),
        () = std::future::ready(()) => {}
    }
    let client = connect(&listener);
    let (_, peer) = listener.accept().await.unwrap();
    assert_eq!(peer.addr, Some(client.local_addr().unwrap()));
    drop(listener.close());
}

#[tokio::test]
async fn the_ipv6_wildcard_serves_ipv4_clients_under_their_own_address() {
    let addr: ListenAddr = "[::]:0".parse().unwrap();
    let listener = match Listener::bind(&addr, BindOptions::default()) {
        Err(BindError::FamilyOff { .. }) => return,
        bound => bound.unwrap(),
    };
    let port = tcp_addr(&listener).port();
    let client = tokio::net::TcpSocket::new_v4()
        .unwrap()
        .connect(SocketAddr::from(([127, 0, 0, 1], port)))
        .await
        .unwrap();
    let (_, peer) = listener.accept().await.unwrap();
    assert_eq!(peer.addr, Some(client.local_addr().unwrap()));
    assert!(peer.addr.unwrap().is_ipv4());
    drop(listener.close());
}

#[test]
fn a_taken_port_is_named_with_its_remedy() {
    let listener = tcp_listener();
    let port = tcp_addr(&listener).port();
    let refused = Listener::bind(listener.local_addr(), BindOptions::default()).unwrap_err();
    assert!(matches!(refused, BindError::InUse { .. }), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        format!(
            "port {port} is in use (127.0.0.1:{port}): \
             stop the other process (`ss -ltnp` shows it) or change `listen`"
        )
    );
    let addr = listener.local_addr().clone();
    drop(listener.close());
    drop(Listener::bind(&addr, BindOptions::default()).unwrap().close());
}

#[test]
fn a_port_with_connections_that_just_ended_can_be_bound_again() {
    let listener = tcp_listener();
    let addr = listener.local_addr().clone();
    let mut client = connect(&listener);
    // The side that closes first keeps the port in TIME_WAIT.
    drop(listener.close());
    client.read_to_end(&mut Vec::new()).unwrap();
    drop(client);
    drop(Listener::bind(&addr, BindOptions::default()).unwrap().close());
}

#[test]
fn what_the_system_reports_becomes_advice() {
    let tcp = |addr: &str| ListenAddr::Tcp(addr.parse().unwrap());
    let unix = ListenAddr::Unix("/run/x.sock".into());
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    for (addr, error, advice) in [
        (tcp("0.0.0.0:1023"), denied(), "CAP_NET_BIND_SERVICE"),
        (tcp("0.0.0.0:1024"), denied(), "security policy"),
        (unix.clone(), denied(), "write to the socket's directory"),
        (tcp("192.0.2.1:80"), io::ErrorKind::AddrNotAvailable.into(), "`ip addr` lists"),
        (unix.clone(), io::ErrorKind::NotFound.into(), "create it"),
        (tcp("[::1]:80"), io::Error::from_raw_os_error(97), "0.0.0.0:80"),
        (unix, io::ErrorKind::OutOfMemory.into(), "change `listen`"),
    ] {
        let text = BindError::from_io(&addr, error).to_string();
        assert!(text.contains(advice), "{text}");
    }
    let elsewhere = Listener::bind(&tcp("192.0.2.1:0"), BindOptions::default()).unwrap_err();
    assert!(matches!(elsewhere, BindError::NotAvailable { .. }), "{elsewhere:?}");
    let name = "inherit:web".parse().unwrap();
    let not_passed = Listener::bind(&name, BindOptions::default()).unwrap_err();
    assert!(not_passed.to_string().starts_with("no listener named `web` was passed in"), "{not_passed}");
}

#[test]
fn accept_errors_say_whether_to_go_on() {
    use rustix::io::Errno;
    for (errno, fault) in [
        (Errno::CONNABORTED, AcceptFault::Connection),
        (Errno::INTR, AcceptFault::Connection),
        (Errno::PROTO, AcceptFault::Connection),
        (Errno::MFILE, AcceptFault::Resources),
        (Errno::NFILE, AcceptFault::Resources),
        (Errno::NOBUFS, AcceptFault::Resources),
        (Errno::NOMEM, AcceptFault::Resources),
        (Errno::BADF, AcceptFault::Fatal),
        (Errno::INVAL, AcceptFault::Fatal),
        (Errno::NOTSOCK, AcceptFault::Fatal),
    ] {
        assert_eq!(AcceptFault::of(&errno.into()), fault, "{errno:?}");
    }
    assert_eq!(AcceptFault::of(&io::Error::other("the runtime is gone")), AcceptFault::Fatal);
}

#[tokio::test]
async fn closing_returns_who_was_waiting_so_that_none_is_reset() {
    let listener = tcp_listener();
    let clients: Vec<_> = (0..3).map(|_| connect(&listener)).collect();
    let waiting = listener.close();
    assert_eq!(waiting.len(), 3);
    for (raw, _) in waiting {
        let mut stream: Stream = raw.register().unwrap();
        stream.write_all(b"bye").await.unwrap();
        stream.shutdown().await.unwrap();
    }
    for mut client in clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "bye");
    }
}

#[test]
fn a_drained_backlog_yields_no_more_than_asked() {
    let listener = tcp_listener();
    let _clients: Vec<_> = (0..3).map(|_| connect(&listener)).collect();
    assert!(listener.drain_backlog(0).is_empty());
    assert_eq!(listener.drain_backlog(2).len(), 2);
    assert_eq!(listener.drain_backlog(2).len(), 1);
    assert!(listener.drain_backlog(2).is_empty());
    drop(listener.close());
}

#[test]
fn only_a_listener_dropped_unclosed_is_mentioned() {
    let unclosed = "a listener was dropped unclosed";
    assert_eq!(debug_messages(|| drop(tcp_listener())), [unclosed]);
    assert!(debug_messages(|| drop(tcp_listener().close())).is_empty());
    assert!(debug_messages(|| tcp_listener().release()).is_empty());
}

#[test]
fn a_socket_that_does_not_listen_is_not_taken_over() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let refused = Listener::from_tcp(socket.into()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
}

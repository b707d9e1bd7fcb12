//! Connections that stop speaking HTTP: both ends talk through us, and all ends are clean.

use std::time::Duration;

use crate::serve_support::{
    Node, PATIENCE, SHORT, client::Client, client::End, eventually, h2_client::H2Client, patient, pattern,
    tls::Identity, with_growing_time,
};
use ron_transport::tunnel::{Traffic, TunnelEnd, TunnelLimits};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use types::Reason;

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chat\r\n\r\n";

/// A server whose connections the test speaks for by hand.
struct Upstream(TcpListener);

impl Upstream {
    async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn request(&self, upgrade: &str) -> String {
        let port = self.0.local_addr().unwrap().port();
        format!("GET /relay/{port} HTTP/1.1\r\nhost: t\r\n{upgrade}\r\n")
    }

    fn upgrade(&self) -> String {
        self.request("connection: upgrade\r\nupgrade: chat\r\n")
    }

    /// Takes a connection, reads the request's head, and answers.
    async fn answer(&self, answer: impl AsRef<[u8]>) -> TcpStream {
        let (mut stream, _) = timeout(PATIENCE, self.0.accept()).await.unwrap().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_ref()).await.unwrap();
        stream
    }
}

/// A client and an upstream with a tunnel between them.
async fn tunnel(node: &Node, upstream: &Upstream) -> (Client<TcpStream>, TcpStream) {
    let mut client = node.connect().await;
    client.send(upstream.upgrade()).await;
    let far = upstream.answer(SWITCHED).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("upgrade")), (101, Some("chat")));
    (client, far)
}

async fn expect(stream: &mut (impl AsyncRead + Unpin), expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    timeout(PATIENCE, stream.read_exact(&mut got)).await.expect("bytes").unwrap();
    assert!(got == expected);
}

async fn expect_end(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("an end").unwrap();
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}

#[tokio::test]
async fn both_ends_talk_and_each_end_is_passed_on() {
    let (node, upstream) = (Node::start(patient()), Upstream::new().await);
    let (mut client, mut far) = tunnel(&node, &upstream).await;
    for _ in 0..3 {
        client.send("ping").await;
        expect(&mut far, b"ping").await;
        far.write_all(b"pong!").await.unwrap();
        expect(&mut client.stream, b"pong!").await;
    }
    client.stream.shutdown().await.unwrap();
    expect_end(&mut far).await;
    far.write_all(b"last words").await.unwrap();
    drop(far);
    assert_eq!(client.rest_and_end().await, (b"last words".to_vec(), End::Fin));
    drop(client);
    node.all_gone().await;
    let traffic = Traffic { from_client: 12, to_client: 25 };
    assert_eq!(node.desk.tunnels().ended(), [(traffic, TunnelEnd::Closed)]);
    node.stop().await;
}

#[tokio::test]
async fn what_was_sent_ahead_of_the_switch_arrives_first() {
    let (node, upstream) = (Node::start(patient()), Upstream::new().await);
    let mut client = node.connect().await;
    client.send(upstream.upgrade() + "early").await;
    let mut far = upstream.answer(format!("{SWITCHED}hello")).await;
    expect(&mut far, b"early").await;
    assert_eq!(client.answer().await.status, 101);
    far.write_all(b" again").await.unwrap();
    far.shutdown().await.unwrap();
    assert_eq!(client.rest_and_end().await, (b"hello again".to_vec(), End::Fin));
    drop((client, far));
    node.stop().await;
}

async fn mass<S: AsyncRead + AsyncWrite + Unpin>(upstream: &Upstream, mut client: Client<S>) {
    client.send(upstream.upgrade()).await;
    let far = upstream.answer(SWITCHED).await;
    assert_eq!(client.answer().await.status, 101);
    let sent = pattern(3_000_000);
    let (mut far_read, mut far_write) = far.into_split();
    let (mut near_read, mut near_write) = tokio::io::split(client.stream);
    let write_near = async {
        near_write.write_all(&sent).await.unwrap();
        near_write.flush().await.unwrap();
    };
    let write_far = async { far_write.write_all(&sent).await.unwrap() };
    tokio::join!(write_near, write_far, expect(&mut far_read, &sent), expect(&mut near_read, &sent));
}

#[tokio::test]
async fn megabytes_pass_both_ways_at_once() {
    let (node, upstream) = (Node::start(patient()), Upstream::new().await);
    mass(&upstream, node.connect().await).await;
    node.all_gone().await;
    node.stop().await;
    let identity = Identity::new();
    let node = Node::start_tls(patient(), identity.server.clone());
    mass(&upstream, identity.connect(&node).await).await;
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn an_idle_tunnel_is_closed_and_a_busy_one_is_not() {
    with_growing_time(|time| async move {
        let (node, upstream) = (Node::start(patient()), Upstream::new().await);
        node.desk.tunnels().limit(TunnelLimits { idle: time * 2, ..TunnelLimits::default() });
        let (mut client, mut far) = tunnel(&node, &upstream).await;
        for _ in 0..6 {
            tokio::time::sleep(time / 2).await;
            far.write_all(b"tick").await.unwrap();
            expect(&mut client.stream, b"tick").await;
        }
        assert_eq!(client.end().await, End::Fin);
        expect_end(&mut far).await;
        drop(client);
        node.all_gone().await;
        let traffic = Traffic { from_client: 0, to_client: 24 };
        assert_eq!(node.desk.tunnels().ended(), [(traffic, TunnelEnd::Idle)]);
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_client_that_sends_but_takes_nothing_does_not_keep_its_tunnel() {
    with_growing_time(|time| async move {
        let (node, upstream) = (Node::start(patient()), Upstream::new().await);
        node.desk.tunnels().limit(TunnelLimits { idle: time * 2, ..TunnelLimits::default() });
        let (mut client, far) = tunnel(&node, &upstream).await;
        let (mut from_client, mut to_client) = far.into_split();
        let flood = async { while to_client.write_all(&[0; 65_536]).await.is_ok() {} };
        let listen = async { while from_client.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {} };
        let trickle = async {
            while client.stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(time / 5).await;
            }
        };
        let ended =
            crate::serve_support::eventually("the tunnel ends", || !node.desk.tunnels().ended().is_empty());
        tokio::select! {
            () = ended => {}
            ((), (), ()) = async { tokio::join!(flood, listen, trickle) } => {}
        }
        eventually("the tunnel is told to have ended", || !node.desk.tunnels().ended().is_empty()).await;
        assert_eq!(node.desk.tunnels().ended()[0].1, TunnelEnd::Idle);
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_breaks_off_ends_the_tunnel_without_a_reset() {
    let (node, upstream) = (Node::start(patient()), Upstream::new().await);
    let (mut client, far) = tunnel(&node, &upstream).await;
    far.set_zero_linger().unwrap();
    drop(far);
    assert_eq!(client.end().await, End::Fin);
    drop(client);
    node.all_gone().await;
    assert_eq!(node.desk.tunnels().ended(), [(Traffic::default(), TunnelEnd::Broken)]);
    node.stop().await;
}

#[tokio::test]
async fn a_tunnel_is_closed_when_the_grace_after_the_drain_of_requests_is_over() {
    let (node, upstream) = (Node::start(patient()), Upstream::new().await);
    node.desk.tunnels().limit(TunnelLimits { grace: SHORT, ..TunnelLimits::default() });
    let (mut client, mut far) = tunnel(&node, &upstream).await;
    node.begin_stop();
    assert_eq!(client.end().await, End::Fin);
    expect_end(&mut far).await;
    drop((client, far));
    assert_eq!(node.stopped().await, 1, "ended because the node stops");
}

#[tokio::test]
async fn a_tunnel_outlives_the_drain_of_requests_and_if_it_ends_by_itself_does_not_hold_it_up() {
    let (node, upstream) = (Node::start(patient()), Upstream::new().await);
    node.desk.tunnels().limit(TunnelLimits { grace: Duration::from_secs(3600), ..TunnelLimits::default() });
    let (mut client, mut far) = tunnel(&node, &upstream).await;
    node.begin_stop();
    eventually("the node drains", || node.scope.shutdown().is_draining()).await;
    client.send("still there").await;
    expect(&mut far, b"still there").await;
    drop((client, far));
    assert_eq!(node.stopped().await, 0);
}

#[tokio::test]
async fn a_switch_that_nobody_asked_for_is_refused() {
    let (node, upstream) = (Node::start(patient()), Upstream::new().await);
    let mut client = node.connect().await;
    client.send(upstream.request("")).await;
    let mut far = upstream.answer(SWITCHED).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 502);
    expect_end(&mut far).await;
    assert_eq!(client.get("/").await.text(), "hello", "the connection goes on");

    let h2 = H2Client::new(node.tcp().await).await;
    let port = upstream.0.local_addr().unwrap().port();
    let path = format!("/relay/{port}");
    let (answer, _far) = tokio::join!(h2.get(&path), upstream.answer(SWITCHED));
    assert_eq!(answer.status, 502);
    assert_eq!(node.rejected(Reason::BadGateway), 2);
    drop((client, h2));
    node.stop().await;
}

#[tokio::test]
async fn an_upgrade_that_is_declined_is_an_ordinary_answer() {
    let (node, upstream) = (Node::start(patient()), Upstream::new().await);
    let mut client = node.connect().await;
    client.send(upstream.upgrade()).await;
    let _far = upstream.answer("HTTP/1.1 426 Upgrade Required\r\ncontent-length: 2\r\n\r\nno").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.text()), (426, "no"));
    assert_eq!(client.get("/").await.text(), "hello");
    node.stop().await;
}

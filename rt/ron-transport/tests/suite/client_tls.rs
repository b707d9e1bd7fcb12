//! Servers behind TLS: who they prove to be, and which version of HTTP they choose.

use std::sync::Arc;

use crate::serve_support::{Node, patient, pattern, relay::Nowhere, tls::Identity};
use http_body_util::BodyExt;
use ron_transport::{
    Body, Request,
    client::{AnyConn, ConnectError, H2Options, HttpConn, Protocol, Security, connect},
    stream::Stream,
    tls::testkit::HANDSHAKE_LIMIT,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn request(path: &str, body: impl Into<Body>) -> Request {
    http::Request::builder().method("POST").uri(path).header("host", "t.test").body(body.into()).unwrap()
}

async fn dial(
    node: &Node,
    identity: &Identity,
    name: &str,
    offered: Protocol,
    wanted: Protocol,
) -> Result<AnyConn, ConnectError> {
    let tls = identity.client(offered.alpn());
    let security = Security::Tls { tls: &tls, server_name: name, limit: HANDSHAKE_LIMIT };
    let stream = Stream::Tcp(node.tcp().await);
    connect(stream, security, wanted, &H2Options::default(), &node.drivers()).await
}

async fn echo(conn: AnyConn) -> &'static str {
    let sent = bytes::Bytes::from(pattern(300_000));
    let (response, spoken) = match conn {
        AnyConn::Http1(conn) => {
            (conn.send(&mut request("/echo", sent.clone()), Arc::new(Nowhere)).await, "http/1.1")
        }
        AnyConn::Http2(conn) => (conn.send(request("/echo", sent.clone()), Arc::new(Nowhere)).await, "h2"),
    };
    let body = response.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert!(body == sent);
    spoken
}

#[tokio::test]
async fn the_server_chooses_the_version_unless_we_insist() {
    let identity = Identity::new();
    let node = Node::start_tls(patient(), identity.server.clone());
    for (protocol, expected) in
        [(Protocol::Auto, "h2"), (Protocol::Http1, "http/1.1"), (Protocol::Http2, "h2")]
    {
        let conn = dial(&node, &identity, "t.test", protocol, protocol).await.unwrap();
        assert_eq!(echo(conn).await, expected);
    }
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn a_version_that_was_not_agreed_is_not_spoken() {
    let identity = Identity::new();
    let node = Node::start_tls(patient(), identity.server.clone());
    for (offered, wanted) in [(Protocol::Http2, Protocol::Http1), (Protocol::Http1, Protocol::Http2)] {
        let outcome = dial(&node, &identity, "t.test", offered, wanted).await;
        assert!(matches!(outcome, Err(ConnectError::Protocol { wanted: w }) if w == wanted), "{outcome:?}");
    }
    let auto = dial(&node, &identity, "t.test", Protocol::Http1, Protocol::Auto).await.unwrap();
    assert!(matches!(auto, AnyConn::Http1(_)), "{auto:?}");
    drop(auto);
    node.stop().await;
}

#[tokio::test]
async fn a_server_that_proves_to_be_another_gets_no_request() {
    let (identity, stranger) = (Identity::new(), Identity::new());
    let node = Node::start_tls(patient(), identity.server.clone());
    let protocol = Protocol::Auto;
    for outcome in [
        dial(&node, &identity, "other.test", protocol, protocol).await,
        dial(&node, &stranger, "t.test", protocol, protocol).await,
    ] {
        assert!(matches!(outcome, Err(ConnectError::Handshake(_))), "{outcome:?}");
    }
    assert_eq!(node.desk.begun(), 0);
    node.stop().await;
}

#[tokio::test]
async fn in_the_clear_http2_is_spoken_only_if_we_insist() {
    let node = Node::start(patient());
    for (protocol, expected) in
        [(Protocol::Auto, "http/1.1"), (Protocol::Http1, "http/1.1"), (Protocol::Http2, "h2")]
    {
        let stream = Stream::Tcp(node.tcp().await);
        let options = H2Options::default();
        let conn = connect(stream, Security::Clear, protocol, &options, &node.drivers()).await.unwrap();
        assert_eq!(echo(conn).await, expected);
    }
    node.stop().await;
}

/// The body of an answer that ends with its connection, whose server closes in good order or just goes.
async fn until_the_end(closes: bool) -> Result<bytes::Bytes, ron_transport::BodyError> {
    let identity = Identity::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = crate::serve_support::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let tls = identity.client(Protocol::Http1.alpn());
    let serving = async {
        let mut far = identity.server.accept(far, HANDSHAKE_LIMIT).await.unwrap();
        assert!(far.read(&mut [0; 1024]).await.unwrap() > 0);
        far.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").await.unwrap();
        far.flush().await.unwrap();
        if closes {
            far.shutdown().await.unwrap();
        }
    };
    let asking = async {
        let near = tls.connect(Stream::Tcp(near), "t.test", HANDSHAKE_LIMIT).await.unwrap();
        let conn = HttpConn::open_tls(near);
        let response = conn.send(&mut request("/", ""), Arc::new(Nowhere)).await.unwrap();
        response.into_body().collect().await
    };
    let (body, ()) = tokio::join!(asking, serving);
    body.map(http_body_util::Collected::to_bytes)
}

#[tokio::test]
async fn an_answer_that_ends_with_its_session_is_whole_only_if_the_server_says_so() {
    assert_eq!(until_the_end(true).await.unwrap(), "half");
    assert!(until_the_end(false).await.is_err(), "cut off without close_notify");
}

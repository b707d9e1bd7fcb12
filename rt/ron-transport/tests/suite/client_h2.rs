//! The client side of HTTP/2: many requests on one connection, and none in another's way.

#![expect(clippy::disallowed_methods, reason = "a test's clients run beside it")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::serve_support::{Node, PATIENCE, SHORT, eventually, patient, pattern, relay::Nowhere};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, StreamBody};
use ron_transport::{
    Body, BodyError, Request,
    client::{H2Conn, H2Options, Home, HttpConn},
    serve::HttpLimits,
    stream::Stream,
};
use tokio::time::timeout;

fn request(method: &str, path: &str, body: impl Into<Body>) -> Request {
    http::Request::builder().method(method).uri(path).header("host", "t").body(body.into()).unwrap()
}

async fn open(node: &Node, options: H2Options) -> H2Conn {
    H2Conn::open(Stream::Tcp(node.tcp().await), &options, &node.drivers()).await.unwrap()
}

async fn ask(conn: &H2Conn, request: Request) -> Bytes {
    let response =
        timeout(PATIENCE, conn.send(request, Arc::new(Nowhere))).await.expect("an answer").unwrap();
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn one_connection_serves_many_requests_at_once() {
    let node = Node::start(patient());
    let conn = open(&node, H2Options::default()).await;
    let asked: Vec<_> = (0..50).map(|i| (i * 7_000, conn.clone())).collect();
    let mut all = tokio::task::JoinSet::new();
    for (length, conn) in asked {
        all.spawn(async move {
            let get = ask(&conn, request("GET", &format!("/whole/{length}"), "")).await;
            let post = ask(&conn, request("POST", "/echo", Bytes::from(pattern(length)))).await;
            get == pattern(length) && post == pattern(length)
        });
    }
    assert!(all.join_all().await.into_iter().all(|right| right));
    assert_eq!((node.live("connection"), node.desk.begun()), (1, 100));
    assert_eq!((conn.in_flight(), conn.is_alive()), (0, true));
    drop(conn);
    eventually("the connection closes with its last user", || node.live("h2_upstream") == 0).await;
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn readers_that_stall_stop_nobody_else() {
    let node = Node::start(patient());
    let conn = open(&node, H2Options { streams: 20, ..H2Options::default() }).await;
    let mut stalled = Vec::new();
    for _ in 0..19 {
        stalled.push(conn.send(request("GET", "/whole/5000000", ""), Arc::new(Nowhere)).await.unwrap());
    }
    for _ in 0..3 {
        assert!(ask(&conn, request("GET", "/whole/1000000", "")).await == pattern(1_000_000));
    }
    for response in stalled {
        assert!(response.into_body().collect().await.unwrap().to_bytes() == pattern(5_000_000));
    }
    drop(conn);
    node.stop().await;
}

#[tokio::test]
async fn requests_beyond_our_limit_wait_for_their_turn() {
    let node = Node::start(patient());
    let conn = open(&node, H2Options { streams: 2, ..H2Options::default() }).await;
    let held = |conn: &H2Conn| {
        let conn = conn.clone();
        async move { ask(&conn, request("GET", "/held", "")).await }
    };
    let (one, two, three) = (held(&conn), held(&conn), held(&conn));
    let watched = async {
        node.desk.has_begun(2).await;
        assert!(!conn.has_room());
        tokio::time::sleep(SHORT / 5).await;
        assert_eq!(node.desk.begun(), 2);
        node.desk.let_go(1);
        node.desk.has_begun(3).await;
        node.desk.let_go(2);
    };
    let (a, b, c, ()) = tokio::join!(one, two, three, watched);
    assert_eq!([a, b, c], ["held", "held", "held"]);
    assert!(conn.has_room());
    drop(conn);
    node.stop().await;
}

#[tokio::test]
async fn requests_beyond_the_servers_limit_wait_for_their_turn() {
    let node = Node::start(HttpLimits { h2_streams: 1, ..patient() });
    let conn = open(&node, H2Options::default()).await;
    ask(&conn, request("GET", "/", "")).await;
    let mut all = tokio::task::JoinSet::new();
    let first = conn.clone();
    all.spawn(async move { ask(&first, request("GET", "/held", "")).await == "held" });
    node.desk.has_begun(2).await;
    assert!(!conn.has_room());
    for _ in 0..10 {
        let conn = conn.clone();
        all.spawn(async move {
            let sent = pattern(100_000);
            ask(&conn, request("POST", "/echo", Bytes::from(sent.clone()))).await == sent
        });
    }
    node.desk.let_go(1);
    assert!(all.join_all().await.into_iter().all(|right| right));
    drop(conn);
    node.stop().await;
}

#[tokio::test]
async fn giving_a_request_up_resets_its_stream_only() {
    let node = Node::start(patient());
    let conn = open(&node, H2Options::default()).await;
    tokio::select! {
        answer = conn.send(request("GET", "/held", ""), Arc::new(Nowhere)) => panic!("{answer:?}"),
        () = node.desk.has_begun(1) => {}
    }
    eventually("the server gives it up too", || node.desk.dropped() == 1).await;
    let midway = conn.send(request("GET", "/whole/5000000", ""), Arc::new(Nowhere)).await.unwrap();
    drop(midway);
    assert_eq!(ask(&conn, request("GET", "/", "")).await, "hello");
    assert_eq!((node.live("connection"), conn.in_flight()), (1, 0));
    drop(conn);
    node.stop().await;
}

#[tokio::test]
async fn a_long_upload_passes_while_its_echo_is_read() {
    let node = Node::start(patient());
    let conn = open(&node, H2Options::default()).await;
    let echoed = ask(&conn, request("POST", "/echo", Bytes::from(pattern(5_000_000)))).await;
    assert!(echoed == pattern(5_000_000));
    drop(conn);
    node.stop().await;
}

/// A body of one frame and trailers.
fn with_trailers() -> Body {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [http_body::Frame::data(Bytes::from("message")), http_body::Frame::trailers(trailers)];
    let stream = futures_util::stream::iter(frames.map(Ok::<_, BodyError>));
    Body::streaming(StreamBody::new(stream))
}

#[tokio::test]
async fn trailers_pass_through_a_gateway_both_ways() {
    let (gateway, upstream) = (Node::start(patient()), Node::start(patient()));
    let conn = open(&gateway, H2Options::default()).await;
    let mut call = request("POST", &format!("/relay-h2/{}", upstream.addr().port()), "");
    *call.body_mut() = with_trailers();
    call.headers_mut().insert("te", "trailers".parse().unwrap());
    let response = conn.send(call, Arc::new(Nowhere)).await.unwrap();
    assert_eq!(response.status(), 200);
    let collected = response.into_body().collect().await.unwrap();
    let status = collected.trailers().map(|trailers| trailers["grpc-status"].clone());
    assert_eq!((status, collected.to_bytes()), (Some("0".parse().unwrap()), Bytes::from("message")));
    drop(conn);
    gateway.stop().await;
    upstream.stop().await;
}

#[tokio::test]
async fn trailers_that_could_change_a_request_are_not_sent() {
    let node = Node::start(patient());
    let conn = open(&node, H2Options::default()).await;
    let mut trailers = HeaderMap::new();
    for name in
        ["x-checksum", "authorization", "content-length", "x-omnigate-tenant", "x-forwarded-for", "host"]
    {
        trailers.insert(name, "1".parse().unwrap());
    }
    let frames = [http_body::Frame::data(Bytes::from("message")), http_body::Frame::trailers(trailers)];
    let stream = futures_util::stream::iter(frames.map(Ok::<_, BodyError>));
    let mut call = request("POST", "/trailers", "");
    *call.body_mut() = Body::streaming(StreamBody::new(stream));
    assert_eq!(ask(&conn, call).await, "0 x-checksum");
    drop(conn);
    node.stop().await;
}

/// Counts stalls.
#[derive(Default)]
struct Stalls(AtomicUsize);

impl Home for Stalls {
    fn put_back(&self, _: HttpConn) {}

    fn stalled(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_body_that_stalls_ends_with_an_error_and_the_connection_lives() {
    let node = Node::start(patient());
    let options = H2Options { stall_limit: Some(SHORT), ..H2Options::default() };
    let conn = open(&node, options).await;
    let stalls = Arc::new(Stalls::default());
    let body = futures_util::stream::pending::<Result<http_body::Frame<Bytes>, BodyError>>();
    let body = Body::streaming(StreamBody::new(body));
    // The echo of an upload that does not go on.
    let response = conn.send(request("POST", "/echo", body), stalls.clone()).await.unwrap();
    let error = timeout(PATIENCE, response.into_body().collect()).await.expect("an end").unwrap_err();
    assert!(error.to_string().contains("stalled"), "{error}");
    assert_eq!(stalls.0.load(Ordering::SeqCst), 0, "the server waits for the rest of the request");
    // Without a body that a busy machine could be late with.
    assert_eq!(ask(&conn, request("GET", "/empty", "")).await, "");
    drop(conn);
    node.stop().await;
}

#[tokio::test]
async fn a_connection_that_is_kept_does_not_hold_a_drain_up() {
    let (node, upstream) = (Node::start(patient()), Node::start(patient()));
    let stream = Stream::Tcp(upstream.tcp().await);
    let conn = H2Conn::open(stream, &H2Options::default(), &node.drivers()).await.unwrap();
    assert_eq!(ask(&conn, request("GET", "/", "")).await, "hello");
    assert_eq!(node.live("h2_upstream"), 1);
    node.stop().await;
    assert!(!conn.is_alive());
    upstream.all_gone().await;
    upstream.stop().await;
}

#[tokio::test]
async fn a_server_that_drains_gets_no_more_requests() {
    let node = Node::start(patient());
    let other = Node::start(patient());
    let stream = Stream::Tcp(node.tcp().await);
    let conn = H2Conn::open(stream, &H2Options::default(), &other.drivers()).await.unwrap();
    let held = {
        let conn = conn.clone();
        async move { ask(&conn, request("GET", "/held", "")).await }
    };
    let draining = async {
        node.desk.has_begun(1).await;
        node.begin_stop();
        eventually("the GOAWAY arrives", || !conn.is_alive()).await;
        let fault = conn.send(request("POST", "/echo", "whole"), Arc::new(Nowhere)).await.unwrap_err();
        let ron_transport::client::SendFault::Unsent(request) = fault else {
            panic!("{fault}");
        };
        assert_eq!((request.uri().path(), request.headers()["host"].to_str().unwrap()), ("/echo", "t"));
        assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "whole");
        node.desk.let_go(1);
    };
    let (answer, ()) = tokio::join!(timeout(PATIENCE + Duration::from_secs(1), held), draining);
    assert_eq!(answer.unwrap(), "held", "what was under way is finished");
    drop(conn);
    node.stopped().await;
    other.stop().await;
}

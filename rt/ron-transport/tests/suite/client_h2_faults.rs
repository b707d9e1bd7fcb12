//! HTTP/2 servers that refuse, leave, or fall silent: what is retried and what is not.

use std::{sync::Arc, time::Duration};

use crate::serve_support::{
    Node, PATIENCE, SHORT, eventually,
    frames::{self, DATA, GOAWAY, HEADERS, PREFACE, RST_STREAM, Raw, SETTINGS, frame},
    patient, pattern,
    relay::Nowhere,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use ron_transport::{
    Body, Request, Response,
    client::{H2Conn, H2Options, SendFault},
    stream::Stream,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const REFUSED_STREAM: u32 = 7;
const INTERNAL_ERROR: u32 = 2;

fn post(body: impl Into<Body>) -> Request {
    http::Request::builder().method("POST").uri("/a").header("host", "t").body(body.into()).unwrap()
}

/// A connection, and its server's end with the preface read and settings sent.
async fn connected(node: &Node, options: H2Options) -> (H2Conn, Raw<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = crate::serve_support::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    let conn = H2Conn::open(Stream::Tcp(near), &options, &node.drivers()).await.unwrap();
    let mut preface = [0; PREFACE.len()];
    far.read_exact(&mut preface).await.unwrap();
    assert_eq!(preface, PREFACE);
    let mut far = Raw(far);
    far.send(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    (conn, far)
}

fn goaway(last_stream: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last_stream.to_be_bytes(), [0; 4]].concat())
}

/// Sends a request, and answers its head with those frames; then the server's end closes if `closes`.
async fn answered(
    node: &Node,
    request: Request,
    answer: impl Fn(u32) -> Vec<u8>,
    closes: bool,
) -> Result<Response, SendFault> {
    answered_after(HEADERS, node, request, answer, closes).await
}

/// The same, once a frame of that kind has come.
async fn answered_after(
    kind: u8,
    node: &Node,
    request: Request,
    answer: impl Fn(u32) -> Vec<u8>,
    closes: bool,
) -> Result<Response, SendFault> {
    let (conn, mut far) = connected(node, H2Options::default()).await;
    let server = async {
        let heard = far.until(kind).await.unwrap();
        far.send(&answer(heard.stream)).await.unwrap();
        if closes {
            // What was sent meanwhile is read, or the end would be a reset, which can overtake the answer.
            far.0.shutdown().await.unwrap();
        }
        far.rest().await;
    };
    let client =
        async { timeout(PATIENCE, conn.send(request, Arc::new(Nowhere))).await.expect("an outcome") };
    tokio::select! {
        outcome = client => outcome,
        () = async { server.await; std::future::pending().await } => unreachable!(),
    }
}

async fn comes_back(outcome: Result<Response, SendFault>, body: &[u8]) {
    match outcome {
        Err(SendFault::Unsent(request)) => {
            assert_eq!((request.uri().to_string(), request.headers().len()), ("/a".to_owned(), 1));
            assert!(request.into_body().collect().await.unwrap().to_bytes() == body);
        }
        other => panic!("not unsent: {other:?}"),
    }
}

#[tokio::test]
async fn what_the_server_has_not_looked_at_comes_back_whole() {
    let node = Node::start(patient());
    let refuse = |stream| frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes());
    for body in [0, 10, 500_000] {
        let whole = || Bytes::from(pattern(body));
        comes_back(answered(&node, post(whole()), refuse, false).await, &pattern(body)).await;
        comes_back(answered(&node, post(whole()), |_| goaway(0), false).await, &pattern(body)).await;
        comes_back(answered(&node, post(whole()), |_| goaway(0), true).await, &pattern(body)).await;
    }
    node.stop().await;
}

#[tokio::test]
async fn what_the_server_may_have_begun_does_not_come_back() {
    let node = Node::start(patient());
    let fail = |stream| frame(RST_STREAM, 0, stream, &INTERNAL_ERROR.to_be_bytes());
    for (answer, closes) in [
        (Box::new(fail) as Box<dyn Fn(u32) -> Vec<u8>>, false),
        (Box::new(goaway), true),
        (Box::new(|_| Vec::new()), true),
    ] {
        let outcome = answered(&node, post("whole"), answer, closes).await;
        assert!(matches!(outcome, Err(SendFault::Broken(_))), "{outcome:?}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_body_of_which_part_is_gone_does_not_come_back() {
    let node = Node::start(patient());
    let refuse = |stream| frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes());
    let frames = [Ok(http_body::Frame::data(Bytes::from("part")))];
    let stream =
        futures_util::StreamExt::chain(futures_util::stream::iter(frames), futures_util::stream::pending());
    let body = Body::streaming(http_body_util::StreamBody::new(stream));
    let outcome = answered_after(DATA, &node, post(body), refuse, false).await;
    assert!(matches!(outcome, Err(SendFault::Broken(_))), "{outcome:?}");

    let untouched = http_body_util::StreamBody::new(futures_util::stream::pending::<Result<_, _>>());
    let outcome = answered(&node, post(Body::streaming(untouched)), refuse, false).await;
    assert!(matches!(outcome, Err(SendFault::Unsent(_))), "{outcome:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_server_that_falls_silent_is_found_out_while_it_owes_an_answer() {
    let node = Node::start(patient());
    let options = H2Options { ping_every: SHORT, ping_timeout: SHORT, ..H2Options::default() };
    let (conn, _far) = connected(&node, options).await;
    tokio::time::sleep(SHORT * 3).await;
    assert!(conn.is_alive(), "nobody waits, so nobody asks");
    let outcome = timeout(PATIENCE, conn.send(post(""), Arc::new(Nowhere))).await.expect("an end");
    assert!(matches!(outcome, Err(SendFault::Broken(_))), "{outcome:?}");
    eventually("its task ends", || node.live("h2_upstream") == 0).await;
    node.stop().await;
}

#[tokio::test]
async fn a_server_that_answers_pings_may_take_its_time() {
    let node = Node::start(patient());
    let options = H2Options { ping_every: SHORT / 5, ping_timeout: PATIENCE, ..H2Options::default() };
    let (conn, mut far) = connected(&node, options).await;
    let server = async {
        let head = far.until(HEADERS).await.unwrap();
        for _ in 0..5 {
            let ping = far.until(frames::PING).await.unwrap();
            far.send(&frame(frames::PING, frames::ACK, 0, &ping.payload)).await.unwrap();
        }
        // `:status: 200` of the static table.
        let flags = frames::END_HEADERS | frames::END_STREAM;
        far.send(&frame(HEADERS, flags, head.stream, &[0x88])).await.unwrap();
    };
    let asked = timeout(PATIENCE + Duration::from_secs(1), conn.send(post(""), Arc::new(Nowhere)));
    let (answer, ()) = tokio::join!(asked, server);
    assert_eq!(answer.unwrap().unwrap().status(), 200);
    drop((conn, far));
    node.stop().await;
}

const NO_ERROR: [u8; 4] = [0; 4];

/// The head of an answer: `:status: 200` of the static table, and those fields.
fn ok(stream: u32, fields: &[(&str, &str)], flags: u8) -> Vec<u8> {
    let block = [vec![0x88], frames::block(fields)].concat();
    frame(HEADERS, frames::END_HEADERS | flags, stream, &block)
}

/// A body that never ends.
fn endless() -> Body {
    let frames = [Ok(http_body::Frame::data(Bytes::from("part")))];
    let stream =
        futures_util::StreamExt::chain(futures_util::stream::iter(frames), futures_util::stream::pending());
    Body::streaming(http_body_util::StreamBody::new(stream))
}

/// What becomes of an answer's body; the request's is whole or never ends.
async fn body_of(
    whole_request: bool,
    answer: impl Fn(u32) -> Vec<u8>,
    closes: bool,
) -> Result<(Bytes, bool), ()> {
    let node = Node::start(patient());
    let (conn, mut far) = connected(&node, H2Options::default()).await;
    let server = async {
        let stream = far.until(HEADERS).await.unwrap().stream;
        far.until(DATA).await.unwrap();
        far.send(&answer(stream)).await.unwrap();
        if closes {
            far.0.shutdown().await.unwrap();
        }
        far.rest().await;
    };
    let request = if whole_request { post("whole") } else { post(endless()) };
    let client = async {
        let response = conn.send(request, Arc::new(Nowhere)).await.map_err(drop)?;
        let body = response.into_body().collect().await.map_err(drop)?;
        let has_trailers = body.trailers().is_some();
        Ok((body.to_bytes(), has_trailers))
    };
    let outcome = tokio::select! {
        outcome = timeout(PATIENCE, client) => outcome.expect("an outcome"),
        () = async { server.await; std::future::pending().await } => unreachable!(),
    };
    drop((conn, far));
    node.stop().await;
    outcome
}

#[tokio::test]
async fn an_answer_that_the_server_resets_midway_is_broken_though_it_says_no_error() {
    for whole_request in [true, false] {
        for fields in [&[][..], &[("content-length", "9")]] {
            let answer = |stream| {
                let half = frame(DATA, 0, stream, b"half");
                [ok(stream, fields, 0), half, frame(RST_STREAM, 0, stream, &NO_ERROR)].concat()
            };
            let outcome = body_of(whole_request, answer, false).await;
            assert_eq!(outcome, Err(()), "{fields:?}, request whole: {whole_request}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_has_ended_is_whole_though_its_request_is_reset() {
    let stop = |stream| frame(RST_STREAM, 0, stream, &NO_ERROR);
    let in_data = |stream| {
        [ok(stream, &[], 0), frame(DATA, frames::END_STREAM, stream, b"whole"), stop(stream)].concat()
    };
    assert_eq!(body_of(false, in_data, false).await, Ok((Bytes::from("whole"), false)));
    let in_trailers = |stream| {
        let flags = frames::END_HEADERS | frames::END_STREAM;
        let trailers = frame(HEADERS, flags, stream, &frames::block(&[("grpc-status", "0")]));
        [ok(stream, &[], 0), frame(DATA, 0, stream, b"whole"), trailers, stop(stream)].concat()
    };
    assert_eq!(body_of(false, in_trailers, false).await, Ok((Bytes::from("whole"), true)));
    let in_head = |stream| [ok(stream, &[("grpc-status", "12")], frames::END_STREAM), stop(stream)].concat();
    assert_eq!(body_of(false, in_head, false).await, Ok((Bytes::new(), false)));
}

#[tokio::test]
async fn an_answer_that_is_not_as_long_as_it_says_is_broken() {
    for (length, flags, closes) in [
        // Longer, shorter, and cut off by the end of the connection.
        (Some("4"), frames::END_STREAM, false),
        (Some("6"), frames::END_STREAM, false),
        (Some("6"), 0, true),
        (None, 0, true),
    ] {
        let fields: Vec<_> = length.iter().map(|&length| ("content-length", length)).collect();
        let answer = |stream| [ok(stream, &fields, 0), frame(DATA, flags, stream, b"bytes")].concat();
        assert_eq!(body_of(true, answer, closes).await, Err(()), "{length:?}");
        let leaving =
            |stream| [ok(stream, &fields, 0), goaway(stream), frame(DATA, flags, stream, b"bytes")].concat();
        assert_eq!(body_of(true, leaving, closes).await, Err(()), "{length:?} with a GOAWAY");
    }
}

#[tokio::test]
async fn lengths_that_agree_are_one_and_others_are_refused() {
    let sent = |lengths: &'static [&'static str]| async move {
        let fields: Vec<_> = lengths.iter().map(|&length| ("content-length", length)).collect();
        let node = Node::start(patient());
        let answer =
            |stream| [ok(stream, &fields, 0), frame(DATA, frames::END_STREAM, stream, b"bytes")].concat();
        let outcome = answered(&node, post("whole"), answer, false).await;
        let lengths = outcome.map(|response| {
            let values = response.headers().get_all("content-length").iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        });
        node.stop().await;
        lengths.ok()
    };
    assert_eq!(sent(&["5"]).await, Some(vec!["5".to_owned()]));
    assert_eq!(sent(&["5", "5"]).await, Some(vec!["5".to_owned()]));
    for refused in [&["5", "6"][..], &["5, 6"], &["+5"], &["-5"], &["0x5"], &["5 5"], &[""]] {
        assert_eq!(sent(refused).await, None, "{refused:?}");
    }
}

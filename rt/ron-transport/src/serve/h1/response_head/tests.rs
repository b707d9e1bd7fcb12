//! Heads as they go out, for each kind of request and of body.

use bytes::Bytes;
use http::HeaderName;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::*;
use crate::{Body, BodyError};

/// A body whose length nobody knows.
struct Unsized;

impl HttpBody for Unsized {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        std::task::Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::new()
    }
}

fn response(status: u16, fields: &[(&'static str, &'static str)], body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    for (name, value) in fields {
        response.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// The head as text without its date, and what follows it.
fn written(response: &Response, method: Method, version: Version, keep_alive: bool) -> (String, Outcome) {
    let mut out = Vec::new();
    let outcome = write(response, &Answering { method, version, keep_alive }, Duration::ZERO, &mut out);
    let text = String::from_utf8(out).expect("it is text");
    let text = text.strip_suffix("\r\n\r\n").expect("a head ends with an empty line").to_owned();
    (text.replace("\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT", ""), outcome)
}

const GET: Method = Method::GET;
const HTTP_11: Version = Version::HTTP_11;

#[test]
fn a_body_ends_by_its_length_its_chunks_or_the_connection() {
    let known = || response(200, &[("x", "1"), ("x", "2")], Body::from("abc"));
    let (text, outcome) = written(&known(), GET, HTTP_11, true);
    assert_eq!(text, "HTTP/1.1 200 OK\r\nx: 1\r\nx: 2\r\ncontent-length: 3");
    assert_eq!(outcome, Outcome { announced: Some(Announced::Length(3)), keep_alive: true });

    let unknown = |fields: &[_]| response(200, fields, Body::streaming(Unsized));
    let (text, outcome) = written(&unknown(&[("trailer", "a"), ("trailer", "b")]), GET, HTTP_11, true);
    assert_eq!(text, "HTTP/1.1 200 OK\r\ntrailer: a\r\ntrailer: b\r\ntransfer-encoding: chunked");
    let trailers = Some(HeaderValue::from_static("a, b"));
    assert_eq!(outcome, Outcome { announced: Some(Announced::Chunked(trailers)), keep_alive: true });

    let (text, outcome) = written(&unknown(&[("content-length", "7")]), GET, HTTP_11, true);
    assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 7");
    assert_eq!(outcome.announced, Some(Announced::Length(7)));

    let (text, outcome) = written(&unknown(&[]), GET, Version::HTTP_10, true);
    assert_eq!(text, "HTTP/1.0 200 OK\r\nconnection: close");
    assert_eq!(outcome, Outcome { announced: Some(Announced::Connection), keep_alive: false });
}

#[test]
fn what_a_service_says_of_framing_does_not_count() {
    let fields = [("content-length", "9"), ("transfer-encoding", "gzip"), ("connection", "x-y")];
    let (text, outcome) = written(&response(200, &fields, Body::from("abc")), GET, HTTP_11, true);
    assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 3");
    assert!(outcome.keep_alive);
    let (text, _) = written(&response(200, &[("content-length", "1, 1")], Body::empty()), GET, HTTP_11, true);
    assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 0");
}

#[test]
fn responses_without_a_body_say_what_its_length_would_be() {
    let head = |response: &Response| written(response, Method::HEAD, HTTP_11, true);
    let (text, outcome) = head(&response(200, &[], Body::from("abc")));
    assert_eq!((&*text, outcome.announced), ("HTTP/1.1 200 OK\r\ncontent-length: 3", None));
    let (text, outcome) = head(&response(200, &[("content-length", "8")], Body::empty()));
    assert_eq!((&*text, outcome.announced), ("HTTP/1.1 200 OK\r\ncontent-length: 8", None));
    assert_eq!(head(&response(200, &[], Body::empty())).0, "HTTP/1.1 200 OK");

    let (text, outcome) =
        written(&response(204, &[("content-length", "0")], Body::empty()), GET, HTTP_11, true);
    assert_eq!((&*text, outcome.announced), ("HTTP/1.1 204 No Content", None));
    let (text, outcome) =
        written(&response(304, &[("content-length", "5")], Body::from("abc")), GET, HTTP_11, true);
    assert_eq!((&*text, outcome.announced), ("HTTP/1.1 304 Not Modified\r\ncontent-length: 5", None));
}

#[test]
fn a_client_is_told_whether_it_may_go_on() {
    let empty = || response(200, &[], Body::empty());
    assert_eq!(
        written(&empty(), GET, HTTP_11, false).0,
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close"
    );
    let (text, outcome) = written(&empty(), GET, Version::HTTP_10, true);
    assert_eq!(text, "HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive");
    assert!(outcome.keep_alive);
    let (text, outcome) =
        written(&response(200, &[("connection", "Close")], Body::empty()), GET, HTTP_11, true);
    assert_eq!(text, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close");
    assert!(!outcome.keep_alive);
}

#[test]
fn a_switch_of_protocols_keeps_its_fields() {
    let fields = [("connection", "upgrade"), ("upgrade", "websocket")];
    let (text, outcome) = written(&response(101, &fields, Body::empty()), GET, HTTP_11, true);
    assert_eq!(text, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket");
    assert_eq!(outcome.announced, None);
}

#[test]
fn a_date_that_is_there_stays_and_a_status_without_a_name_has_none() {
    let (text, _) = written(&response(599, &[("date", "today")], Body::empty()), GET, HTTP_11, true);
    assert_eq!(text, "HTTP/1.1 599 \r\ndate: today\r\ncontent-length: 0");
    let longest = response(200, &[("content-length", "18446744073709551615")], Body::streaming(Unsized));
    assert!(written(&longest, GET, HTTP_11, true).0.ends_with("content-length: 18446744073709551615"));
}

//! Messages that HTTP/2 calls malformed: in requests and in answers, in heads and in trailers.

use crate::{
    h2_frames::{DATA, END_HEADERS, END_STREAM, H2Client, HEADERS, block, frame},
    h2_server::{H2Server, ok},
    support::{Client, Node, Upstream},
};

/// Trailers that make a message malformed; with each its name.
fn malformed_trailers() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a pseudo-header field of the static table", vec![0x83]),
        ("a pseudo-header field as a literal", block(&[("x", "y"), (":path", "/other")])),
        ("blanks before a value", block(&[("x", " y")])),
        ("blanks after a value", block(&[("x", "y\t")])),
        ("connection", block(&[("connection", "x")])),
        ("transfer-encoding", block(&[("transfer-encoding", "chunked")])),
        ("te", block(&[("te", "gzip")])),
    ]
}

#[test]
fn requests_with_malformed_trailers_are_refused_and_their_connection_goes_on() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    let mut client = H2Client::connect(node.gateway).unwrap();
    for (what, trailers) in malformed_trailers() {
        let outcome = client.post_with_trailers("/length", &trailers).unwrap();
        assert!(outcome.is_malformed(), "{what}: {outcome:?}");
    }
    let fine = client.post_with_trailers("/length", &block(&[("x", "y")])).unwrap();
    assert_eq!(fine.status(), Some(200), "{fine:?}");
}

#[test]
fn malformed_heads_of_requests_are_refused_and_their_connection_goes_on() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    let mut client = H2Client::connect(node.gateway).unwrap();
    for field in [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "close"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("x", " y"),
        ("x", "y "),
        (":path", "/twice"),
        (":status", "200"),
    ] {
        let outcome = client.get("a", "/", &[field]).unwrap();
        assert!(outcome.is_malformed(), "{field:?}: {outcome:?}");
    }
    assert_eq!(client.get("a", "/", &[("te", "trailers")]).unwrap().status(), Some(200));
    assert_eq!(upstream.arrived(), 1);
    // The library ends the connection for a name that is none.
    for field in [("X-Upper", "y"), (":x", "y")] {
        let outcome = H2Client::connect(node.gateway).unwrap().get("a", "/", &[field]);
        assert!(outcome.is_err(), "{field:?}: {outcome:?}");
    }
}

#[test]
fn an_answer_with_malformed_trailers_is_broken() {
    for (what, trailers) in malformed_trailers() {
        let end = trailers.clone();
        let server = H2Server::start(move |stream| {
            let trailers = frame(HEADERS, END_HEADERS | END_STREAM, stream, &end);
            [ok(stream, &[], false), frame(DATA, 0, stream, b"data"), trailers].concat()
        });
        let node = Node::start(&server.settings());
        let mut client = Client::connect(node.gateway).unwrap();
        let answer = client.get("/");
        assert!(answer.is_err(), "{what}: {answer:?}");
    }
}

#[test]
fn an_answer_with_a_malformed_head_is_a_bad_gateway() {
    for field in [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("x", " y"),
        ("x", "y\t"),
        (":status", "200"),
        (":path", "/"),
        (":x", "y"),
    ] {
        let server = H2Server::start(move |stream| ok(stream, &[field], true));
        let node = Node::start(&server.settings());
        let answer = Client::connect(node.gateway).unwrap().get("/").unwrap();
        assert_eq!(answer.status, 502, "{field:?}: {answer:?}");
    }
}

//! Requests that are wrong in themselves, or lead nowhere.

use super::{Row, assert_refused, check_rows};
use crate::support::{Client, Node, UNLIMITED, Upstream, ask, eventually};

fn node(upstream: &Upstream) -> Node {
    Node::start(&format!(
        "{UNLIMITED}\
         route = [{{ path = \"/a\", upstream = \"up\" }}, \
                  {{ path = \"/read\", methods = [\"GET\"], upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ))
}

/// Requests that the HTTP library understands and the gateway does not let pass.
#[test]
fn what_two_servers_could_read_in_two_ways_is_malformed_and_ends_the_connection() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    let heads = [
        ("no host", "GET /a HTTP/1.1\r\n"),
        ("two hosts", "GET /a HTTP/1.1\r\nhost: a\r\nhost: b\r\n"),
        ("a host that is none", "GET /a HTTP/1.1\r\nhost: a b\r\n"),
        ("a target elsewhere", "GET http://elsewhere/a HTTP/1.1\r\nhost: here\r\n"),
        ("a tunnel", "CONNECT here:443 HTTP/1.1\r\nhost: here:443\r\n"),
        ("dots in the path", "GET /a/../admin HTTP/1.1\r\nhost: a\r\n"),
        ("encoded dots", "GET /a/%2e%2e/admin HTTP/1.1\r\nhost: a\r\n"),
        ("another transfer coding", "POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n"),
        ("two expectations", "GET /a HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\nexpect: x\r\n"),
        ("an expectation of something", "GET /a HTTP/1.1\r\nhost: a\r\nexpect: something\r\n"),
    ];
    let rows = heads.map(|(what, head)| Row {
        what,
        request: format!("{head}\r\n"),
        status: 400,
        reason: "malformed",
    });
    check_rows(&node, &rows);
    for Row { what, request, .. } in rows {
        let mut client = Client::connect(node.gateway).unwrap();
        assert!(client.ask(request).unwrap().closes, "{what}");
        assert_eq!(client.wait_for_end().unwrap(), b"", "{what}: nothing after it is answered");
    }
    assert_eq!(upstream.arrived(), 0);
}

/// Requests that are no HTTP, or could be read in two ways: nothing was parsed that a service could answer.
#[test]
fn what_is_no_http_gets_a_document_and_the_end_of_the_connection() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    let huge = "x".repeat(100_000);
    for (what, request, status) in [
        ("no request line", "NONSENSE\r\n\r\n".to_owned(), 400),
        ("an unknown version", "GET /a HTTP/3.0\r\nhost: a\r\n\r\n".to_owned(), 400),
        ("a folded line", "GET /a HTTP/1.1\r\nhost: a\r\nx: 1\r\n  2\r\n\r\n".to_owned(), 400),
        ("a space before the colon", "GET /a HTTP/1.1\r\nhost : a\r\n\r\n".to_owned(), 400),
        ("a zero byte", "GET /a HTTP/1.1\r\nhost: a\r\nx: 1\u{0}2\r\n\r\n".to_owned(), 400),
        (
            "two lengths",
            "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_owned(),
            400,
        ),
        (
            "a length that is none",
            "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\na".to_owned(),
            400,
        ),
        (
            "a length and chunks",
            "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
                .to_owned(),
            400,
        ),
        (
            "chunks and a length",
            "POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n"
                .to_owned(),
            400,
        ),
        ("bare line feeds", "GET /a HTTP/1.1\nhost: a\n\n".to_owned(), 400),
        ("one bare line feed", "GET /a HTTP/1.1\r\nhost: a\nx: y\r\n\r\n".to_owned(), 400),
        ("a huge header", format!("GET /a HTTP/1.1\r\nhost: a\r\nx: {huge}\r\n\r\n"), 431),
        ("a huge target", format!("GET /a/{huge} HTTP/1.1\r\nhost: a\r\n\r\n"), 431),
        ("many headers", format!("GET /a HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: 1\r\n".repeat(500)), 431),
    ] {
        let before = node.rejected("malformed");
        let mut client = Client::connect(node.gateway).unwrap();
        let answer = client.ask(request).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_refused(what, &answer, status, "malformed");
        assert!(answer.closes, "{what}: {answer:?}");
        assert_eq!(client.wait_for_end().unwrap(), b"", "{what}: nothing after it is answered");
        assert_eq!(node.rejected("malformed"), before + 1.0, "{what}");
    }
    assert_eq!(upstream.arrived(), 0);
}

#[test]
fn what_is_not_served_is_told_so() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    let row = |what, head: &str, status, reason| Row {
        what,
        request: format!("{head}host: a\r\n\r\n"),
        status,
        reason,
    };
    check_rows(
        &node,
        &[
            row("another path", "GET /b HTTP/1.1\r\n", 404, "not_found"),
            row("a path that only begins alike", "GET /ab HTTP/1.1\r\n", 404, "not_found"),
            row("another method", "DELETE /read/x HTTP/1.1\r\n", 405, "method_not_allowed"),
        ],
    );
    let answer = ask(node.gateway, "DELETE /read HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    assert_eq!(upstream.arrived(), 0);
}

#[test]
fn a_head_that_does_not_arrive_in_time_gets_408() {
    let node = Node::start("read_timeout = \"500ms\"\n");
    // Who says nothing at all in that time, because the machine stalls, gets no answer.
    let answer = eventually("it is answered", || {
        Client::connect(node.gateway).ok()?.ask("GET /a HTTP/1.1\r\nhost: a\r\nx-late").ok()
    });
    assert_refused("late", &answer, 408, "request_timeout");
    assert!(answer.closes);
    assert_eq!(node.rejected("request_timeout"), 1.0);
}

#[test]
fn the_id_of_a_refusal_is_the_clients_own_where_it_has_one() {
    let node = node(&Upstream::start());
    let answer = ask(node.gateway, "GET /b HTTP/1.1\r\nhost: a\r\nx-corr-id: my-own-id-7\r\n\r\n").unwrap();
    assert_refused("own id", &answer, 404, "not_found");
    assert_eq!(answer.header("x-corr-id"), Some("my-own-id-7"));
}

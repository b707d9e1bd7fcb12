//! Requests that two servers could read in two ways, over raw sockets: each is answered 400 and the connection closed, so
//! that nothing behind it can be taken for another request.

use crate::support::Running;
use svc_gateway::GatewayConfig;

/// What would be smuggled: if the gateway took it for a request, there would be a second answer.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// Every request is answered 400, once, and the connection closed.
#[track_caller]
fn assert_refused(requests: &[&str]) {
    let gateway = Running::start(GatewayConfig::default());
    let mut wrong = Vec::new();
    for request in requests {
        let answer = gateway.ask(format!("{request}{SMUGGLED}"));
        if !answer.starts_with("HTTP/1.1 400 ") || answer.matches("HTTP/1.1 ").count() != 1 {
            wrong.push(format!("{request:?} was answered {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lengths_that_are_none() {
    assert_refused(&[
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3, 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0x3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length:\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999999\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length : 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: close, content-length\r\ncontent-length: 3\r\n\r\nabc",
    ]);
}

#[test]
fn two_framings_of_one_body() {
    assert_refused(&[
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: x\r\n\r\n0\r\n\r\n",
    ]);
}

#[test]
fn lines_that_end_in_a_bare_line_feed() {
    assert_refused(&[
        "POST / HTTP/1.1\nhost: a\nconnection: close\nx: y\ncontent-length: 0\n\n",
        "GET / HTTP/1.1\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\nx: y\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n\n",
        "\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
    ]);
}

#[test]
fn transfer_codings_other_than_chunked() {
    assert_refused(&[
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\n transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ]);
}

#[test]
fn heads_that_are_not_made_of_whole_lines() {
    assert_refused(&[
        "GET / HTTP/1.1\r\nhost: a\r\nx: y\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: y\r\n\tfolded\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: y\rz: w\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: y\0z\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx y: z\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n: z\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx(y): z\r\n\r\n",
        "GET  / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1 x\r\nhost: a\r\n\r\n",
        "GET / http/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.2\r\nhost: a\r\n\r\n",
        "GET / HTTP/9.9\r\nhost: a\r\n\r\n",
        "GET /\r\nhost: a\r\n\r\n",
        " GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "G\tT / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /a b HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\nhost: a\r\n\r\n",
    ]);
}

#[test]
fn targets_and_hosts_that_disagree() {
    assert_refused(&[
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a, b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: u@a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost:\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: host\r\n\r\n",
        "GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET http://a:81/ HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET http://a@b/ HTTP/1.1\r\nhost: b\r\n\r\n",
        "GET http://u:p@a/ HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET ftp://a/ HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET a HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET a:80 HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET http:///x HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET http://a\\b/ HTTP/1.1\r\nhost: a\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n",
        "GET /../x HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /%2e%2E/x HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /x/..%2fy HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /x/..;/y HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /x%00 HTTP/1.1\r\nhost: a\r\n\r\n",
    ]);
}

#[test]
fn expectations_that_are_none() {
    assert_refused(&[
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: y 100-continue\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: 100-continue, x\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: 200-ok\r\n\r\nabc",
    ]);
}

/// Answered once and closed; the request as the upstream saw it.
#[track_caller]
fn only_answer(gateway: &Running, request: &str) -> String {
    let answer = gateway.ask(format!("{request}{SMUGGLED}"));
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    answer
}

#[test]
fn a_body_whose_chunks_are_none_ends_the_connection() {
    let gateway = Running::start(GatewayConfig::default());
    for body in [
        "zz\r\nabc\r\n0\r\n\r\n",
        "-1\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcX\r\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3;x\ny\r\nabc\r\n0\r\n\r\n",
        "10000000000000003\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\r\nno colon\r\n\r\n",
        "3\r\nabc\r\n0\r\nx: y\nz: w\r\n\r\n",
        "3\r\nabc\r\n0\r\n\n",
    ] {
        let answer = only_answer(
            &gateway,
            &format!("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{body}"),
        );
        assert!(!answer.starts_with("HTTP/1.1 2"), "{body:?} was answered {answer}");
    }
}

#[test]
fn heads_that_are_too_large_are_refused_and_the_connection_ends() {
    let gateway = Running::start(GatewayConfig::default());
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(70_000));
    assert!(gateway.ask(long).starts_with("HTTP/1.1 431 "));
    let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(101));
    assert!(gateway.ask(many).starts_with("HTTP/1.1 431 "));
}

/// The request that the upstream saw.
#[track_caller]
fn echoed(gateway: &Running, request: &str) -> String {
    let answer = gateway.ask(request);
    assert!(answer.contains("HTTP/1.1 200 OK\r\n"), "{request:?} was answered {answer}");
    answer.rsplit_once("\r\n\r\nPOST ").map_or(answer.clone(), |(_, seen)| format!("POST {seen}"))
}

#[test]
fn what_cannot_be_misread_goes_on() {
    let gateway = Running::start(GatewayConfig::default());
    let post = |fields: &str, body: &str| {
        format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{fields}\r\n\r\n{body}")
    };
    let seen = echoed(&gateway, &post("expect: 100-continue\r\ncontent-length: 3", "abc"));
    assert!(seen.ends_with("\r\n\r\nabc") && !seen.contains("expect"), "{seen}");
    let seen = echoed(&gateway, &post("content-length: 3\r\ncontent-length: 3", "abc"));
    assert_eq!(seen.matches("content-length: 3\r\n").count(), 1, "{seen}");
    let seen =
        echoed(&gateway, &post("transfer-encoding: Chunked\r\nte: trailers", "3;ext=1\r\nabc\r\n0\r\n\r\n"));
    // It is small, so all of it was there before the server was asked, and its length is known.
    let framed = seen.contains("content-length: 3\r\n") && !seen.contains("transfer-encoding");
    assert!(seen.contains("te: trailers\r\n") && framed && seen.ends_with("\r\n\r\nabc"), "{seen}");
    let absolute =
        "POST http://A:80/x?y HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let seen = echoed(&gateway, absolute);
    assert!(seen.starts_with("POST /x?y HTTP/1.1\r\n") && seen.contains("host: A:80\r\n"), "{seen}");
}

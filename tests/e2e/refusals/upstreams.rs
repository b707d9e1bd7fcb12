//! Servers behind that fail: a refusal where nothing was passed on yet, else an end that nobody can take for a whole answer.

use std::io;

use super::{Row, assert_refused, assert_refused_for_now, check_rows};
use crate::support::{Client, Node, UNLIMITED, Upstream, eventually, free_addr, get};

/// A server's failures are not tried again and do not make it left alone, so that every request meets its own.
const PATIENT: &str = "retry.max_tries = 1\nupstream.up.breaker = { consecutive = 0, error_rate = 0 }\n\
                       upstream.up.eject.consecutive = 0\n";

fn node(upstream: &Upstream) -> Node {
    Node::start(&format!(
        "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\" }}, {{ path = \"/dead\", upstream = \"dead\" }}, \
                             {{ path = \"/hold\", upstream = \"up\", timeout = \"200ms\" }}, \
                             {{ path = \"/stall\", upstream = \"hurried\" }}]\n\
         upstream.dead.endpoints = [\"http://{}\"]\nupstream.up.endpoints = [\"http://{up}\"]\n\
         upstream.hurried = {{ endpoints = [\"http://{up}\"], timeout = \"1s\", retry.max_tries = 1 }}\n\
         upstream.up.{PATIENT}",
        free_addr(),
        up = upstream.addr
    ))
}

#[test]
fn a_server_that_does_not_answer_sensibly_is_a_bad_gateway_and_a_late_one_a_timeout() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    let row = |path: &'static str, status, reason| Row {
        what: path,
        request: format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"),
        status,
        reason,
    };
    check_rows(
        &node,
        &[
            row("/dead", 502, "bad_gateway"),
            row("/reset", 502, "bad_gateway"),
            row("/close", 502, "bad_gateway"),
            row("/garbage", 502, "bad_gateway"),
            row("/hold", 504, "downstream_timeout"),
        ],
    );
    // The server is as good as before for everybody else, and a client's own hurry counts.
    assert_eq!(get(node.gateway, "/fine").unwrap().status, 200);
    let hurried = "GET /hold HTTP/1.1\r\nhost: a\r\nx-request-timeout-ms: 50\r\n\r\n";
    let answer = crate::support::ask(node.gateway, hurried).unwrap();
    assert_refused("a client in a hurry", &answer, 504, "downstream_timeout");
}

/// The status and the first bytes are out; what is left is to end the connection before the end of the answer.
#[test]
fn half_an_answer_never_passes_as_a_whole_one() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    for path in ["/half", "/half-chunked", "/stall"] {
        let error = eventually("an answer has begun", || {
            let got = Client::connect(node.gateway).unwrap().get(path);
            // Where the machine stalls it may not begin in time.
            let too_late = path == "/stall" && matches!(&got, Ok(answer) if answer.status == 504);
            (!too_late).then(|| got.expect_err(path))
        });
        let kind = error.kind();
        let ended = matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
        assert!(ended, "{path}: {error}");
    }
    assert_eq!(get(node.gateway, "/fine").unwrap().status, 200);
}

#[test]
fn a_breaker_counts_failures_refuses_for_a_while_and_lets_a_server_prove_itself() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\" }}]\n\
         upstream.up = {{ endpoints = [\"http://{}\"], retry = {{ max_tries = 1 }}, \
                          breaker = {{ consecutive = 3, open_for = \"5s\" }} }}\n",
        upstream.addr
    ));
    for path in ["/reset", "/garbage", "/status/503"] {
        assert!(get(node.gateway, path).unwrap().status >= 502, "{path}");
    }
    let asked = upstream.arrived();
    let answer = get(node.gateway, "/fine").unwrap();
    let wait = assert_refused_for_now("an open breaker", &answer, 502, "bad_gateway");
    assert!((1..=7500).contains(&wait), "{wait}");
    assert_eq!(upstream.arrived(), asked, "the server is left alone");
    eventually("the server is asked again", || {
        get(node.gateway, "/fine").ok().filter(|answer| answer.status == 200)
    });
}

//! Clients that have a healthy server fail, to have its circuit breaker opened for everybody.

use crate::support::{Client, Node, Upstream, eventually, to};

/// Far more than the breaker's failures in a row, and than its samples for a share.
const FAILURES: usize = 60;

/// One client asks for what fails; another asks for something else now and then, and must be answered.
fn assert_harmless(path: &str, settings: &str) {
    let upstream = Upstream::start();
    let node = Node::start(&format!("{}upstream.up.retry.max_tries = 1\n{settings}", to(upstream.addr)));
    let mut honest = Client::connect_from(2, node.gateway).unwrap();
    for at in 0..FAILURES {
        if at % 10 == 0 {
            let answer = honest.get("/fine").unwrap();
            assert_eq!((answer.status, answer.body.as_str()), (200, "/fine"), "after {at} failures");
        }
        let hostile = Client::connect(node.gateway).unwrap().get(path).unwrap();
        assert!([502, 503, 504].contains(&hostile.status), "{hostile:?}");
    }
}

#[test]
fn a_client_that_asks_for_what_is_answered_503_does_not_open_the_breaker() {
    assert_harmless("/status/503", "");
}

#[test]
fn a_client_that_asks_for_what_takes_too_long_does_not_open_the_breaker() {
    assert_harmless("/wait/300", "upstream.up.timeout = \"20ms\"\n");
}

#[test]
fn a_client_that_asks_for_what_breaks_off_does_not_open_the_breaker() {
    assert_harmless("/close", "");
}

#[test]
fn a_server_that_fails_for_everybody_is_left_alone() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("{}upstream.up.retry.max_tries = 1\n", to(upstream.addr)));
    for from in 2..6 {
        assert_eq!(Client::connect_from(from, node.gateway).unwrap().get("/fine").unwrap().status, 200);
    }
    eventually("the breaker opens", || {
        for from in 2..6 {
            let answer = Client::connect_from(from, node.gateway).unwrap().get("/status/503").unwrap();
            if answer.status == 502 {
                return Some(());
            }
        }
        None
    });
}

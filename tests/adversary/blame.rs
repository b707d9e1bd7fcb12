//! Clients that have a healthy server fail, to have its circuit breaker opened for everybody.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    cache_origin::{Origin, target, whole},
    scripted_server,
    support::{Client, Node, Upstream, eventually, to},
};

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
    assert_harmless("/wait/2000", "upstream.up.timeout = \"200ms\"\n");
}

#[test]
fn a_client_that_asks_for_what_breaks_off_does_not_open_the_breaker() {
    assert_harmless("/close", "");
}

/// A server whose answers for `/breaks` end in the middle of their body, a moment after it began.
fn breaking_server() -> SocketAddr {
    scripted_server::start(|stream| {
        let mut reader = BufReader::new(stream);
        loop {
            let mut request = String::new();
            while !request.ends_with("\r\n\r\n") {
                if reader.read_line(&mut request)? == 0 {
                    return Ok(());
                }
            }
            let path = target(&request).to_owned();
            if path == "/breaks" {
                reader.get_mut().write_all(b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\nhalf")?;
                thread::sleep(Duration::from_millis(50));
                return Ok(());
            }
            reader.get_mut().write_all(whole(200, "", &path).as_bytes())?;
        }
    })
}

#[test]
fn a_client_that_asks_for_bodies_that_break_off_does_not_open_the_breaker() {
    let node = Node::start(&to(breaking_server()));
    let mut honest = Client::connect_from(2, node.gateway).unwrap();
    assert_eq!(honest.get("/fine").unwrap().status, 200);
    for round in 0..5 {
        // At once, so that all of their heads come before the first of them breaks off.
        let hostile: Vec<Client> = (0..12)
            .map(|_| {
                let mut client = Client::connect(node.gateway).unwrap();
                client.send_raw("GET /breaks HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
                client
            })
            .collect();
        for mut client in hostile {
            let _ = client.wait_for_end();
        }
        let answer = honest.get("/fine").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "/fine"), "after {round} rounds");
    }
}

#[test]
fn a_client_whose_test_of_an_open_breaker_fails_leaves_the_next_to_others() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let origin = Origin::start(move |request| match target(request) {
        "/broken" => whole(503, "", "never"),
        _ if down.load(Ordering::SeqCst) => whole(503, "", "down"),
        path => whole(200, "", path),
    });
    let settings = "upstream.up.retry.max_tries = 1\nupstream.up.breaker.open_for = \"100ms\"\n";
    let node = Node::start(&format!("{}{settings}", to(origin.addr)));
    let from =
        |client: u8, path: &str| Client::connect_from(client, node.gateway).unwrap().get(path).unwrap();
    assert_eq!((from(2, "/fine").status, from(3, "/fine").status), (200, 200));
    is_down.store(true, Ordering::SeqCst);
    eventually("the breaker opens", || {
        (from(2, "/fine").status == 502 || from(3, "/fine").status == 502).then_some(())
    });
    is_down.store(false, Ordering::SeqCst);
    // The hostile client comes first whenever the breaker may be tested.
    eventually("the breaker is tested", || (from(2, "/broken").status == 503).then_some(()));
    assert_eq!(from(3, "/fine").status, 200);
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

/// A client that nobody came beside opens the breaker, after so many health checks; those who come then must be served.
fn assert_newcomers_are_served(settings: &str, checks: usize) {
    let upstream = Upstream::start();
    let node = Node::start(&format!("{}upstream.up.retry.max_tries = 1\n{settings}", to(upstream.addr)));
    let from =
        |client: u8, path: &str| Client::connect_from(client, node.gateway).unwrap().get(path).unwrap();
    upstream.wait_for(checks);
    eventually("the breaker opens", || (from(2, "/status/503").status == 502).then_some(()));
    for newcomer in 3..8 {
        assert_eq!(from(newcomer, "/fine").status, 200, "127.0.0.{newcomer}");
    }
}

#[test]
fn a_client_that_was_alone_does_not_have_the_server_left_alone_for_newcomers() {
    assert_newcomers_are_served("", 0);
}

#[test]
fn a_client_that_was_alone_does_not_have_a_server_that_passes_its_checks_left_alone() {
    assert_newcomers_are_served("upstream.up.health = { path = \"/healthz\", interval = \"100ms\" }\n", 3);
}

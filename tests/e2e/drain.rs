//! SIGTERM under load: readiness first, work finishes, nobody is reset.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use crate::support::{Client, Node, Upstream, eventually, get};

/// Requests in a loop until the server says that it is closing.
fn ask_until_closed(node: &Node, answered: &AtomicUsize) -> io::Result<()> {
    let mut client = Client::connect(node.gateway)?;
    loop {
        match client.get("/wait/5") {
            Ok(answer) => {
                assert_eq!(answer.status, 200);
                answered.fetch_add(1, Ordering::Relaxed);
                if answer.closes {
                    return client.wait_for_end().map(|rest| assert_eq!(rest, b""));
                }
            }
            // An idle connection may be closed just as we write to it; an end is honest, a reset is not.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn sigterm_under_load_finishes_what_is_in_flight_and_resets_nobody() {
    let upstream = Upstream::start();
    let mut node = Node::in_front_of(upstream.addr);
    let mut idle = Client::connect(node.gateway).unwrap();
    assert_eq!(idle.get("/warm").unwrap().status, 200);
    let mut slow = Client::connect(node.gateway).unwrap();
    slow.send("/wait/700").unwrap();
    let (answered, saw_draining) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let load: Vec<_> = (0..8).map(|_| scope.spawn(|| ask_until_closed(&node, &answered))).collect();
        upstream.wait_for(50);
        node.signal("TERM");
        // The admin listener outlives the rest and tells.
        scope.spawn(|| {
            eventually("readiness tells of the drain", || match get(node.admin, "/readyz") {
                Ok(answer) if answer.status == 503 && answer.body.contains("draining") => Some(()),
                _ => None,
            });
            saw_draining.store(true, Ordering::Relaxed);
        });
        for client in load {
            client.join().unwrap().expect("a client was reset");
        }
        let answer = slow.receive().expect("the request in flight is answered");
        assert_eq!((answer.status, answer.closes), (200, true));
        assert_eq!(idle.wait_for_end().expect("FIN, not RST"), b"");
    });
    assert!(saw_draining.load(Ordering::Relaxed));
    assert!(answered.load(Ordering::Relaxed) > 0);
    assert_eq!(node.exit_code(), 0);
}

#[test]
fn a_request_that_outlives_the_deadline_is_aborted_and_the_exit_code_says_so() {
    let upstream = Upstream::start();
    let mut node =
        Node::start(&format!("{}upstream.up.timeout = \"30s\"\n", crate::support::to(upstream.addr)));
    let mut client = Client::connect(node.gateway).unwrap();
    client.send("/wait/20000").unwrap();
    upstream.wait_for(1);
    node.signal("TERM");
    assert_eq!(node.exit_code(), 3);
}

#[test]
fn a_second_signal_ends_at_once() {
    let upstream = Upstream::start();
    let mut node =
        Node::start(&format!("{}upstream.up.timeout = \"30s\"\n", crate::support::to(upstream.addr)));
    let mut client = Client::connect(node.gateway).unwrap();
    client.send("/wait/20000").unwrap();
    upstream.wait_for(1);
    node.signal("TERM");
    eventually("the drain has begun", || {
        get(node.admin, "/readyz").ok().filter(|answer| answer.body.contains("draining"))
    });
    node.signal("INT");
    assert_eq!(node.exit_code(), 5);
}

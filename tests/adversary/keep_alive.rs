//! Clients that keep their connections, while the node drains or hands over to a successor: none of them loses a request.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use crate::support::{Client, Flag, Node, Upstream, eventually, listener_pid, signal, to};

/// Clients at once.
const CLIENTS: usize = 8;
/// How long a client waits between two requests: long enough for its connection to be idle.
const PAUSE: Duration = Duration::from_millis(30);

/// Settings of a node that keeps idle connections open for longer than the machine may stall.
fn settings(upstream: &Upstream) -> String {
    format!("{}[node]\ndrain_idle = \"15s\"\n", to(upstream.addr))
}

/// Asks on one connection until the node says that it closes; then on the next one, while there is somebody to connect to.
/// No request may fail on a connection that was open.
fn ask_again_and_again(gateway: SocketAddr, done: &Flag, answered: &AtomicUsize) {
    while !done.is_set() {
        let Ok(mut client) = Client::connect(gateway) else { return };
        loop {
            let answer = client.get("/").expect("a request on an open connection is answered");
            assert_eq!(answer.status, 200);
            answered.fetch_add(1, Ordering::Relaxed);
            if answer.closes || done.is_set() {
                break;
            }
            thread::park_timeout(PAUSE);
        }
    }
}

#[test]
fn no_client_that_keeps_its_connection_loses_a_request_when_the_node_stops() {
    let upstream = Upstream::start();
    let mut node = Node::start(&settings(&upstream));
    let (done, answered) = (Flag::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _done = done.set_at_the_end();
        let ask = || {
            let mut client = Client::connect(node.gateway).unwrap();
            while !client.get("/").expect("a request on an open connection is answered").closes {
                answered.fetch_add(1, Ordering::Relaxed);
                thread::park_timeout(PAUSE);
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        eventually("all clients ask", || (answered.load(Ordering::Relaxed) > 10 * CLIENTS).then_some(()));
        node.signal("TERM");
        for client in clients {
            client.join().unwrap();
        }
    });
    assert_eq!(node.exit_code(), 0);
}

#[test]
fn no_client_that_keeps_its_connection_loses_a_request_in_an_upgrade() {
    let upstream = Upstream::start();
    let mut node = Node::start(&settings(&upstream));
    let (done, answered) = (Flag::default(), AtomicUsize::new(0));
    let gateway = node.gateway;
    let successor = thread::scope(|scope| {
        let _done = done.set_at_the_end();
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| ask_again_and_again(gateway, &done, &answered))).collect();
        let so_far = || answered.load(Ordering::Relaxed);
        eventually("all clients ask", || (so_far() > 10 * CLIENTS).then_some(()));
        node.signal("USR2");
        assert_eq!(node.exit_code(), 0);
        let successor = eventually("the successor tells who it is", || listener_pid(node.admin.port()));
        let before = so_far();
        eventually("the successor answers", || (so_far() > before + 10 * CLIENTS).then_some(()));
        drop(_done);
        for client in clients {
            client.join().unwrap();
        }
        successor
    });
    signal(successor, "TERM");
    eventually("the successor is gone", || listener_pid(node.admin.port()).is_none().then_some(()));
}

//! SIGTERM under load: readiness first, work finishes, nobody is reset.

use std::{
    io,
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::support::{Client, Node, Upstream, eventually, get, to};

/// A connection that the node knows of: it was answered.
fn warm(node: &Node) -> Client {
    let mut client = Client::connect(node.gateway).unwrap();
    assert_eq!(client.get("/warm").unwrap().status, 200);
    client
}

/// Requests in a loop until the server says that it is closing.
fn ask_until_closed(mut client: Client, answered: &AtomicUsize) -> io::Result<()> {
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
    let (mut idle, mut slow) = (warm(&node), warm(&node));
    slow.send("/hold").unwrap();
    let answered = AtomicUsize::new(0);
    let clients: Vec<Client> = (0..8).map(|_| warm(&node)).collect();
    thread::scope(|scope| {
        let load: Vec<_> =
            clients.into_iter().map(|client| scope.spawn(|| ask_until_closed(client, &answered))).collect();
        upstream.wait_for(50);
        node.signal("TERM");
        // The admin listener outlives the rest and tells; the drain waits for the request that is held.
        wait_for_the_drain(&node);
        upstream.release();
        for client in load {
            client.join().unwrap().expect("a client was reset");
        }
        let answer = slow.receive().expect("the request in flight is answered");
        assert_eq!((answer.status, answer.closes), (200, true));
        assert_eq!(idle.wait_for_end().expect("FIN, not RST"), b"");
    });
    assert!(answered.load(Ordering::Relaxed) > 0);
    assert_eq!(node.exit_code(), 0);
}

fn wait_for_the_drain(node: &Node) {
    eventually("readiness tells of the drain", || {
        let answer = get(node.admin, "/readyz").ok()?;
        (answer.status == 503 && answer.body.contains("draining")).then_some(())
    });
}

#[test]
fn a_request_that_outlives_the_deadline_is_aborted_and_the_exit_code_says_so() {
    let upstream = Upstream::start();
    let mut node = Node::start(&format!("{}[node]\ndrain_deadline = \"1s\"\n", to(upstream.addr)));
    let mut client = Client::connect(node.gateway).unwrap();
    client.send("/hold").unwrap();
    upstream.wait_for(1);
    node.signal("TERM");
    let answer = client.receive().expect("it is told so");
    assert_eq!(
        (answer.status, answer.json()["reason"].as_str(), answer.closes),
        (503, Some("draining"), true)
    );
    assert_eq!(node.exit_code(), 3);
}

#[test]
fn a_second_signal_ends_at_once() {
    let upstream = Upstream::start();
    let mut node = Node::in_front_of(upstream.addr);
    let mut client = Client::connect(node.gateway).unwrap();
    client.send("/hold").unwrap();
    upstream.wait_for(1);
    node.signal("TERM");
    wait_for_the_drain(&node);
    node.signal("INT");
    assert_eq!(node.exit_code(), 5);
}

/// The gateway is open already; the ledger, which the rewarder needs, does not answer yet.
#[test]
fn sigterm_to_a_node_that_is_still_starting_drains_what_is_open() {
    let (upstream, ledger) = (Upstream::start(), TcpListener::bind("127.0.0.1:0").unwrap());
    let rewarder = format!(
        "[ledger]\nurl = \"postgres://nobody@{}/none\"\n[rewarder]\nenabled = true\nlisten = \"127.0.0.1:0\"\n",
        ledger.local_addr().unwrap()
    );
    let mut node = Node::begin_in(tempfile::tempdir().unwrap(), &(to(upstream.addr) + &rewarder));
    ledger.set_nonblocking(true).unwrap();
    let silent = eventually("the ledger is asked for", || ledger.accept().ok());
    let mut client = Client::connect(node.gateway).unwrap();
    client.send("/hold").unwrap();
    upstream.wait_for(1);
    node.signal("TERM");
    eventually("nobody new is let in", || TcpStream::connect(node.gateway).err());
    upstream.release();
    assert_eq!(client.receive().expect("the request in flight is answered").status, 200);
    drop((silent, ledger));
    assert_eq!(node.exit_code(), 0);
}

//! Clients that ask for impossible deadlines, and servers that must not be blamed for them.

use crate::support::{Client, Node, Upstream, to};

/// More requests than the failures in a row that open a circuit breaker.
const BOMBS: usize = 20;

#[test]
fn the_servers_own_timeout_still_opens_the_breaker() {
    let upstream = Upstream::start();
    let settings = format!("{}upstream.up.timeout = \"50ms\"\n", to(upstream.addr));
    let node = Node::start(&settings);
    let statuses: Vec<u16> =
        (0..BOMBS).map(|_| Client::connect(node.gateway).unwrap().get("/wait/300").unwrap().status).collect();
    assert!(statuses.contains(&504) && statuses.contains(&502), "{statuses:?}");
}

//! HTTP/2 connections that have gone silent, as when a firewall forgets them: requests go on over another connection.

use crate::{
    h2_server::{H2Server, ok},
    support::{Client, Node},
};

#[test]
fn a_silent_connection_takes_no_more_requests() {
    // It answers the first request of each connection alone.
    let server = H2Server::start(|stream| if stream > 1 { Vec::new() } else { ok(stream, &[], true) });
    let node = Node::start(&format!(
        "{}upstream.up.timeout = \"300ms\"\nupstream.up.retry.max_tries = 1\n",
        server.settings()
    ));
    let mut client = Client::connect(node.gateway).unwrap();
    let mut ask = || client.get("/").unwrap().status;
    assert_eq!(ask(), 200);
    assert_eq!(ask(), 504, "the connection is silent from now on");
    assert_eq!(ask(), 200, "another one is not");
    assert_eq!(ask(), 504);
    assert_eq!(ask(), 200);
}

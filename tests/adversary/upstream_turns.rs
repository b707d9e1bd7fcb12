//! A client whose requests wait for connections to a server must not keep those of others waiting.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::{
    h2_upstream,
    support::{Client, Node, Upstream, eventually, to},
};

/// Requests of the client that asks for much.
const CROWD: u8 = 10;

#[test]
fn clients_take_turns_in_waiting_for_a_connection() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("{}upstream.up.max_conns = 1\n", to(upstream.addr)));
    let waiting = |requests: u8| {
        eventually("the requests wait", || {
            let depth = "queue_depth{node=\"omnigate\",service=\"gateway\",queue=\"upstream_wait\"}";
            (node.metric(depth) >= f64::from(requests)).then_some(())
        });
    };
    let mut crowd: Vec<Client> = (0..CROWD).map(|_| Client::connect_from(2, node.gateway).unwrap()).collect();
    crowd.iter_mut().for_each(|client| client.send("/hold").unwrap());
    upstream.wait_for(1);
    waiting(CROWD - 1);
    let mut other = Client::connect_from(3, node.gateway).unwrap();
    other.send("/other").unwrap();
    waiting(CROWD);
    // One of the crowd is answered, and then the one that had its turn before the other client came.
    for answered in 1..=2 {
        upstream.release();
        upstream.wait_for(answered + 1);
    }
    assert_eq!(other.receive().unwrap().body, "/other");
    for arrived in 4..=usize::from(CROWD) + 1 {
        upstream.wait_for(arrived);
        upstream.release();
    }
    assert!(crowd.iter_mut().all(|client| client.receive().unwrap().status == 200));
}

#[test]
fn clients_take_turns_in_waiting_for_a_place_on_an_http2_connection() {
    let (arrived, is_open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let gate = Arc::clone(&is_open);
    // It takes one request at a time, and says the how many-th it was.
    let count = move |_| (arrived.fetch_add(1, Ordering::SeqCst) + 1).to_string();
    let server = h2_upstream::start(1, count, move || gate.load(Ordering::SeqCst));
    let settings =
        "upstream.up.protocol = \"h2\"\nupstream.up.max_conns = 1\nupstream.up.timeout = \"60s\"\n";
    let node = Node::start(&format!("{}{settings}", to(server)));
    assert_eq!(Client::connect(node.gateway).unwrap().get("/").unwrap().body, "1");
    is_open.store(false, Ordering::SeqCst);
    let inside = |requests: u8| {
        eventually("the requests are inside", || {
            let inside = "inflight_requests{node=\"omnigate\",service=\"gateway\",route=\"/\"}";
            (node.metric(inside) >= f64::from(requests)).then_some(())
        });
    };
    let mut crowd: Vec<Client> = (0..CROWD).map(|_| Client::connect_from(2, node.gateway).unwrap()).collect();
    crowd.iter_mut().for_each(|client| client.send("/").unwrap());
    inside(CROWD);
    let mut other = Client::connect_from(3, node.gateway).unwrap();
    other.send("/").unwrap();
    inside(CROWD + 1);
    is_open.store(true, Ordering::SeqCst);
    let turn: usize = other.receive().unwrap().body.parse().unwrap();
    // One of the crowd was there, and one had its turn before the other client came.
    assert!(turn <= 4, "it was the {turn}th");
    assert!(crowd.iter_mut().all(|client| client.receive().unwrap().status == 200));
}

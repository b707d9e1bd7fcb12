//! One peer that stops costs the others nothing: what is published meanwhile is delivered to them.

use std::{net::SocketAddr, thread, time::Duration};

use bytes::Bytes;
use oap::{Entry, Message, Proof, Publication, Topic};
use ron_transport::tls::raw_key::NodeKey;
use types::NodeId;

use super::{
    drain::{join, say},
    node::{Home, Listening, OverlayNode},
};

/// Publications in all: six seconds of 2,000 a second.
const PUBLISHED: u64 = 12_000;
/// Publications at a time, and how long until the next ones.
const AT_ONCE: u64 = 10;
const PAUSE: Duration = Duration::from_millis(5);

/// Publishes everything at a steady pace. The peer is stopped after a third of it, and goes on after two.
fn publish(addr: SocketAddr, peer: &OverlayNode) {
    let (topic, key) = (Topic::new("news").unwrap(), NodeKey::generate().unwrap());
    let publisher = NodeId::of_key(key.public_key().ed25519());
    let mut socket = join(addr, publisher);
    let reading = socket.try_clone().unwrap();
    // It is told what was taken on, and would be given up if it did not read that.
    thread::spawn(move || std::io::copy(&mut &reading, &mut std::io::sink()));
    for seq in 1..=PUBLISHED {
        let id = Entry { publisher, incarnation: 1, seq }.in_topic(&topic);
        let proof = Proof { key: *key.public_key().ed25519(), signature: key.sign(&id.head_bytes()) };
        let proof = (seq % AT_ONCE == 1).then_some(proof.into());
        say(
            &mut socket,
            Message::Publish(Publication { proof, ..Publication::new(id, Bytes::from_static(&[7; 200])) }),
        );
        match seq {
            _ if seq == PUBLISHED / 3 => peer.node.signal("STOP"),
            _ if seq == PUBLISHED * 2 / 3 => peer.node.signal("CONT"),
            _ => {}
        }
        if seq % AT_ONCE == 0 {
            thread::sleep(PAUSE);
        }
    }
}

/// How many publications a subscriber got, and how many it was told it will not.
fn count(listening: &Listening) -> (u64, u64) {
    let (mut got, mut missing) = (0, 0);
    while got + missing < PUBLISHED {
        let event = listening.next();
        match event["event"].as_str() {
            Some("publication") => got += 1,
            Some("gap") => missing += event["to"].as_u64().unwrap() - event["from"].as_u64().unwrap() + 1,
            _ => missing += event["missed"].as_u64().unwrap(),
        }
        if event["late"] == true {
            missing -= 1;
        }
    }
    (got, missing)
}

fn run() {
    let lines = "security = \"plaintext\"\ntopics = [\"news\"]\npeer = { max_rps = 0 }\n";
    let mut nodes: Vec<OverlayNode> = Vec::new();
    for _ in 0..4 {
        let peers: Vec<_> = nodes.iter().map(|node| format!("\"{}@{}\"", node.id, node.addr)).collect();
        nodes.push(OverlayNode::start(Home::new(), &format!("{lines}peers = [{}]", peers.join(", "))));
    }
    nodes.iter().for_each(|node| node.wait_for_peers(3));
    let listening: Vec<_> = nodes[2..].iter().map(|node| node.subscribe("news")).collect();
    thread::scope(|scope| {
        scope.spawn(|| publish(nodes[0].addr, &nodes[1]));
        for (listening, node) in listening.iter().zip(&nodes[2..]) {
            let (got, missing) = count(listening);
            assert!(got * 1000 >= PUBLISHED * 999, "{got} came, {missing} are missing at {}", node.id);
        }
    });
}

#[test]
fn a_peer_that_is_stopped_starves_nobody_else() {
    let is_full = std::env::var_os("OMNIGATE_FULL_PROOFS").is_some_and(|value| value == "1");
    (0..if is_full { 50 } else { 1 }).for_each(|_| run());
}

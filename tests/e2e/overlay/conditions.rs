//! What `/readyz` reports of the overlay, and that it clears again: too few peers, handshakes that crowd each other out, a topic
//! that misses publications, a clock that is behind. All of these are reports: the node stays ready.

use std::{
    net::TcpStream,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ron_transport::tls::raw_key::NodeKey;
use serde_json::Value;
use types::NodeId;

use super::{
    drain::join,
    node::{Home, OverlayNode},
    publisher::Publisher,
};
use crate::support::{Node, eventually, get};

/// Places of handshakes that others began.
const HANDSHAKES: usize = 256;

/// A condition of the overlay, if it stands.
pub(super) fn standing(node: &Node, name: &str) -> Option<Value> {
    let answer = get(node.admin, "/readyz/overlay").ok()?.json();
    answer["conditions"].as_array()?.iter().find(|condition| condition["name"] == name).cloned()
}

/// Waits until a condition stands that only reports; its reason.
#[track_caller]
fn reported(node: &Node, name: &str) -> String {
    let condition = eventually(&format!("{name} stands"), || standing(node, name));
    assert_eq!(condition["effect"], "report", "{condition}");
    assert_eq!(get(node.admin, "/readyz").unwrap().status, 200, "a report takes nobody out of service");
    assert!(node.metric(&gauge(name)) > 0.5);
    condition["reason"].as_str().unwrap().to_owned()
}

#[track_caller]
pub(super) fn cleared(node: &Node, name: &str) {
    eventually(&format!("{name} has cleared"), || standing(node, name).is_none().then_some(()));
    assert!(node.metric(&gauge(name)) < 0.5);
}

fn gauge(name: &str) -> String {
    format!("readyz_degraded{{node=\"omnigate\",service=\"overlay\",cause=\"{name}\"}}")
}

#[test]
fn a_node_with_too_few_peers_reports_isolated_until_one_is_back() {
    let lines = "security = \"plaintext\"\n";
    let mut far = OverlayNode::start(Home::new(), lines);
    let near = OverlayNode::start(Home::new(), &format!("{lines}peers = [\"{}@{}\"]\n", far.id, far.addr));
    near.wait_for_peers(1);
    assert_eq!(standing(&near.node, "isolated"), None);
    far.node.kill();
    let reason = reported(&near.node, "isolated");
    assert!(reason.starts_with("no peer is connected"), "{reason}");
    let (_, accepted) = near.publish("news", "still taken");
    assert!(!accepted, "and known here only");
    far.node.start_again();
    near.wait_for_peers(1);
    cleared(&near.node, "isolated");
    // One is too few from now on.
    near.reload(&format!("{lines}peers = [\"{}@{}\"]\nmin_peers = 2\n", far.id, far.addr));
    let reason = reported(&near.node, "isolated");
    assert_eq!(reason, "1 peers are connected, fewer than `overlay.min_peers`, 2");
}

#[test]
fn silent_connections_that_crowd_out_handshakes_are_reported_and_peers_still_join() {
    let node = OverlayNode::start(Home::new(), "security = \"plaintext\"\nhandshake_timeout = \"30s\"\n");
    let connect = || TcpStream::connect(node.addr).unwrap();
    let silent: Vec<_> = (0..HANDSHAKES + 128).map(|_| connect()).collect();
    let reason = reported(&node.node, "handshakes_crowded");
    assert!(reason.contains("handshakes had to make way"), "{reason}");
    let key = NodeKey::generate().unwrap();
    let _peer = join(node.addr, NodeId::of_key(key.public_key().ed25519()));
    node.wait_for_peers(1);
    drop(silent);
    cleared(&node.node, "handshakes_crowded");
}

#[test]
fn a_topic_whose_publications_are_missing_is_reported_by_name_until_it_is_whole_again() {
    let node = OverlayNode::start(Home::new(), "security = \"plaintext\"\npeer = { max_rps = 0 }\n");
    let listening = node.subscribe("news");
    let mut publisher = Publisher::join(node.addr, "news");
    publisher.publish(1, "one");
    assert_eq!(listening.next()["seq"], 1);
    // It proves that there are forty, and sends none of them to whoever asks.
    publisher.announce(40);
    let gap = listening.next();
    assert_eq!((&gap["event"], &gap["from"]), (&"gap".into(), &2.into()), "{gap}");
    let reason = reported(&node.node, "topic_starved");
    assert_eq!(reason, "publications of topic news are missing here");
    publisher.publish(41, "forty-one");
    cleared(&node.node, "topic_starved");
}

#[test]
fn a_clock_that_is_behind_is_reported_until_it_has_caught_up() {
    let home = Home::new();
    let ahead = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(20);
    std::fs::write(home.dir.path().join("data/overlay.lives"), format!("{}\n", ahead.as_nanos())).unwrap();
    let node = OverlayNode::start(home, "security = \"plaintext\"\n");
    let reason = reported(&node.node, "clock_behind");
    assert!(reason.ends_with("s behind this node's lives"), "{reason}");
    node.publish("news", "taken all the same");
    cleared(&node.node, "clock_behind");
}

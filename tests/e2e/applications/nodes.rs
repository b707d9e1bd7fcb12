//! Patterns across nodes: what is published at one is heard at another that only has a pattern.

use super::{Events, OPEN, TopicNode};
use crate::support::{eventually, get};

#[test]
fn a_pattern_finds_topics_that_are_published_in_at_another_node() {
    let one = TopicNode::start(OPEN);
    let lines = format!("security = \"plaintext\"\npeers = [\"{}\"]\n", one.overlay);
    let two = TopicNode::start_in(tempfile::tempdir().unwrap(), &lines, OPEN, "");
    eventually("they are connected", || {
        let peers = get(two.node.admin, "/overlay/peers").unwrap().json();
        (peers["peers"].as_array().unwrap().len() == 1).then_some(())
    });
    let mut wild = Events::open(two.api, "metrics.*.cpu/events?topic=news", "");
    // Nobody anywhere takes part in these before.
    for host in ["db", "web"] {
        one.publish(&format!("metrics.{host}.cpu"), host);
        one.publish(&format!("metrics.{host}.disk"), "not wanted");
    }
    let mut heard = [wild.text(), wild.text()];
    heard.sort();
    assert_eq!(heard, ["db", "web"]);
    // Known by now, so that a neighbour takes it on.
    let answer = eventually("the other node takes part", || {
        let told = one.post("metrics.db.cpu", "again", "").json();
        (told["verdict"] == "accepted").then_some(told)
    });
    assert!(answer["id"]["seq"].as_u64().unwrap() >= 2);
    assert_eq!(wild.text(), "again");
    // A pattern that comes later finds what is there.
    let mut later = Events::open(two.api, "metrics.%3E/events", "");
    one.publish("metrics.web.disk", "wanted now");
    loop {
        if later.text() == "wanted now" {
            break;
        }
    }
}

#[test]
fn a_pattern_finds_topics_over_several_links() {
    // Each dials the one before it, so that the first and the last have two others between them.
    let mut chain = vec![TopicNode::start(OPEN)];
    for _ in 0..3 {
        let lines = format!("security = \"plaintext\"\npeers = [\"{}\"]\n", chain[chain.len() - 1].overlay);
        chain.push(TopicNode::start_in(tempfile::tempdir().unwrap(), &lines, OPEN, ""));
    }
    for (node, peers) in chain.iter().zip([1, 2, 2, 1]) {
        eventually("they are connected", || {
            let told = get(node.node.admin, "/overlay/peers").unwrap().json();
            (told["peers"].as_array().unwrap().len() == peers).then_some(())
        });
    }
    // Before anybody wants it, and while the pattern is on its way.
    chain[0].publish("metrics.db.cpu", "early");
    let mut wild = Events::open(chain[3].api, "metrics.*.cpu/events", "");
    assert_eq!(wild.text(), "early");
    chain[0].publish("metrics.web.cpu", "another topic");
    chain[0].publish("metrics.web.disk", "not wanted");
    chain[0].publish("metrics.db.cpu", "again");
    let mut heard = [wild.text(), wild.text()];
    heard.sort();
    assert_eq!(heard, ["again", "another topic"]);
    // Nodes that only pass it on keep none of it for subscribers.
    let topics = get(chain[1].node.admin, "/overlay/topics").unwrap().json();
    let names: Vec<_> =
        topics["topics"].as_array().unwrap().iter().map(|topic| topic["topic"].clone()).collect();
    assert!(
        names.contains(&"metrics.db.cpu".into()) && !names.contains(&"metrics.web.disk".into()),
        "{topics}"
    );
}

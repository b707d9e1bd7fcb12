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

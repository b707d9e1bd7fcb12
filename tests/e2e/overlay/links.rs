//! Three nodes in a row, whose links are delayed, throttled, stalled, reset and parted: what is published arrives or is named.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;

use super::{
    node::{Home, Listening, OverlayNode},
    relay::Relay,
};
use crate::support::eventually;

/// Silence is noticed soon, so that the test need not wait for it.
const QUICK: &str = "topics = [\"news\"]\ntimeouts = { idle = \"1s\", read = \"1s\", write = \"1s\" }\npeer = { max_rps = 0 }\n";

struct Row {
    first: OverlayNode,
    middle: OverlayNode,
    last: OverlayNode,
    links: [Relay; 2],
}

impl Row {
    fn start() -> Self {
        let homes = [Home::new(), Home::new(), Home::new()];
        let allow = |home: &Home| format!("{QUICK}allow = [\"{}\"]\n", home.id);
        let middle_id = homes[1].id.clone();
        let [one, two, three] = homes;
        let (allow_middle, allow_last) = (format!("{QUICK}allow = [\"{middle_id}\"]\n"), allow(&three));
        let first = OverlayNode::start(one, &allow_middle);
        let near = Relay::to(first.addr);
        let peers = format!("peers = [\"{}@{}\"]\n", first.id, near.addr);
        let middle = OverlayNode::start(two, &format!("{allow_last}{peers}"));
        let far = Relay::to(middle.addr);
        let peers = format!("{QUICK}peers = [\"{}@{}\"]\n", middle.id, far.addr);
        let last = OverlayNode::start(three, &peers);
        middle.wait_for_peers(2);
        Self { first, middle, last, links: [near, far] }
    }
}

/// Everything that was heard until `last` was, by number; and what was named as missing.
fn hear_until(listening: &Listening, last: &str) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut heard, mut missing) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let event: Value = listening.next();
        match event["event"].as_str().unwrap() {
            "publication" => {
                assert!(heard.insert(event["seq"].as_u64().unwrap()), "twice: {event}");
                if event["text"] == last {
                    return (heard, missing);
                }
            }
            "gap" => missing.extend(event["from"].as_u64().unwrap()..=event["to"].as_u64().unwrap()),
            other => panic!("{other}: {event}"),
        }
    }
}

#[test]
fn what_is_published_over_bad_links_arrives_once_they_heal_or_is_named() {
    let row = Row::start();
    let listening = row.last.subscribe("news");
    let mut sent = 0;
    let mut publish = |what: &str| {
        sent += 1;
        row.first.publish("news", what)
    };
    eventually("the neighbour takes part", || publish("hello").then_some(()));
    let [near, far] = &row.links;
    for link in &row.links {
        link.delay(30);
    }
    for _ in 0..5 {
        publish("delayed");
    }
    near.delay(0);
    far.delay(0);
    far.throttle(100_000);
    for _ in 0..5 {
        publish(&"throttled ".repeat(400));
    }
    far.throttle(0);
    near.stall(true);
    for _ in 0..3 {
        publish("into a link that stalls");
    }
    std::thread::sleep(Duration::from_millis(1500));
    near.stall(false);
    near.reset();
    far.reset();
    for _ in 0..3 {
        publish("into links that break");
    }
    far.part(true);
    eventually("the last one is alone", || row.last.peers().is_empty().then_some(()));
    for _ in 0..5 {
        publish("while it is away");
    }
    far.part(false);
    row.last.wait_for_peers(1);
    eventually("the row stands again", || publish("again").then_some(()));
    publish("the end");
    let (heard, missing) = hear_until(&listening, "the end");
    // The end may overtake what is still being asked for.
    let mut accounted: BTreeSet<u64> = heard.union(&missing).copied().collect();
    eventually("everything is accounted for", || {
        if let Some(event) = listening.next_within(Duration::from_millis(100)) {
            accounted.extend(event["seq"].as_u64());
            if let (Some(from), Some(to)) = (event["from"].as_u64(), event["to"].as_u64()) {
                accounted.extend(from..=to);
            }
        }
        (accounted.len() as u64 >= sent).then_some(())
    });
    assert_eq!(accounted, (1..=sent).collect(), "delivered or named, and nothing else");
    // The end came over links that had healed; what it overtook was asked for afterwards.
    assert!(!heard.is_empty(), "of {sent}");
    drop(row.middle);
}

#[test]
fn a_peer_that_is_taken_off_the_list_goes_and_one_that_is_put_on_it_comes() {
    let homes = [Home::new(), Home::new()];
    let ids = homes.each_ref().map(|home| home.id.clone());
    let [one, two] = homes;
    let a = OverlayNode::start(one, &format!("allow = [\"{}\"]\n", ids[1]));
    let b = OverlayNode::start(two, "");
    assert!(b.peers().is_empty());
    let dial = format!("peers = [\"{}@{}\"]\n", ids[0], a.addr);
    b.reload(&dial);
    b.wait_for_peers(1);
    assert_eq!(b.peers()[0]["key_exchange"], "X25519MLKEM768");
    a.reload("");
    a.wait_for_peers(0);
    a.reload(&format!("allow = [\"{}\"]\n", ids[1]));
    a.wait_for_peers(1);
    b.reload("");
    a.wait_for_peers(0);
}

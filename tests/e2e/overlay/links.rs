//! Three nodes in a row, whose links are delayed, throttled, stalled, reset and parted: what is published arrives or is
//! named, and objects are what they say.

use std::{collections::BTreeSet, path::Path, thread};

use serde_json::Value;

use super::{
    node::{Home, Listening, OverlayNode, command, omnigate},
    relay::Relay,
};
use crate::support::eventually;

/// Silence is noticed soon, so that the tests need not wait for it; not so soon that a machine that stalls breaks the links.
const QUICK: &str = "topics = [\"news\"]\ntimeouts.idle = \"6s\"\npeer = { max_rps = 0 }\n";
/// How many publications before the first one it hears of a node asks for.
const HISTORY: u64 = 32;

/// Three nodes with a link between each two neighbours, and a fourth that may join the middle one.
struct Row {
    first: OverlayNode,
    middle: OverlayNode,
    last: OverlayNode,
    links: [Relay; 2],
    guest: Home,
}

impl Row {
    fn start() -> Self {
        let [one, two, three, guest] = [Home::new(), Home::new(), Home::new(), Home::new()];
        let first = OverlayNode::start(one, &format!("{QUICK}allow = [\"{}\"]\n", two.id));
        let near = Relay::to(first.addr);
        let allow = format!("allow = [\"{}\", \"{}\"]\n", three.id, guest.id);
        let middle =
            OverlayNode::start(two, &format!("{QUICK}{allow}peers = [\"{}@{}\"]\n", first.id, near.addr));
        let far = Relay::to(middle.addr);
        let last = OverlayNode::start(three, &format!("{QUICK}peers = [\"{}@{}\"]\n", middle.id, far.addr));
        middle.wait_for_peers(2);
        Self { first, middle, last, links: [near, far], guest }
    }

    /// Publishes at the first node; the number, and whether the middle one has it.
    fn publish(&self, what: &str) -> (u64, bool) {
        self.first.publish("news", what)
    }

    fn publish_times(&self, times: u64, what: &str) {
        for _ in 0..times {
            self.publish(what);
        }
    }

    /// Publishes until the middle one has it; the number of what it has.
    fn publish_for_certain(&self, what: &str) -> u64 {
        eventually("the neighbour takes it on", || Some(self.publish(what)).filter(|(_, taken)| *taken)).0
    }
}

/// What a subscriber heard of one publisher, and what was named as missing.
struct Account {
    listening: Listening,
    publisher: String,
    heard: BTreeSet<u64>,
    named: BTreeSet<u64>,
}

impl Account {
    fn new(listening: Listening, publisher: &OverlayNode) -> Self {
        let publisher = publisher.id.clone();
        Self { listening, publisher, heard: BTreeSet::new(), named: BTreeSet::new() }
    }

    /// Enters the next event, which is about that publisher, and gives it.
    #[track_caller]
    fn next(&mut self) -> Value {
        let event: Value = self.listening.next();
        assert_eq!(event["publisher"], self.publisher.as_str(), "{event}");
        match event["event"].as_str().unwrap() {
            "publication" => {
                assert!(self.heard.insert(event["seq"].as_u64().unwrap()), "twice: {event}");
            }
            "gap" => {
                assert!(
                    ["unavailable", "before_joining"].contains(&event["reason"].as_str().unwrap()),
                    "{event}"
                );
                self.named.extend(event["from"].as_u64().unwrap()..=event["to"].as_u64().unwrap());
            }
            other => panic!("{other}: {event}"),
        }
        event
    }

    /// Listens until everything up to a number was heard or named, and checks that nothing else was.
    #[track_caller]
    fn settle(&mut self, sent: u64) {
        while self.accounted().len() < usize::try_from(sent).unwrap() {
            self.next();
        }
        assert_eq!(self.accounted(), (1..=sent).collect(), "heard or named, and nothing else");
    }

    fn accounted(&self) -> BTreeSet<u64> {
        &self.heard | &self.named
    }
}

/// Publishes while the links are delayed, throttled, stalled and reset.
fn publish_over_bad_links(row: &Row) {
    let [near, far] = &row.links;
    row.links.iter().for_each(|link| link.delay(30));
    row.publish_times(5, "delayed");
    row.links.iter().for_each(|link| link.delay(0));
    far.throttle(100_000);
    row.publish_times(5, &"throttled ".repeat(400));
    far.throttle(0);
    near.stall(true);
    row.publish_times(3, "into a link that stalls");
    eventually("the stall is noticed", || row.first.peers().is_empty().then_some(()));
    near.stall(false);
    near.reset();
    far.reset();
    row.publish_times(3, "into links that break");
}

#[test]
fn what_is_published_over_bad_links_arrives_once_they_heal_or_is_named() {
    let row = Row::start();
    let mut account = Account::new(row.last.subscribe("news"), &row.first);
    row.publish_for_certain("hello");
    publish_over_bad_links(&row);
    let [near, far] = &row.links;
    // The last one is cut off from what the others have; then the first one is alone with what it publishes.
    far.part(true);
    eventually("the last one is alone", || row.last.peers().is_empty().then_some(()));
    let while_away: BTreeSet<u64> = (0..10).map(|_| row.publish_for_certain("while it is away")).collect();
    near.part(true);
    eventually("the first one is alone", || row.first.peers().is_empty().then_some(()));
    let (alone, taken) = row.publish("to nobody");
    assert!(!taken, "there is nobody to take it on");
    near.part(false);
    far.part(false);
    row.last.wait_for_peers(1);
    let sent = eventually("the links have healed", || {
        let sent = row.publish_for_certain("the end");
        account.settle(sent);
        account.heard.contains(&sent).then_some(sent)
    });
    // The middle one had kept them, so that they could be asked for; how many were depends on how long that took.
    assert!(!account.heard.is_disjoint(&while_away), "{:?}", account.heard);
    assert!(account.accounted().contains(&alone), "also what nobody had taken on");
    join_late(row, sent);
}

/// Who joins late hears the last few, and that there were others.
fn join_late(row: Row, sent: u64) {
    let sent = (sent..=HISTORY).fold(sent, |_, _| row.publish_for_certain("one more"));
    let link = Relay::to(row.middle.addr);
    link.part(true);
    let peers = format!("{QUICK}peers = [\"{}@{}\"]\n", row.middle.id, link.addr);
    let guest = OverlayNode::start(row.guest, &peers);
    let mut account = Account::new(guest.subscribe("news"), &row.first);
    link.part(false);
    let first = account.next();
    assert_eq!(
        (&first["event"], &first["from"], &first["to"], &first["reason"]),
        (&"gap".into(), &1.into(), &(sent - HISTORY).into(), &"before_joining".into())
    );
    account.settle(sent);
    assert!(!account.heard.is_empty());
}

fn get_object(dir: &Path, id: &str, to: &str) -> bool {
    let args = ["object", "get", "--config", "omnigate.toml", id, "--output", to];
    command(dir, &args).output().unwrap().status.success()
}

#[test]
fn an_object_over_a_link_that_breaks_arrives_whole_or_not_at_all() {
    let row = Row::start();
    let far = &row.links[1];
    let content: Vec<u8> = (0..1_500_000).map(|at: u32| u8::try_from(at % 251).unwrap()).collect();
    std::fs::write(row.middle.node.path().join("film"), &content).unwrap();
    let put = ["object", "put", "--config", "omnigate.toml", "film"];
    let id = omnigate(row.middle.node.path(), &put).trim().to_owned();
    let dir = row.last.node.path();
    far.throttle(300_000);
    let came_whole = thread::scope(|scope| {
        let getting = scope.spawn(|| get_object(dir, &id, "broken"));
        eventually("some of it has come", || {
            let received = "overlay_object_bytes_total{node=\"omnigate\",service=\"overlay\",dir=\"rx\"}";
            (row.last.node.metric(received) > 0.0 || getting.is_finished()).then_some(())
        });
        far.reset();
        getting.join().unwrap()
    });
    assert_eq!(dir.join("broken").exists(), came_whole, "nothing is left of what broke off");
    far.throttle(0);
    far.delay(20);
    eventually("the link has healed", || get_object(dir, &id, "whole").then_some(()));
    assert!(std::fs::read(dir.join("whole")).unwrap() == content);
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

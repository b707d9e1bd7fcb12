//! What an operator types to look at a running overlay: `losses`, `overlay top`, `overlay bench`, `sub --resume`,
//! `peers --watch`.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::Value;

use super::{
    node::{Home, OverlayNode, command, omnigate},
    publisher::Publisher,
};
use crate::support::Running;

const LINES: &str = "security = \"plaintext\"\ntopics = [\"news\", \"bench\"]\npeer = { max_rps = 0 }\n";

/// Two nodes that are connected; the first one dials.
fn pair() -> (OverlayNode, OverlayNode) {
    let far = OverlayNode::start(Home::new(), LINES);
    let near = OverlayNode::start(Home::new(), &format!("{LINES}peers = [\"{}@{}\"]\n", far.id, far.addr));
    near.wait_for_peers(1);
    far.wait_for_peers(1);
    (near, far)
}

/// What a command prints about a node.
#[track_caller]
fn told(node: &OverlayNode, args: &[&str]) -> String {
    omnigate(node.node.path(), &[args, &["--config", "omnigate.toml"]].concat())
}

#[track_caller]
fn told_json(node: &OverlayNode, args: &[&str]) -> Value {
    serde_json::from_str(&told(node, args)).unwrap()
}

#[test]
fn losses_names_the_gaps_that_subscribers_were_told_of() {
    let node = OverlayNode::start(Home::new(), LINES);
    assert_eq!(told(&node, &["losses"]), "0 publications were given up\n");
    let listening = node.subscribe("news");
    let mut publisher = Publisher::join(node.addr, "news");
    publisher.publish(1, "one");
    publisher.announce(3);
    assert_eq!(listening.next()["seq"], 1);
    let gap = listening.next();
    assert_eq!((&gap["event"], &gap["from"], &gap["to"]), (&"gap".into(), &2.into(), &3.into()), "{gap}");
    let reason = gap["reason"].as_str().unwrap();
    assert_eq!(
        told(&node, &["losses"]),
        format!("0 publications were given up\ngap: news 2 to 3 of {}: {reason}\n", publisher.id)
    );
    let report = told_json(&node, &["losses", "--json"]);
    assert_eq!((&report["total"], &report["gaps"][0]["to"]), (&0.into(), &3.into()), "{report}");
    assert!(report["gaps"][0]["unix_ms"].as_u64().unwrap() > 0);
}

#[test]
fn top_prints_peers_and_topics_once_where_there_is_no_terminal() {
    let (near, far) = pair();
    for number in 0..5 {
        near.publish("news", &format!("number {number}"));
    }
    let page = told(&near, &["overlay", "top", "--interval", "100ms"]);
    assert!(page.starts_with(&near.id) && page.contains("1 peers, 2 topics"), "{page}");
    assert!(page.contains(&far.id[..13]) && page.contains("TOPIC"), "{page}");
    let view = told_json(&near, &["overlay", "top", "--interval", "100ms", "--json"]);
    let topics = view["topics"].as_array().unwrap();
    let news = topics.iter().find(|topic| topic["topic"] == "news").unwrap();
    assert_eq!((&news["delivered"], &news["missing"]), (&5.into(), &0.into()), "{view}");
    assert_eq!(view["peers"][0]["node"], far.id.as_str());
}

#[test]
fn bench_counts_every_message_and_says_how_fast_they_were() {
    let (near, far) = pair();
    let sub_config = far.node.path().join("omnigate.toml");
    let sub_config = sub_config.to_str().unwrap();
    let plan = ["overlay", "bench", "--msgs", "300", "--size", "200", "--pub", "4", "--sub", "2"];
    let shown = told_json(&near, &[&plan[..], &["--sub-config", sub_config, "--json"]].concat());
    assert_eq!((&shown["pub"]["msgs"], &shown["sub"]["msgs"]), (&300.into(), &600.into()), "{shown}");
    assert_eq!((&shown["missing"], &shown["local_only"]), (&0.into(), &0.into()), "{shown}");
    let number = |at: &str| shown.pointer(at).and_then(Value::as_f64).unwrap();
    assert!(number("/pub/msgs_per_sec") > 0.0 && number("/sub/mb_per_sec") > 0.0, "{shown}");
    assert!(number("/latency_ms/p50") > 0.0, "{shown}");
    assert!(number("/latency_ms/p99") >= number("/latency_ms/p50"), "{shown}");
    assert!(number("/frames_per_msg/in") >= 1.0, "each message crosses the wire: {shown}");
    let page = told(&near, &["overlay", "bench", "--msgs", "50"]);
    let starts: Vec<_> = page.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(starts, ["Pub stats", "Sub stats", "Latency", "Wire", "Missing"], "{page}");
    assert!(page.contains(" msgs/sec ~ ") && page.contains(" MB/sec"), "{page}");
}

#[test]
fn sub_goes_on_after_the_event_that_it_is_given() {
    let node = OverlayNode::start(Home::new(), LINES);
    let listening = node.subscribe("news");
    for text in ["one", "two", "three"] {
        node.publish("news", text);
    }
    let first = listening.next();
    assert_eq!(first["text"], "one");
    let id = first["event_id"].as_str().unwrap();
    assert_eq!(told(&node, &["sub", "news", "--resume", id, "--count", "2"]), "two\nthree\n");
    // Of an earlier life of the node: that is said, and all that is kept follows.
    let args = ["sub", "news", "--resume", "1-1", "--count", "3", "--config", "omnigate.toml"];
    let output = command(node.node.path(), &args).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one\ntwo\nthree\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("not resumed: ") && said.contains("go on with --resume "), "{said}");
    let args = ["sub", "news", "--resume", "yesterday", "--config", "omnigate.toml"];
    let output = command(node.node.path(), &args).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--resume"), "{output:?}");
}

#[test]
fn peers_that_come_and_go_are_told_as_they_do() {
    let (near, mut far) = pair();
    let args = ["peers", "--watch", "--interval", "50ms", "--json", "--config", "omnigate.toml"];
    let mut watching = Running(command(near.node.path(), &args).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let joined = next();
    assert_eq!((&joined["event"], &joined["node"]), (&"joined".into(), &far.id.as_str().into()));
    far.node.kill();
    let left = next();
    assert_eq!((&left["event"], &left["node"]), (&"left".into(), &far.id.as_str().into()));
    far.node.start_again();
    assert_eq!(next()["event"], "joined");
}

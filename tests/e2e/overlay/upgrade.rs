//! A new version takes over a node of the overlay: no publication is refused, and none that a neighbour took on is lost.

use std::{collections::BTreeSet, net::SocketAddr, thread};

use serde_json::Value;

use super::node::{Home, OverlayNode};
use crate::support::{Flag, ask, eventually, listener_pid, signal};

/// A publication's life and number.
type Name = (u64, u64);

/// Publishes; the answer, whatever it is.
fn publish(admin: SocketAddr, body: &str) -> (u16, Value) {
    let head = "POST /overlay/pub/news HTTP/1.1\r\nhost: localhost\r\nx-omnigate: 1\r\n";
    let request = format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    let answer = ask(admin, request).expect("always somebody to answer");
    (answer.status, answer.json())
}

fn name(of: &Value) -> Name {
    (of["incarnation"].as_u64().unwrap(), of["seq"].as_u64().unwrap())
}

#[test]
fn sigusr2_refuses_no_publication_and_loses_none_that_was_accepted() {
    const LINES: &str = "topics = [\"news\"]\npeer = { max_rps = 0 }\n";
    let [one, two] = [Home::new(), Home::new()];
    let b_allows = format!("{LINES}allow = [\"{}\"]\n", one.id);
    let b = OverlayNode::start(two, &b_allows);
    let mut a = OverlayNode::start(one, &format!("{LINES}peers = [\"{}@{}\"]\n", b.id, b.addr));
    a.wait_for_peers(1);
    let listening = b.subscribe("news");
    eventually("the neighbour takes part", || a.publish("news", "before").1.then_some(()));
    let (done, admin) = (Flag::default(), a.node.admin);
    let (successor, accepted) = thread::scope(|scope| {
        let until_over = done.set_at_the_end();
        let publishing = scope.spawn(|| {
            let mut accepted = BTreeSet::new();
            while !done.is_set() {
                let (status, answer) = publish(admin, "during");
                assert_eq!(status, 200, "{answer}");
                if answer["verdict"] == "accepted" {
                    accepted.insert(name(&answer["id"]));
                }
            }
            accepted
        });
        a.node.signal("USR2");
        assert_eq!(a.node.exit_code(), 0);
        let successor = eventually("the successor has taken over", || listener_pid(admin.port()));
        eventually("the successor is connected", || (a.peers().len() == 1).then_some(()));
        eventually("it publishes", || a.publish("news", "after").1.then_some(()));
        drop(until_over);
        (successor, publishing.join().unwrap())
    });
    let mut heard = BTreeSet::new();
    let mut named = Vec::new();
    while !accepted.iter().all(|name| heard.contains(name)) {
        let event = listening.next();
        match event["event"].as_str() {
            Some("publication") => assert!(heard.insert(name(&event)), "twice: {event}"),
            _ => named.push(event),
        }
    }
    let named: Vec<_> = named.iter().filter(|event| event["reason"] != "before_joining").collect();
    assert!(accepted.len() > 20, "{}", accepted.len());
    println!("{} accepted, all heard; named: {named:?}", accepted.len());
    signal(successor, "TERM");
    eventually("the successor is gone", || listener_pid(a.node.admin.port()).is_none().then_some(()));
}

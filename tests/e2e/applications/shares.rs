//! One application does not use up what all of them share: topics, and patterns that other nodes are told of.

use super::{Events, OPEN, TopicNode, bearer};
use crate::support::{Client, eventually, get};

/// The status of a request to subscribe.
fn subscribes(node: &TopicNode, path: &str, fields: &str) -> u16 {
    let request = format!(
        "GET /v1/topics/{path}/events HTTP/1.1\r\nhost: localhost\r\n{fields}connection: close\r\n\r\n"
    );
    let mut client = Client::connect(node.api).unwrap();
    client.send_raw(request).unwrap();
    client.receive_head().unwrap().status
}

/// The text of the next publication, unless nothing is said for three signs of life.
#[track_caller]
fn text_soon(events: &mut Events) -> String {
    let mut quiet = 0;
    loop {
        let line = events.line();
        if let Some(data) = line.strip_prefix("data: ") {
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            return data["text"].as_str().unwrap().to_owned();
        }
        quiet += usize::from(line.starts_with(": still here"));
        assert!(quiet < 3, "nothing is heard");
    }
}

#[test]
fn a_token_that_invents_topics_leaves_some_to_others() {
    let dir = tempfile::tempdir().unwrap();
    super::omnigate(dir.path(), &["token", "keygen", "root.key"]);
    let lines = "security = \"plaintext\"\ngossip = { max_topics = 32 }\n";
    let auth = "[auth]\nroot_keys = [\"root.key\"]\n";
    let node = TopicNode::start_in(dir, lines, "publish_rps = 0\nclient_publish_rps = 0\n", auth);
    let rights = ["--publish", ">", "--subscribe", ">"];
    let (greedy, modest) = (bearer(&node.mint(&rights)), bearer(&node.mint(&rights)));
    let statuses: Vec<u16> =
        (0..100).map(|number| node.post(&format!("spam.{number}"), "x", &greedy).status).collect();
    let taken = statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    // Others have places on each core, to publish in and to subscribe to.
    let others: Vec<u16> =
        (0..4).map(|number| node.post(&format!("news.{number}"), "x", &modest).status).collect();
    assert_eq!(others, [200; 4]);
    let mut events = Events::open(node.api, "other.topic/events", &modest);
    assert_eq!(node.post("other.topic", "heard", &modest).status, 200);
    assert_eq!(events.text(), "heard");
    // Eighteen of the 24 on each of two cores.
    assert_eq!(taken, 36, "{statuses:?}");
}

#[test]
fn applications_with_very_many_topics_take_no_link_down() {
    let hub = TopicNode::start_in(tempfile::tempdir().unwrap(), "security = \"plaintext\"\n", OPEN, "");
    let lines = format!(
        "security = \"plaintext\"\npeers = [\"{}\"]\ngossip = {{ max_topics = 4096 }}\n",
        hub.overlay
    );
    let ends = [0, 1].map(|_| TopicNode::start_in(tempfile::tempdir().unwrap(), &lines, OPEN, ""));
    let peers = || get(hub.node.admin, "/overlay/peers").unwrap().json()["peers"].as_array().unwrap().clone();
    eventually("they are connected", || (peers().len() == 2).then_some(()));
    // More than wait for a peer at a time, and together more than the hub has room for.
    let mut held = Vec::new();
    for (at, node) in ends.iter().enumerate() {
        for first in (0..2000).step_by(16) {
            let more: String = (first + 1..first + 16).map(|room| format!("&topic=app{at}.{room}")).collect();
            held.push(Events::open(node.api, &format!("app{at}.{first}/events?{}", &more[1..]), ""));
        }
    }
    eventually("the hub has heard of all of them", || {
        let heard =
            |peer: &serde_json::Value| peer["frames_in"].as_u64().is_some_and(|frames| frames >= 2000);
        let peers = peers();
        (peers.len() == 2 && peers.iter().all(heard)).then_some(())
    });
    for node in ends.iter().chain([&hub]) {
        let scrape = get(node.node.admin, "/metrics").unwrap().body;
        let closed = scrape.lines().filter(|line| line.starts_with("session_close_total"));
        let closed: Vec<_> = closed.filter(|line| !line.ends_with(" 0")).collect();
        assert!(closed.is_empty(), "{closed:?}");
    }
}

#[test]
fn subscribers_of_many_patterns_hear_of_other_nodes_all_the_same() {
    let mut chain = vec![TopicNode::start(OPEN)];
    for _ in 0..2 {
        let lines = format!("security = \"plaintext\"\npeers = [\"{}\"]\n", chain[chain.len() - 1].overlay);
        chain.push(TopicNode::start_in(tempfile::tempdir().unwrap(), &lines, OPEN, ""));
    }
    for (node, peers) in chain.iter().zip([1, 2, 1]) {
        eventually("they are connected", || {
            let told = get(node.node.admin, "/overlay/peers").unwrap().json();
            (told["peers"].as_array().unwrap().len() == peers).then_some(())
        });
    }
    let mut rooms: Vec<Events> = (0..4)
        .map(|group| {
            let more: String = (1..10).map(|room| format!("&topic=room.{group}{room}.*")).collect();
            Events::open(chain[2].api, &format!("room.{group}0.*/events?{}", &more[1..]), "")
        })
        .collect();
    chain[0].publish("room.00.chat", "the first");
    assert_eq!(text_soon(&mut rooms[0]), "the first");
    chain[0].publish("room.39.chat", "the last");
    assert_eq!(text_soon(&mut rooms[3]), "the last");
}

#[test]
fn more_patterns_than_other_nodes_can_be_told_of_are_refused() {
    let node = TopicNode::start(OPEN);
    let group = |from: usize, to: usize| {
        let more: String = (from + 1..to).map(|number| format!("&topic=apart{number}.*")).collect();
        format!("apart{from}.*/events?{}", &more[1..])
    };
    let _first = Events::open(node.api, &group(0, 12), "");
    let _second = Events::open(node.api, &group(12, 24), "");
    assert_eq!(subscribes(&node, "apart24.*", ""), 429);
    // What is covered by those that are announced costs nothing more.
    assert_eq!(subscribes(&node, "apart7.*", ""), 200);
    assert_eq!(subscribes(&node, "apart24.one", ""), 200, "a name is no pattern");
}

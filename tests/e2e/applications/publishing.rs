//! Publishing over HTTP: verdicts, refusals and their documents.

use super::{OPEN, TopicNode, post};
use crate::support::ask;

#[test]
fn a_publication_is_answered_with_its_verdict_and_its_name() {
    let node = TopicNode::start(OPEN);
    let answer = node.post("chat.room", "hello", "x-corr-id: mine\r\n");
    let told = answer.json();
    assert_eq!((answer.status, answer.header("x-corr-id")), (200, Some("mine")));
    assert_eq!((&told["verdict"], &told["id"]["topic"]), (&"local_only".into(), &"chat.room".into()));
    assert_eq!(told["id"]["seq"], 1);
    assert!(told["id"]["incarnation"].as_u64().is_some_and(|life| life > 0), "{told}");
    assert!(told["id"]["publisher"].as_str().is_some_and(|node| node.starts_with("b3:")), "{told}");
    assert_eq!(node.publish("chat.room", "again"), 2);
}

#[test]
fn what_cannot_be_published_is_refused_with_a_document() {
    let node = TopicNode::start(OPEN);
    let long = "x".repeat(64 * 1024 + 1);
    for (topic, body, status, reason) in [
        ("News", "", 400, "malformed"),
        ("metrics.*", "", 400, "malformed"),
        ("", "", 400, "malformed"),
        ("news", long.as_str(), 413, "body_cap"),
    ] {
        let answer = node.post(topic, body, "x-corr-id: c\r\n");
        let told = answer.json();
        assert_eq!((answer.status, told["reason"].as_str()), (status, Some(reason)), "{topic} {told}");
        assert_eq!(
            (told["corr_id"].as_str(), answer.header("content-type")),
            (Some("c"), Some("application/problem+json"))
        );
    }
    let answer =
        ask(node.api, "DELETE /v1/topics/news HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, POST")));
    for path in ["/", "/overlay/losses", "/metrics", "/v1/topics/news"] {
        let answer =
            ask(node.api, format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
                .unwrap();
        assert_eq!(answer.status, 404, "nothing of the operators' is here: {path}");
    }
}

#[test]
fn faster_than_allowed_is_refused_with_when_to_come_back() {
    let node = TopicNode::start(&format!("{OPEN}publish_rps = 2\n"));
    let answers: Vec<_> = (0..5).map(|_| node.post("news", "x", "")).collect();
    assert_eq!(answers[0].status, 200);
    let refused = answers.iter().find(|answer| answer.status == 429).expect("one too many");
    let told = refused.json();
    assert_eq!(told["reason"], "quota");
    assert!(refused.header("retry-after").is_some() && told["retry_after_ms"].as_u64().is_some(), "{told}");
    assert!(
        node.node
            .metric("api_refused_total{node=\"omnigate\",service=\"overlay_api\",limit=\"publish_token\"}")
            >= 1.0
    );
    // A deadline that has passed is told as one.
    let node = TopicNode::start(OPEN);
    let answer = post(node.api, "news", "x", "x-request-timeout-ms: 0\r\n");
    assert_eq!((answer.status, answer.json()["reason"].as_str()), (504, Some("downstream_timeout")));
}

#[test]
fn applications_leave_topics_for_the_node() {
    let lines = "security = \"plaintext\"\ngossip = { max_topics = 8 }\n";
    let api = format!("{OPEN}publish_rps = 0\n");
    let node = TopicNode::start_in(tempfile::tempdir().unwrap(), lines, &api, "");
    let statuses: Vec<u16> =
        (0..40).map(|number| node.post(&format!("t.{number}"), "x", "").status).collect();
    // Two of eight on each of two cores are the node's, and one is left for other applications.
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 10, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    // What there was room for goes on, also for who subscribes; who wants another is told.
    assert_eq!(node.publish("t.0", "again"), 2);
    let mut events = super::Events::open(node.api, "other.topic/events", "");
    assert_eq!(events.next().kind, "no_room");
    let mut events = super::Events::open(node.api, "other.topic/events?topic=t.0", "");
    assert_eq!(events.next().kind, "no_room");
    node.publish("t.0", "heard");
    assert_eq!(events.text(), "heard");
}

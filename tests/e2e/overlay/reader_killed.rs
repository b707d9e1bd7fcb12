//! A reader that is killed in mid-stream: whoever writes to it closes in good order, and nobody else notices.

use super::node::{Home, Listening, OverlayNode};
use crate::support::eventually;

/// Publications that the others have to hear, all of them.
const PUBLISHED: u64 = 600;

/// Hears everything in the order it was published, with nothing missing.
#[track_caller]
fn hear_all(listening: &Listening) {
    for seq in 1..=PUBLISHED {
        let event = listening.next();
        assert_eq!((&event["event"], &event["seq"]), (&"publication".into(), &seq.into()), "{event}");
    }
}

#[test]
fn a_reader_that_is_killed_in_mid_stream_is_let_go_and_nobody_else_notices() {
    let lines = "security = \"plaintext\"\ntopics = [\"news\"]\npeer = { max_rps = 0 }\n";
    let hub = OverlayNode::start(Home::new(), lines);
    let dials = format!("{lines}peers = [\"{}@{}\"]\n", hub.id, hub.addr);
    let (steady, mut victim) =
        (OverlayNode::start(Home::new(), &dials), OverlayNode::start(Home::new(), &dials));
    hub.wait_for_peers(2);
    let listening = [steady.subscribe("news"), hub.subscribe("news")];
    // A subscriber of its own connection, killed as well.
    let mut killed = Some(hub.subscribe("news"));
    let body = "x".repeat(8 * 1024);
    for seq in 1..=PUBLISHED {
        assert_eq!(hub.publish("news", &body).0, seq);
        if seq == PUBLISHED / 3 {
            victim.node.kill();
            drop(killed.take());
        }
    }
    listening.iter().for_each(hear_all);
    hub.wait_for_peers(1);
    let closed = |reason: &str| {
        let start =
            format!("session_close_total{{node=\"omnigate\",service=\"overlay\",reason=\"{reason}\"}}");
        hub.node.metric(&start)
    };
    eventually("the session was closed", || (closed("peer_closed") + closed("broken") > 0.5).then_some(()));
    for reason in ["crashed", "write_timeout", "never_reads"] {
        assert!(closed(reason) < 0.5, "{reason}");
    }
    let scrape = hub.node.scrape();
    let panics =
        scrape.lines().filter(|line| line.starts_with("tasks_panicked_total") && !line.ends_with(" 0"));
    assert_eq!(panics.collect::<Vec<_>>(), [""; 0]);
    let connections = "connections{node=\"omnigate\",service=\"overlay\"";
    eventually("its socket is closed", || (hub.node.metric(connections) < 1.5).then_some(()));
    let (_, accepted) = hub.publish("news", "and on");
    assert!(accepted, "the other peer takes what is published");
}

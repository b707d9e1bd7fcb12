//! Thousands of subscribers on one node.

use std::time::Duration;

use super::{Events, OPEN, TopicNode, ws::Ws};

/// As many as a test can hold open without more descriptors than usual.
const STREAMS: usize = 1600;
const SOCKETS: usize = 400;

#[test]
fn two_thousand_subscribers_each_hear_everything() {
    let limits =
        format!("{OPEN}max_subscribers = 2000\nmax_subscribers_per_client = 2000\npublish_rps = 0\n");
    let node = TopicNode::start(&limits);
    let path = |at: usize| ["news/events", "news/events?topic=other"][at % 2].to_owned();
    let mut streams: Vec<Events> = (0..STREAMS).map(|at| Events::open(node.api, &path(at), "")).collect();
    let mut sockets: Vec<Ws> = (0..SOCKETS).map(|_| Ws::open(node.api, "news/ws", "")).collect();
    sockets.iter_mut().for_each(|socket| drop(socket.text_of("subscribed")));
    let subscribers = "api_subscribers{";
    crate::support::eventually("all are counted", || (node.node.metric(subscribers) >= 2000.0).then_some(()));
    for text in ["one", "two", "three"] {
        node.publish("news", text);
    }
    for text in ["one", "two", "three"] {
        streams.iter_mut().for_each(|events| assert_eq!(events.text(), text));
        sockets.iter_mut().for_each(|socket| assert_eq!(socket.text_of("publication")["text"], text));
    }
    let memory = node.node.resident_memory();
    assert!(memory < 1 << 30, "{memory} bytes for two thousand subscribers");
    // One too many is told so, and all places come back.
    let mut refused = Events::ask(node.api, "news/events", "");
    assert!(refused.line().starts_with("HTTP/1.1 429 "));
    drop((streams, sockets));
    crate::support::eventually_within(Duration::from_secs(120), "all places are free", || {
        (node.node.metric(subscribers) == 0.0).then_some(())
    });
}

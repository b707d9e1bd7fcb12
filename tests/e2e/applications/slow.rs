//! Subscribers that do not read, and limits on how many there may be.

use super::{Events, OPEN, TopicNode, bearer};
use crate::support::Client;

#[test]
fn a_subscriber_that_does_not_read_delays_nobody_and_is_told_what_it_missed() {
    let node =
        TopicNode::start(&format!("{OPEN}publish_rps = 0\nclient_publish_rps = 0\nbox_bytes = \"256KiB\"\n"));
    let mut slow = Events::open(node.api, "news/events", "");
    let mut slow_of_many = Events::open(node.api, "news/events?topic=other.*", "");
    let mut quick = Events::open(node.api, "news/events", "");
    // More than sockets and the box hold.
    let body = "x".repeat(60 * 1024);
    let count = 320;
    for number in 0..count {
        node.publish("news", &format!("{number} {body}"));
        assert!(quick.text().starts_with(&format!("{number} ")), "the quick one hears each of them");
    }
    for events in [&mut slow, &mut slow_of_many] {
        let (mut heard, mut missed) = (0, 0);
        while heard + missed < count {
            let event = events.next();
            match event.kind.as_str() {
                "publication" => heard += 1,
                "lagging" => missed += event.data["missed"].as_u64().unwrap(),
                other => panic!("{other}"),
            }
        }
        assert_eq!(heard + missed, count, "each is heard or named");
        assert!(missed > 0 && heard > 0, "{heard} heard, {missed} missed");
    }
    assert!(node.node.metric("api_missed_total{") > 0.0);
}

#[test]
fn subscribers_are_bounded_by_node_by_address_and_by_token() {
    let limits = "max_subscribers = 5\nmax_subscribers_per_client = 3\nmax_subscribers_per_token = 2\n";
    let node = TopicNode::with_tokens(limits);
    let tokens = [0, 1, 2].map(|_| bearer(&node.mint(&["--subscribe", ">"])));
    let open = |from: u8, token: &str| {
        let mut client = Client::connect_from(from, node.api).unwrap();
        client
            .send_raw(format!("GET /v1/topics/news/events HTTP/1.1\r\nhost: localhost\r\n{token}\r\n"))
            .unwrap();
        let head = client.receive_head().unwrap();
        (head.status, client)
    };
    let status = |from: u8, token: &str| open(from, token).0;
    let mut held = Vec::new();
    for (from, token) in [(1, 0), (1, 0), (1, 1), (2, 1), (2, 2)] {
        let (status, client) = open(from, &tokens[token]);
        assert_eq!(status, 200, "{from} {token}");
        held.push(client);
    }
    assert_eq!(status(1, &tokens[2]), 429, "the address has its three");
    assert_eq!(status(3, &tokens[0]), 429, "the token has its two");
    assert_eq!(status(3, &tokens[2]), 429, "the node has its five");
    let refused = |limit: &str| {
        node.node.metric(&format!(
            "api_refused_total{{node=\"omnigate\",service=\"overlay_api\",limit=\"{limit}\"}}"
        ))
    };
    assert_eq!([refused("client"), refused("token"), refused("node")], [1.0, 1.0, 1.0]);
    // Whoever goes makes room.
    held.pop();
    crate::support::eventually("a place is free", || (open(3, &tokens[2]).0 == 200).then_some(()));
}

#[test]
fn subscriptions_without_end_are_refused_and_others_still_subscribe() {
    let node = TopicNode::start(OPEN);
    let status = |from: u8| {
        let mut client = Client::connect_from(from, node.api).unwrap();
        client.send_raw("GET /v1/topics/w.%3E/events HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        client.receive_head().unwrap().status
    };
    // As many as there are places come at once, and a few while they do.
    let begun = (0..20_000).take_while(|_| status(3) == 200).count();
    assert!((1024..20_000).contains(&begun), "{begun}");
    let refused = "api_refused_total{node=\"omnigate\",service=\"overlay_api\",limit=\"subscribe\"}";
    assert!(node.node.metric(refused) >= 1.0);
    assert_eq!(status(4), 200);
}

//! The same through the gateway: an ordinary route to the listener for applications.

use super::{Events, OPEN, post, settings, ws::Ws};
use crate::support::{Node, UNLIMITED, free_addr};

#[test]
fn the_gateway_passes_publications_streams_and_sockets_on() {
    let (api, overlay) = (free_addr(), free_addr());
    let route = "route = [{ path = \"/v1/topics\", upstream = \"topics\", upgrade = [\"websocket\"] }]\n";
    let upstream = format!("upstream.topics = {{ endpoints = [\"http://{api}\"], protocol = \"http1\" }}\n");
    let rest = settings(api, overlay, "security = \"plaintext\"\n", OPEN, "");
    let rest = rest.strip_prefix("enabled = false\n").unwrap();
    let node = Node::start(&format!("{UNLIMITED}{route}{upstream}{rest}"));
    let mut events = Events::open(node.gateway, "chat.*/events", "");
    let mut socket = Ws::open(node.gateway, "chat.*/ws", "");
    socket.text_of("subscribed");
    let answer = post(node.gateway, "chat.a", "through the gateway", "");
    assert_eq!((answer.status, answer.json()["id"]["seq"].as_u64()), (200, Some(1)), "{answer:?}");
    assert_eq!(events.text(), "through the gateway");
    let heard = socket.text_of("publication");
    assert_eq!(heard["text"], "through the gateway");
    socket.say(&serde_json::json!({ "op": "publish", "ref": 1, "topic": "chat.b", "text": "and back" }));
    assert_eq!(events.text(), "and back");
    // A stream goes on behind its last event there, too.
    let cursor = heard["cursor"].as_str().unwrap();
    let mut events = Events::open(node.gateway, "chat.*/events", &format!("last-event-id: {cursor}\r\n"));
    assert_eq!(events.text(), "and back");
}

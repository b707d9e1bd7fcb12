//! WebSockets: publishing, hearing, tokens, origins and nonsense.

use serde_json::json;

use super::{OPEN, TopicNode, ws::Ws};

#[test]
fn a_socket_publishes_and_hears_and_goes_on_where_it_was() {
    let node = TopicNode::start(OPEN);
    let mut socket = Ws::open(node.api, "chat.*/ws", "");
    let stands = socket.text();
    assert_eq!((&stands["type"], &stands["topics"]), (&"subscribed".into(), &json!(["chat.*"])));
    socket.say(&json!({ "op": "publish", "ref": 7, "topic": "chat.a", "text": "hello" }));
    let (mut published, mut heard) = (None, None);
    while published.is_none() || heard.is_none() {
        let said = socket.text();
        match said["type"].as_str().unwrap() {
            "published" => published = Some(said),
            "publication" => heard = Some(said),
            other => panic!("{other}: {said}"),
        }
    }
    let (published, heard) = (published.unwrap(), heard.unwrap());
    assert_eq!((&published["ref"], &published["verdict"]), (&7.into(), &"local_only".into()));
    assert_eq!(
        (&heard["topic"], &heard["text"], &heard["seq"]),
        (&"chat.a".into(), &"hello".into(), &1.into())
    );
    // What comes while it is away is heard when it comes back.
    drop(socket);
    node.publish("chat.b", "meanwhile");
    let cursor = heard["cursor"].as_str().unwrap().replace(':', "%3A");
    let mut socket = Ws::open(node.api, &format!("chat.*/ws?after={cursor}"), "");
    assert_eq!(socket.text_of("publication")["text"], "meanwhile");
    // Another subscription takes the place of the first.
    socket.say(&json!({ "op": "subscribe", "ref": 8, "topics": ["news", "more.>"] }));
    assert_eq!(socket.text_of("subscribed")["ref"], 8);
    node.publish("chat.a", "not wanted any more");
    node.publish("more.and.more", "wanted");
    assert_eq!(socket.text_of("publication")["text"], "wanted");
    socket.say(&json!({ "op": "publish", "ref": 9, "topic": "news", "base64": "/wA=" }));
    assert_eq!(socket.text_of("publication")["base64"], "/wA=");
}

#[test]
fn a_token_comes_as_a_protocol_or_as_the_first_message() {
    let node = TopicNode::with_tokens("");
    let token = node.mint(&["--publish", "chat.a", "--subscribe", "chat.*"]);
    let (mut socket, head) =
        Ws::ask(node.api, "chat.*/ws", &format!("sec-websocket-protocol: omnigate.v1, {token}\r\n"))
            .ok()
            .unwrap();
    assert!(head.contains("sec-websocket-protocol: omnigate.v1\r\n") && !head.contains("og1."), "{head}");
    assert_eq!(socket.text()["type"], "subscribed");
    socket.say(&json!({ "op": "publish", "ref": 1, "topic": "chat.b", "text": "" }));
    let refused = socket.text_of("error");
    assert_eq!(
        (&refused["ref"], &refused["status"], &refused["reason"]),
        (&1.into(), &403.into(), &"forbidden".into())
    );
    assert!(refused["corr_id"].as_str().is_some_and(|id| !id.is_empty()), "{refused}");
    socket.say(&json!({ "op": "subscribe", "ref": 2, "topics": [">"] }));
    assert_eq!(socket.text_of("error")["ref"], 2);

    let mut socket = Ws::open(node.api, "chat.*/ws", "");
    socket.say(&json!({ "op": "auth", "token": token }));
    assert_eq!(socket.text()["type"], "subscribed");

    for first in [
        json!({ "op": "auth", "token": "og1.AAAA" }),
        json!({ "op": "publish", "topic": "chat.a", "text": "" }),
    ] {
        let mut socket = Ws::open(node.api, "chat.*/ws", "");
        socket.say(&first);
        assert_eq!(socket.text()["status"], 401);
        assert_eq!(socket.closed().0, 1008);
    }
    let mut socket = Ws::open(node.api, "other/ws", "");
    socket.say(&json!({ "op": "auth", "token": token }));
    assert_eq!(socket.text()["status"], 403);
    // Shown in the request, a bad one is refused before anything begins.
    let refused = |fields: &str| Ws::ask(node.api, "chat.*/ws", fields).err().unwrap_or_default();
    assert!(refused("sec-websocket-protocol: omnigate.v1, og1.AAAA\r\n").starts_with("HTTP/1.1 401 "));
    // Nobody waits for a token for long.
    let mut socket = Ws::open(node.api, "chat.*/ws", "");
    assert_eq!(socket.closed().0, 1008);
}

#[test]
fn sockets_of_other_origins_are_refused() {
    let node = TopicNode::with_tokens("allow_origins = [\"https://chat.example\"]\n");
    let ask = |origin: &str| Ws::ask(node.api, "news/ws", &format!("origin: {origin}\r\n")).err();
    assert!(ask("https://chat.example").is_none());
    assert!(ask("https://evil.example").is_some_and(|head| head.starts_with("HTTP/1.1 403 ")));
    assert!(ask("null").is_some_and(|head| head.starts_with("HTTP/1.1 403 ")));
}

#[test]
fn nonsense_is_answered_and_what_breaks_the_protocol_closes() {
    let node = TopicNode::start(OPEN);
    let mut socket = Ws::open(node.api, "news/ws", "");
    for nonsense in ["", "[]", "{\"op\":\"sing\"}", "{\"op\":\"publish\",\"topic\":\"News\",\"text\":\"\"}"] {
        socket.send(1, nonsense.as_bytes());
        assert_eq!(socket.text_of("error")["reason"], "malformed", "{nonsense}");
    }
    socket.say(&json!({ "op": "publish", "topic": "news", "text": "x".repeat(64 * 1024 + 1) }));
    assert_eq!(socket.text_of("error")["reason"], "body_cap");
    for (opcode, payload, code) in [(2, &b"bytes"[..], 1003), (1, &[0xff][..], 1007), (3, &b""[..], 1002)] {
        let mut socket = Ws::open(node.api, "news/ws", "");
        socket.send(opcode, payload);
        assert_eq!(socket.closed().0, code);
    }
    let mut socket = Ws::open(node.api, "news/ws", "");
    socket.send(1, &vec![b'x'; 200 * 1024]);
    assert_eq!(socket.closed().0, 1009);
    // Plain requests are not sockets.
    let answer = crate::support::get(node.api, "/v1/topics/news/ws").unwrap();
    assert_eq!(answer.status, 400);
}

#[test]
fn a_drain_ends_sockets_and_streams_in_order() {
    let mut node = TopicNode::start(OPEN);
    let mut socket = Ws::open(node.api, "news/ws", "");
    socket.text_of("subscribed");
    let events = super::Events::open(node.api, "news/events", "");
    node.node.signal("TERM");
    assert_eq!(socket.closed().0, 1001);
    drop(socket);
    assert_eq!(node.node.exit_code(), 0);
    drop(events);
}

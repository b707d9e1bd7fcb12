//! Who may do what: tokens, their ends, and web pages.

use serde_json::{Value, json};

use super::{Events, OPEN, TopicNode, bearer, omnigate, settings, ws::Ws};
use crate::support::{ask, free_addr};

#[test]
fn a_token_covers_its_topics_and_no_others() {
    let node = TopicNode::with_tokens("");
    let token = bearer(&node.mint(&["--publish", "chat.*", "--subscribe", "chat.>,news"]));
    let status = |topic: &str| node.post(topic, "x", &token).status;
    assert_eq!([status("chat.a"), status("chat.a.b"), status("news")], [200, 403, 403]);
    let subscribes = |path: &str, token: &str| {
        let request = format!(
            "GET /v1/topics/{path}/events HTTP/1.1\r\nhost: localhost\r\n{token}connection: close\r\n\r\n"
        );
        let mut client = crate::support::Client::connect(node.api).unwrap();
        client.send_raw(request).unwrap();
        client.receive_head().unwrap().status
    };
    for (path, expected) in
        [("chat.a.b", 200), ("chat.*", 200), ("news", 200), ("%3E", 403), ("*", 403), ("other", 403)]
    {
        assert_eq!(subscribes(path, &token), expected, "{path}");
    }
    assert_eq!(subscribes("news?topic=other", ""), 404, "what follows the name is no part of it");
    // Without a token, with another key's, and with one that has the caveat but not the right.
    let answer = node.post("chat.a", "x", "");
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer realm=\"omnigate\"")));
    let dir = tempfile::tempdir().unwrap();
    omnigate(dir.path(), &["token", "keygen", "root.key"]);
    let foreign =
        omnigate(dir.path(), &["token", "mint", "--key", "root.key", "--any-tenant", "--publish", "chat.*"]);
    assert_eq!(node.post("chat.a", "x", &bearer(foreign.trim())).status, 401);
    let reader = bearer(&node.mint(&["--subscribe", "chat.>"]));
    assert_eq!(node.post("chat.a", "x", &reader).status, 403);
    // Narrowed by its holder, without a key.
    let wide = node.mint(&["--publish", "chat.>"]);
    let narrow = omnigate(node.node.path(), &["token", "attenuate", &wide, "--publish", "chat.mine"]);
    let narrow = bearer(narrow.trim());
    assert_eq!(node.post("chat.mine", "x", &narrow).status, 200);
    assert_eq!(node.post("chat.yours", "x", &narrow).status, 403);
}

#[test]
fn a_token_that_is_revoked_or_over_ends_what_was_opened_with_it() {
    let dir = tempfile::tempdir().unwrap();
    omnigate(dir.path(), &["token", "keygen", "root.key"]);
    std::fs::write(dir.path().join("revoked"), "# nobody\n00000000000000000000000000000001\n").unwrap();
    let tables = "[auth]\nroot_keys = [\"root.key\"]\nrevoked = \"revoked\"\n";
    let node = TopicNode::start_in(dir, "security = \"plaintext\"\n", "", tables);
    let rights = ["--publish", "news", "--subscribe", "news"];
    let (token, other) = (node.mint(&rights), bearer(&node.mint(&rights)));
    let mut events = Events::open(node.api, "news/events", &bearer(&token));
    let mut brief = Events::open(
        node.api,
        "news/events",
        &bearer(&node.mint(&[&rights[..], &["--expires", "2s"]].concat())),
    );
    omnigate(node.node.path(), &["token", "revoke", "--file", "revoked", &token]);
    node.node.signal("HUP");
    crate::support::eventually("the list is in force", || {
        (node.post("news", "x", &bearer(&token)).status == 401).then_some(())
    });
    // What is published meanwhile may still be heard, then it ends.
    let ended = |events: &mut Events| loop {
        node.post("news", "x", &other);
        let event = events.next();
        if event.kind == "closed" {
            return event.data["reason"].as_str().unwrap().to_owned();
        }
    };
    assert_eq!(ended(&mut events), "revoked");
    assert_eq!(ended(&mut brief), "expired");
}

#[test]
fn pages_of_other_origins_are_turned_away() {
    let node = TopicNode::with_tokens("allow_origins = [\"https://chat.example\"]\n");
    let token = bearer(&node.mint(&["--publish", "chat.>"]));
    let good = node.post("chat.a", "x", &format!("origin: https://chat.example\r\n{token}"));
    assert_eq!(
        (good.status, good.header("access-control-allow-origin")),
        (200, Some("https://chat.example"))
    );
    let bad = node.post("chat.a", "x", &format!("origin: https://evil.example\r\n{token}"));
    assert_eq!((bad.status, bad.header("access-control-allow-origin")), (403, None));
    let preflight = |origin: &str| {
        let head = format!("OPTIONS /v1/topics/chat.a HTTP/1.1\r\nhost: localhost\r\norigin: {origin}\r\n");
        let wish = "access-control-request-method: POST\r\naccess-control-request-headers: authorization\r\n";
        ask(node.api, format!("{head}{wish}connection: close\r\n\r\n")).unwrap()
    };
    let answer = preflight("https://chat.example");
    assert_eq!((answer.status, answer.header("access-control-allow-methods")), (204, Some("GET, POST")));
    assert!(answer.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert_eq!(preflight("https://evil.example").status, 403);
}

#[test]
fn without_tokens_only_this_machine_is_listened_on_and_no_name_leads_there() {
    let node = TopicNode::start(OPEN);
    let named = "POST /v1/topics/news HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx";
    assert_eq!(ask(node.api, named).unwrap().status, 403);
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[overlay]\nenabled = true\n[overlay.api]\nenabled = true\nlisten = \"0.0.0.0:{}\"\n{OPEN}",
        free_addr().port()
    );
    std::fs::write(dir.path().join("omnigate.toml"), text).unwrap();
    let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_omnigate"));
    let output = check.args(["check", "--config", "omnigate.toml"]).current_dir(dir.path()).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("without a token"), "{said}");
}

#[test]
fn what_a_request_names_beyond_its_path_is_judged_by_path_and_method_too() {
    let node = TopicNode::with_tokens("");
    let rights = ["--scope", "topics.publish,topics.subscribe"];
    let narrow = bearer(&node.mint(&[&rights[..], &["--path", "/v1/topics/chat.a"]].concat()));
    let subscribes = |path: &str| {
        let request = format!("GET /v1/topics/{path} HTTP/1.1\r\nhost: localhost\r\n{narrow}\r\n");
        let mut client = crate::support::Client::connect(node.api).unwrap();
        client.send_raw(request).unwrap();
        client.receive_head().unwrap().status
    };
    for (path, expected) in [
        ("chat.a/events", 200),
        ("chat.a/events?topic=chat.a", 200),
        ("chat.a/events?topic=chat.a/sub", 200),
        ("chat.a/events?topic=secret", 403),
        ("chat.a/events?topic=%3E", 403),
        ("secret/events", 403),
    ] {
        assert_eq!(subscribes(path), expected, "{path}");
    }
    assert!(Ws::ask(node.api, "chat.a/ws?topic=secret", &narrow).is_err());
    let mut socket = Ws::open(node.api, "chat.a/ws", &narrow);
    for (op, reason) in [
        (json!({ "op": "subscribe", "ref": 1, "topics": [">"] }), Some("forbidden")),
        (json!({ "op": "subscribe", "ref": 2, "topics": ["chat.a", "secret"] }), Some("forbidden")),
        (json!({ "op": "subscribe", "ref": 3, "topics": ["chat.a", "chat.a/sub"] }), None),
        (json!({ "op": "publish", "ref": 4, "topic": "secret", "text": "x" }), Some("forbidden")),
        (json!({ "op": "publish", "ref": 5, "topic": "chat.a/sub", "text": "x" }), None),
    ] {
        assert_eq!(answered(&mut socket, &op).as_deref(), reason, "{op}");
    }
    // A token that only reads does not publish over a WebSocket either.
    let reader = bearer(&node.mint(&[&rights[..], &["--method", "GET"]].concat()));
    assert_eq!(node.post("chat.a", "x", &reader).status, 403);
    let mut socket = Ws::open(node.api, "chat.a/ws", &reader);
    let publish = json!({ "op": "publish", "ref": 6, "topic": "chat.a", "text": "x" });
    assert_eq!(answered(&mut socket, &publish).as_deref(), Some("forbidden"));
    let subscribe = json!({ "op": "subscribe", "ref": 7, "topics": [">"] });
    assert_eq!(answered(&mut socket, &subscribe), None);
}

/// Says something with a number, and gives the reason why it is refused, if it is.
#[track_caller]
fn answered(socket: &mut Ws, op: &Value) -> Option<String> {
    socket.say(op);
    loop {
        let said = socket.text();
        if said["ref"] == op["ref"] && said["type"] != "publication" {
            return said["reason"].as_str().map(str::to_owned);
        }
    }
}

#[test]
fn what_was_opened_without_a_token_ends_once_tokens_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    omnigate(dir.path(), &["token", "keygen", "root.key"]);
    let tables = "[auth]\nroot_keys = [\"root.key\"]\n";
    let node = TopicNode::start_in(dir, "security = \"plaintext\"\n", OPEN, tables);
    let mut events = Events::open(node.api, "news/events", "");
    let mut socket = Ws::open(node.api, "news/ws", "");
    let with_tokens =
        settings(node.api, node.overlay, "security = \"plaintext\"\n", "auth = \"token\"\n", tables);
    node.node.reload(&with_tokens);
    assert_eq!(node.post("news", "x", "").status, 401);
    let token = bearer(&node.mint(&["--publish", "news"]));
    let ended = loop {
        assert_eq!(node.post("news", "x", &token).status, 200);
        let event = events.next();
        if event.kind == "closed" {
            break event;
        }
    };
    assert_eq!(ended.data["reason"], "token_required");
    assert_eq!(socket.closed(), (1008, "token_required".to_owned()));
}

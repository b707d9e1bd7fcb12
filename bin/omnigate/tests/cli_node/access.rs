//! Who gets an answer from the admin listener.

use crate::{http, node::Node};

const TOKEN: &str = "0123456789abcdef0123";

fn with_token() -> Node {
    Node::start_with(&[], |_, command| {
        command.env("OMNIGATE_ADMIN__TOKEN", TOKEN);
    })
}

#[test]
fn with_a_token_only_probes_are_answered_without_it() {
    let node = with_token();
    for open in ["/healthz", "/readyz", "/readyz/gateway"] {
        // In the end: for a moment it is not where the machine stalls.
        http::eventually(open, || (node.get(open).status == 200).then_some(()));
    }
    for closed in ["/", "/metrics", "/version", "/topology", "/events"] {
        let reply = node.get(closed);
        assert_eq!(reply.status, 401, "{closed}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"omnigate\""), "{closed}");
        assert!(!reply.body.contains(TOKEN));
    }
    let wrong = node.ask("GET", "/metrics", &["Authorization: Bearer 0123456789abcdef0124"]);
    assert_eq!(wrong.status, 401);
    let right = format!("Authorization: Bearer {TOKEN}");
    let metrics = node.ask("GET", "/metrics", &[&right, "Host: by.any.name"]);
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("reason=\"unauth\"} 6"), "{}", metrics.body);
    assert!(!metrics.body.contains(TOKEN));
}

#[test]
fn a_shutdown_needs_the_token_and_the_intent() {
    let mut node = with_token();
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(node.ask("POST", "/shutdown", &["X-Omnigate: 1"]).status, 401);
    assert_eq!(node.ask("POST", "/shutdown", &[&bearer]).status, 403);
    assert_eq!(node.get("/healthz").status, 200);
    assert_eq!(node.ask("POST", "/shutdown", &[&bearer, "X-Omnigate: 1"]).status, 202);
    assert_eq!(node.wait(), Some(0));
}

#[test]
fn without_a_token_a_web_page_cannot_ask_under_its_own_name() {
    let node = Node::start(&[]);
    for path in ["/metrics", "/topology", "/events"] {
        let reply = node.ask("GET", path, &["Host: evil.example"]);
        assert_eq!((reply.status, &reply.json()["reason"]), (403, &"forbidden".into()), "{path}");
    }
    let forged = node.ask("POST", "/shutdown", &["Host: evil.example", "X-Omnigate: 1"]);
    assert_eq!(forged.status, 403);
    assert_eq!(node.ask("POST", "/shutdown", &[]).status, 403);
    assert_eq!(node.ask("GET", "/metrics", &["Host: localhost:9600"]).status, 200);
}

#[test]
fn no_answer_holds_a_secret() {
    let node = with_token();
    let bearer = format!("Authorization: Bearer {TOKEN}");
    for path in ["/", "/metrics", "/healthz", "/readyz", "/version", "/topology"] {
        let reply = node.ask("GET", path, &[&bearer]);
        // Of readiness it is no matter what it says.
        assert!(reply.status == 200 || path == "/readyz", "{path}: {}", reply.status);
        assert!(!reply.body.contains(TOKEN), "{path}");
    }
    let (_, log) = node.stop();
    assert!(!log.contains(TOKEN), "{log}");
}

//! What the gateway believes of a JSON Web Token, and for how long.

use serde_json::json;

use crate::{
    jwt_issuer::{Issuer, publish},
    scripted_server::json_server,
    support::{Client, Node, UNLIMITED, Upstream, ask, eventually},
};

const ISSUER: &str = "https://id.example";

/// A node that takes the tokens of these issuers, with these routes and upstreams; and the folder of its key set, which is
/// not that of its configuration.
fn node(issuers: &[&Issuer], gateway: &str) -> (Node, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let keys = publish(dir.path(), "keys.json", issuers);
    let node = Node::start(&format!(
        "{UNLIMITED}tenant_from = [\"jwt:sub\", \"ip\"]\n{gateway}\n\
         [auth]\njwks_url = \"file:{}\"\njwks_refresh = \"10s\"\njwt_issuer = \"{ISSUER}\"\n",
        keys.display()
    ));
    (node, dir)
}

fn request(path: &str, token: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n")
}

/// Waits until the node has the keys of the issuer.
fn wait_for_keys(node: &Node, path: &str, issuer: &Issuer) {
    let token = issuer.token(&json!({ "iss": ISSUER, "sub": "first" }));
    eventually("the keys are there", || {
        (ask(node.gateway, request(path, &token)).ok()?.status == 200).then_some(())
    });
}

fn to(upstream: &Upstream) -> String {
    format!(
        "route = [{{ path = \"/\", auth = \"always\", upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]",
        upstream.addr
    )
}

#[test]
fn the_first_request_with_a_token_names_its_tenant_to_the_server() {
    let (upstream, issuer) = (Upstream::start(), Issuer::new("k"));
    let (node, _keys) = node(&[&issuer], &to(&upstream));
    wait_for_keys(&node, "/head", &issuer);
    for (tenant, own_connection) in [("acme", true), ("umbrella", false)] {
        let token = issuer.token(&json!({ "iss": ISSUER, "sub": tenant }));
        let mut client = Client::connect(node.gateway).unwrap();
        for turn in 0..2 {
            let seen = client.ask(request("/head", &token)).unwrap();
            let named = format!("x-omnigate-tenant: {tenant}\r\n");
            assert!(seen.body.contains(&named), "request {turn} of {own_connection}: {}", seen.body);
        }
    }
}

#[test]
fn every_part_of_a_view_is_told_the_tenant() {
    let issuer = Issuer::new("k");
    let server = json_server(|head| json!(head.to_ascii_lowercase()).to_string());
    let part = |name: &str| format!("{{ name = \"{name}\", upstream = \"up\", path = \"/{name}\" }}");
    let (node, _keys) = node(
        &[&issuer],
        &format!(
            "upstream.up.endpoints = [\"http://{server}\"]\n\
             view.home = {{ auth = \"always\", parts = [{}, {}] }}",
            part("a"),
            part("b")
        ),
    );
    wait_for_keys(&node, "/v1/views/home", &issuer);
    let token = issuer.token(&json!({ "iss": ISSUER, "sub": "acme" }));
    for turn in 0..2 {
        let answer = ask(node.gateway, request("/v1/views/home", &token)).unwrap().json();
        for part in ["a", "b"] {
            let seen = answer[part].as_str().unwrap();
            assert!(seen.contains("x-omnigate-tenant: acme\r\n"), "part {part} of request {turn}: {seen}");
        }
    }
}

#[test]
fn a_withdrawn_key_is_refused_on_connections_that_used_it_before() {
    let upstream = Upstream::start();
    let (withdrawn, other) = (Issuer::new("withdrawn"), Issuer::new("other"));
    let (node, keys) = node(&[&withdrawn, &other], &to(&upstream));
    wait_for_keys(&node, "/x", &withdrawn);
    let token = withdrawn.token(&json!({ "iss": ISSUER, "sub": "acme" }));
    let mut client = Client::connect(node.gateway).unwrap();
    for _ in 0..3 {
        assert_eq!(client.ask(request("/x", &token)).unwrap().status, 200);
    }
    publish(keys.path(), "keys.json", &[&other]);
    eventually("the key is refused on a new connection", || {
        // Asked now and then, so that the connection is not closed for being idle.
        let on_old = client.ask(request("/x", &token)).unwrap().status;
        let on_new = ask(node.gateway, request("/x", &token)).unwrap().status;
        (on_new == 401).then(|| assert!(on_old == 200 || on_old == 401, "{on_old}"))
    });
    assert_eq!(client.ask(request("/x", &token)).unwrap().status, 401, "on the old connection");
}

#[test]
fn signatures_are_checked_by_requests_that_have_a_slot() {
    let (upstream, issuer, forger) = (Upstream::start(), Issuer::new("k"), Issuer::new("k"));
    let (node, _keys) = node(&[&issuer], &format!("fair_queue.max_inflight = 1\n{}", to(&upstream)));
    wait_for_keys(&node, "/x", &issuer);
    let good = issuer.token(&json!({ "iss": ISSUER, "sub": "acme" }));
    let forged = forger.token(&json!({ "iss": ISSUER, "sub": "acme" }));
    let mut running = Client::connect(node.gateway).unwrap();
    let asked = upstream.arrived();
    running.send_raw(request("/hold", &good)).unwrap();
    upstream.wait_for(asked + 1);
    // While the only slot is taken nobody looks at the signature, and the client gives up waiting.
    let hurried = request("/x", &forged).replace("host: a\r\n", "host: a\r\nx-request-timeout-ms: 500\r\n");
    let busy = Client::connect_from(2, node.gateway).unwrap().ask(hurried).unwrap();
    assert_eq!((busy.status, busy.json()["reason"].as_str()), (429, Some("busy")), "{busy:?}");
    upstream.release();
    assert_eq!(running.receive().unwrap().status, 200);
    assert_eq!(ask(node.gateway, request("/x", &forged)).unwrap().status, 401);
}

#[test]
fn an_issuer_that_is_not_one_name_is_refused() {
    let (upstream, issuer) = (Upstream::start(), Issuer::new("k"));
    let (node, _keys) = node(&[&issuer], &to(&upstream));
    wait_for_keys(&node, "/x", &issuer);
    for iss in [
        json!([ISSUER]),
        json!([ISSUER, "https://evil.example"]),
        json!({ "a": ISSUER }),
        json!(7),
        json!(null),
        json!(true),
        json!(""),
        json!(format!("{ISSUER} ")),
    ] {
        let token = issuer.token(&json!({ "iss": iss, "sub": "acme" }));
        let answer = ask(node.gateway, request("/x", &token)).unwrap();
        assert_eq!((answer.status, answer.json()["reason"].as_str()), (401, Some("unauth")), "{iss}");
    }
}

#[test]
fn a_part_that_is_nested_without_end_is_no_part() {
    let server = json_server(|head| {
        let depth = head.split(' ').nth(1).unwrap()[1..].parse().unwrap();
        "[".repeat(depth) + &"]".repeat(depth)
    });
    let view = |name: &str, depth: u32| {
        format!(
            "view.{name}.parts = [{{ name = \"a\", upstream = \"up\", path = \"/{depth}\", budget = \"30s\" }}]\n"
        )
    };
    let node = Node::start(&format!(
        "{UNLIMITED}upstream.up.endpoints = [\"http://{server}\"]\nupstream.up.timeout = \"30s\"\n{}{}{}",
        view("fine", 128),
        view("deep", 129),
        view("deepest", 100_000)
    ));
    let status = |name: &str| {
        let request = format!("GET /v1/views/{name} HTTP/1.1\r\nhost: a\r\n\r\n");
        ask(node.gateway, request).unwrap().status
    };
    assert_eq!((status("fine"), status("deep"), status("deepest")), (200, 502, 502));
}

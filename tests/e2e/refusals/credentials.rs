//! Requests without a credential, or with one that is not good for them.

use std::{path::Path, process::Command};

use super::{Row, assert_refused, check_rows};
use crate::support::{Client, Node, UNLIMITED, Upstream, ask};

/// What `omnigate token` prints.
fn token(dir: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .arg("token")
        .args(args)
        .current_dir(dir)
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn node(upstream: &Upstream) -> Node {
    let dir = tempfile::tempdir().unwrap();
    for key in ["root.key", "other.key"] {
        token(dir.path(), &["keygen", key]);
    }
    std::fs::write(dir.path().join("revoked"), "").unwrap();
    let settings = settings(upstream, dir.path(), 0);
    Node::start_in(dir, &settings)
}

/// The settings in two versions: only another one counts as an update.
fn settings(upstream: &Upstream, dir: &Path, version: u16) -> String {
    format!(
        "{UNLIMITED}quotas.per_cap_rps = 0\nmax_conns = {}\n\
         route = [{{ path = \"/\", auth = \"always\", upstream = \"up\" }}, \
                  {{ path = \"/open\", auth = \"mutations\", upstream = \"up\" }}, \
                  {{ path = \"/head\", auth = \"always\", upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n\
         [auth]\nroot_keys = [\"{dir}/root.key\"]\nrevoked = \"{dir}/revoked\"\n",
        1000 + version,
        upstream.addr,
        dir = dir.display()
    )
}

fn request(method: &str, path: &str, token: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"
    )
}

#[test]
fn a_credential_that_is_none_is_unauth_and_one_that_does_not_cover_the_request_is_forbidden() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    let mint = |args: &[&str]| {
        token(node.path(), &[&["mint", "--key", "root.key", "--tenant", "acme"], args].concat())
    };
    let good = mint(&[]);
    let forged = token(node.path(), &["mint", "--key", "other.key", "--tenant", "acme"]);
    let tampered = {
        let last = if good.ends_with('A') { "B" } else { "A" };
        good[..good.len() - 1].to_owned() + last
    };
    let conflicting = token(node.path(), &["attenuate", &good, "--tenant", "umbrella"]);
    let revoked = mint(&[]);
    token(node.path(), &["revoke", "--file", "revoked", &revoked]);
    node.reload(&settings(&upstream, node.path(), 1));
    let expired = mint(&["--expires", "1s"]);
    let rows = [
        ("nothing", "GET /x HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(), 401, "unauth"),
        (
            "nothing, for a write",
            "POST /open HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n".to_owned(),
            401,
            "unauth",
        ),
        ("no token at all", request("GET", "/x", "og1.nonsense"), 401, "unauth"),
        ("another root key's", request("GET", "/x", &forged), 401, "unauth"),
        ("a changed one", request("GET", "/x", &tampered), 401, "unauth"),
        ("a revoked one", request("GET", "/x", &revoked), 401, "unauth"),
        ("another path", request("GET", "/x", &mint(&["--path", "/y"])), 403, "forbidden"),
        ("another method", request("POST", "/x", &mint(&["--method", "GET"])), 403, "forbidden"),
        ("another address", request("GET", "/x", &mint(&["--ip", "10.0.0.0/8"])), 403, "forbidden"),
        ("not yet", request("GET", "/x", &mint(&["--not-before", "30m"])), 401, "unauth"),
        ("two tenants at once", request("GET", "/x", &conflicting), 403, "forbidden"),
    ];
    let rows = rows.map(|(what, request, status, reason)| Row { what, request, status, reason });
    check_rows(&node, &rows);
    crate::support::eventually("the short one expires", || {
        let answer = ask(node.gateway, request("GET", "/x", &expired)).unwrap();
        (answer.status != 200).then(|| assert_refused("an expired one", &answer, 401, "unauth"))
    });
    let challenge = ask(node.gateway, "GET /x HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!(challenge.header("www-authenticate"), Some("Bearer"));
    assert_eq!(ask(node.gateway, request("GET", "/x", &good)).unwrap().status, 200);
    for secret in [&good, &forged, &tampered, &revoked, &expired, &conflicting] {
        let signature = secret.rsplit('.').next().unwrap();
        assert!(!node.log().contains(signature), "a token is in the log");
    }
}

#[test]
fn a_good_token_names_the_tenant_to_the_upstream_and_goes_no_further() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    let good = token(
        node.path(),
        &["mint", "--key", "root.key", "--tenant", "acme", "--path", "/head", "--method", "GET"],
    );
    let mut client = Client::connect(node.gateway).unwrap();
    for _ in 0..2 {
        let lie = request("GET", "/head", &good)
            .replace("host: a\r\n", "host: a\r\nx-omnigate-tenant: umbrella\r\n");
        let seen = client.ask(lie).unwrap();
        assert_eq!(seen.status, 200);
        assert!(seen.body.contains("x-omnigate-tenant: acme"), "{}", seen.body);
        assert!(!seen.body.contains("umbrella") && !seen.body.contains("og1."), "{}", seen.body);
    }
}

#[test]
fn a_connection_that_was_authorized_once_is_asked_again() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    let good = token(node.path(), &["mint", "--key", "root.key", "--tenant", "acme", "--path", "/x"]);
    let mut client = Client::connect(node.gateway).unwrap();
    assert_eq!(client.ask(request("GET", "/x", &good)).unwrap().status, 200);
    assert_refused("elsewhere", &client.ask(request("GET", "/y", &good)).unwrap(), 403, "forbidden");
    assert_refused("without", &client.get("/x").unwrap(), 401, "unauth");
    token(node.path(), &["revoke", "--file", "revoked", &good]);
    node.reload(&settings(&upstream, node.path(), 1));
    assert_refused("revoked", &client.ask(request("GET", "/x", &good)).unwrap(), 401, "unauth");
}

#[test]
fn a_forged_token_is_refused_at_the_door_and_waits_for_no_slot() {
    let upstream = Upstream::start();
    let dir = tempfile::tempdir().unwrap();
    for key in ["root.key", "other.key"] {
        token(dir.path(), &["keygen", key]);
    }
    std::fs::write(dir.path().join("revoked"), "").unwrap();
    let settings = format!("fair_queue = {{ max_inflight = 1 }}\n{}", settings(&upstream, dir.path(), 0));
    let node = Node::start_in(dir, &settings);
    let mint = |key: &str| token(node.path(), &["mint", "--key", key, "--tenant", "acme"]);
    let mut running = Client::connect(node.gateway).unwrap();
    running.send_raw(request("GET", "/hold", &mint("root.key"))).unwrap();
    upstream.wait_for(1);
    // It has its answer while the only slot is taken.
    let answer = ask(node.gateway, request("GET", "/x", &mint("other.key"))).unwrap();
    assert_refused("forged", &answer, 401, "unauth");
    upstream.release();
    assert_eq!(running.receive().unwrap().status, 200);
}

#[test]
fn a_view_asks_for_the_credential_that_it_is_configured_to_and_says_whom_it_asked() {
    let upstream = Upstream::start();
    let dir = tempfile::tempdir().unwrap();
    token(dir.path(), &["keygen", "root.key"]);
    let (at, part) = (dir.path().display(), "optional = true, budget = \"60s\"");
    let settings = format!(
        "{UNLIMITED}access_log = {{ enabled = true, path = \"{at}/access.log\" }}\n\
         upstream.one.endpoints = [\"http://{up}\"]\nupstream.two.endpoints = [\"http://{up}\"]\n\
         view.open.parts = [{{ name = \"a\", upstream = \"one\", path = \"/x\", {part} }}]\n\
         [gateway.view.closed]\nauth = \"always\"\nparts = [\
            {{ name = \"a\", upstream = \"two\", path = \"/x\", {part} }}, \
            {{ name = \"b\", upstream = \"one\", path = \"/y\", {part} }}, \
            {{ name = \"c\", upstream = \"two\", path = \"/z\", {part} }}]\n\
         [auth]\nroot_keys = [\"{at}/root.key\"]\n",
        up = upstream.addr
    );
    let node = Node::start_in(dir, &settings);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(ask(node.gateway, get("/v1/views/open")).unwrap().status, 200);
    let refused = ask(node.gateway, get("/v1/views/closed")).unwrap();
    assert_refused("without a credential", &refused, 401, "unauth");
    let good = token(node.path(), &["mint", "--key", "root.key", "--tenant", "acme"]);
    assert_eq!(ask(node.gateway, request("GET", "/v1/views/closed", &good)).unwrap().status, 200);
    let lines = crate::support::eventually("three lines are written", || {
        let log = std::fs::read_to_string(node.path().join("access.log")).ok()?;
        // Whole ones.
        (log.matches('\n').count() == 3).then_some(log)
    });
    let told: Vec<_> = lines
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            (line["status"].clone(), line["upstream"].clone(), line["tries"].clone())
        })
        .collect();
    let expected = [
        (200.into(), "one".into(), 1.into()),
        (401.into(), serde_json::Value::Null, 0.into()),
        (200.into(), "two,one".into(), 3.into()),
    ];
    assert_eq!(told, expected, "{lines}");
}

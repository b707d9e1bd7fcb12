//! What the gateway does with messages on real sockets: routes, header fields, ids, the access log, redirects.

use std::{fs, path::Path, time::Instant};

use crate::support::{PATIENCE, Running, route};
use ron_kernel::{
    config::{Loader, Schema, Sources},
    reload::Reconfigure,
};
use ron_transport::addr::ListenAddr;
use svc_gateway::{AccessFormat, AccessLogConfig, AuthConfig, GatewayConfig, HeaderRulesConfig, RouteConfig};

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n{fields}\r\n")
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_route_changes_paths_and_header_fields_on_the_way() {
    let rules = HeaderRulesConfig {
        set: [pair("x-set", "1")].into(),
        add: [pair("x-add", "2")].into(),
        remove: vec!["x-remove".into()],
    };
    let back =
        HeaderRulesConfig { set: [pair("x-frame-options", "deny")].into(), ..HeaderRulesConfig::default() };
    let changed = RouteConfig {
        rewrite: "/v2".into(),
        request_headers: rules,
        response_headers: back,
        ..route("/api")
    };
    let gateway = Running::start(GatewayConfig { route: vec![changed], ..GatewayConfig::default() });
    let answer = gateway.ask(get("/api/x?q=1", "x-set: 0\r\nx-add: 0\r\nx-remove: 0\r\n"));
    let (head, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("x-frame-options: deny"), "{answer}");
    assert!(seen.starts_with("GET /v2/x?q=1 HTTP/1.1\r\n"), "{answer}");
    assert!(
        seen.contains("x-set: 1\r\n") && !seen.contains("x-set: 0") && !seen.contains("x-remove"),
        "{answer}"
    );
    assert!(seen.contains("x-add: 0\r\n") && seen.contains("x-add: 2\r\n"), "{answer}");
}

#[test]
fn a_method_that_no_route_takes_is_405_with_those_that_are_allowed() {
    let posts = RouteConfig { methods: vec!["POST".into(), "PUT".into()], ..route("/x") };
    let gateway =
        Running::start(GatewayConfig { route: vec![route("/"), posts], ..GatewayConfig::default() });
    let answer = gateway.ask(get("/x/y", ""));
    assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("\r\nallow: POST, PUT\r\n"), "{answer}");
    assert!(answer.contains("\"reason\":\"method_not_allowed\""), "{answer}");
}

#[test]
fn every_answer_carries_the_id_that_the_upstream_saw() {
    let only_x = GatewayConfig { route: vec![route("/x")], ..GatewayConfig::default() };
    let gateway = Running::start(only_x);
    let answer = gateway.ask(get("/x", "x-corr-id: my-id\r\n"));
    assert_eq!(answer.matches("x-corr-id: my-id\r\n").count(), 2, "to the client and upstream: {answer}");
    let made = gateway.ask(get("/x", ""));
    let id = made.split_once("x-corr-id: ").unwrap().1.split_once("\r\n").unwrap().0;
    assert_eq!(made.matches(&format!("x-corr-id: {id}\r\n")).count(), 2, "{made}");
    assert!(made.contains(&format!("traceparent: 00-{id}-")), "{made}");
    for refused in [get("/y", ""), get("/x/..", ""), "GET / HTTP/1.1\r\n\r\n".into()] {
        let answer = gateway.ask(refused);
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains("\r\nx-corr-id: "), "{answer}");
    }
}

#[test]
fn a_trusted_proxy_names_the_client_and_others_do_not() {
    let from = "x-forwarded-for: 6.6.6.6, 203.0.113.9\r\nx-forwarded-proto: https\r\n";
    let trusting = Running::start(GatewayConfig {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..GatewayConfig::default()
    });
    let seen = trusting.ask(get("/", from));
    assert!(seen.contains("x-forwarded-for: 6.6.6.6, 203.0.113.9, 127.0.0.1\r\n"), "{seen}");
    assert!(seen.contains("x-forwarded-proto: https\r\n"), "{seen}");
    let seen = Running::start(GatewayConfig::default()).ask(get("/", from));
    assert!(seen.contains("x-forwarded-for: 127.0.0.1\r\n"), "{seen}");
    assert!(seen.contains("x-forwarded-proto: http\r\n"), "{seen}");
}

#[test]
fn the_redirect_listener_sends_everybody_to_https() {
    let config =
        GatewayConfig { redirect_http: Some("127.0.0.1:0".parse().unwrap()), ..GatewayConfig::default() };
    let gateway = Running::start(config);
    let Some(ListenAddr::Tcp(addr)) = gateway.gateway.redirect_addr() else { panic!("a TCP address") };
    let answer = crate::support::ask(addr, get("/x?y=z", ""));
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
    assert!(answer.contains("\r\nlocation: https://a.example/x?y=z\r\n"), "{answer}");
}

fn logging(path: &Path) -> GatewayConfig {
    let format = AccessFormat::Json;
    GatewayConfig {
        access_log: AccessLogConfig { enabled: true, path: path.to_owned(), format, sample: 1.0 },
        route: vec![RouteConfig { name: "pages".into(), ..route("/x") }],
        ..GatewayConfig::default()
    }
}

#[test]
fn the_access_log_has_a_line_for_each_request_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let gateway = Running::start(logging(&path));
    let secret = "authorization: Bearer hidden\r\ncontent-length: 3\r\nx-corr-id: first\r\n";
    let answer = gateway.ask(format!("{}abc", get("/x/y?token=hidden", secret)));
    let length = answer.split_once("\r\n\r\n").unwrap().1.len();
    gateway.ask(get("/nowhere", "x-corr-id: second\r\n"));
    drop(gateway);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hidden"), "{text}");
    let mut lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // A line is written once its client has the answer; the next request may be on another core.
    lines.sort_by_key(|line| line["corr_id"].to_string());
    let [first, second] = lines.as_slice() else { panic!("{text}") };
    for (key, value) in [
        ("corr_id", "first"),
        ("client", "127.0.0.1"),
        ("route", "pages"),
        ("method", "GET"),
        ("path", "/x/y"),
        ("upstream", "echo"),
    ] {
        assert_eq!(first[key], value, "{text}");
    }
    assert_eq!((first["status"].as_u64(), first["bytes_in"].as_u64()), (Some(200), Some(3)), "{text}");
    assert_eq!(first["bytes_out"].as_u64(), Some(length as u64), "{text}");
    assert_eq!(
        (second["corr_id"].as_str(), second["status"].as_u64()),
        (Some("second"), Some(404)),
        "{text}"
    );
    assert_eq!(second["reason"], "not_found", "{text}");
}

/// Waits until a file has that many lines.
#[track_caller]
fn await_lines(path: &Path, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while fs::read_to_string(path).unwrap_or_default().lines().count() < count {
        assert!(Instant::now() < deadline, "{} has not got {count} lines", path.display());
        std::thread::yield_now();
    }
}

#[test]
fn a_reload_opens_the_access_log_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let gateway = Running::start(logging(&path));
    gateway.ask(get("/x", ""));
    await_lines(&path, 1);
    fs::rename(&path, &moved).unwrap();
    let loader = Loader::new(Schema::new().table::<GatewayConfig>().table::<AuthConfig>(), "TEST_");
    let text =
        format!("[gateway]\nlisten = \"127.0.0.1:0\"\naccess_log = {{ enabled = true, path = {path:?} }}\n");
    let snapshot =
        loader.load(Sources { file: Some(("t.toml".into(), text)), ..Sources::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let commit = runtime.block_on(gateway.gateway.prepare(snapshot.into())).unwrap();
    commit();
    gateway.ask(get("/x", ""));
    drop(gateway);
    let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
    assert_eq!((lines(&moved), lines(&path)), (1, 1));
}

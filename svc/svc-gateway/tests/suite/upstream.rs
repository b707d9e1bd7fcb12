//! The upstream side of a gateway, against servers that misbehave byte by byte.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::upstream_support::{Act, Node, PATIENCE, RawServer, answer, ask, eventually, nobody, status};
use ron_kernel::readiness::Effect;
use ron_transport::tls::testkit::TestCa;

const FINE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine";
/// No retries, and a breaker that does not get in the way.
const ONCE: &str =
    "retry.max_tries = 1\nbreaker = { consecutive = 0, error_rate = 0.0 }\neject.consecutive = 0\n";

fn fine() -> RawServer {
    RawServer::start(|_, _| Act::Say(FINE.into()))
}

fn endpoints(urls: &[String]) -> String {
    format!("endpoints = {urls:?}\n")
}

#[test]
fn a_dead_server_costs_no_request_whatever_its_method() {
    let server = fine();
    let dead = format!("http://{}", nobody());
    let node = Node::start(&format!("{}breaker.open_for = \"1h\"\n", endpoints(&[dead, server.url()])));
    for method in ["GET", "POST"].iter().cycle().take(30) {
        assert_eq!(status(&node.ask(method)), 200, "{method}");
    }
    assert_eq!(server.asked(), 30);
    let failures = node.metric("upstream_failures_total", &["kind=\"connect\""]);
    assert!((1..=5).contains(&failures), "its breaker opens after five: {failures}");
}

#[test]
fn a_request_that_may_be_repeated_is_tried_again_when_its_connection_breaks() {
    let server = RawServer::start(|number, _| match number {
        0 => Act::Last(String::new()),
        1 => Act::Reset("HTTP/1.1 20".into()),
        _ => Act::Say(FINE.into()),
    });
    let node = Node::start(&endpoints(&[server.url()]));
    let whole = node.ask("GET");
    assert!(status(&whole) == 200 && whole.ends_with("fine"), "{whole}");
    assert_eq!(server.asked(), 3);
    assert_eq!(node.metric("backoff_retries_total", &["op=\"rpc\""]), 2);
}

#[test]
fn a_request_that_may_not_be_repeated_is_not() {
    let server = RawServer::start(|_, _| Act::Last(String::new()));
    let node = Node::start(&endpoints(&[server.url()]));
    assert_eq!(status(&node.ask("POST")), 502);
    assert_eq!(server.asked(), 1);
}

#[test]
fn a_server_that_cannot_answer_is_asked_again_unless_it_says_when() {
    let unavailable = RawServer::start(|number, _| answer(if number < 2 { 503 } else { 200 }, "x"));
    let node = Node::start(&endpoints(&[unavailable.url()]));
    assert_eq!(status(&node.ask("GET")), 200);
    assert_eq!(unavailable.asked(), 3);
    let later = "HTTP/1.1 503 Later\r\nretry-after: 7\r\ncontent-length: 5\r\n\r\nlater";
    let busy = RawServer::start(|_, _| Act::Say(later.into()));
    let node = Node::start(&endpoints(&[busy.url()]));
    let passed_on = node.ask("GET");
    assert!(status(&passed_on) == 503 && passed_on.ends_with("later"), "{passed_on}");
    assert_eq!(busy.asked(), 1);
}

#[test]
fn retries_keep_to_their_budget() {
    let server = RawServer::start(|_, _| Act::Last(String::new()));
    let lenient = "breaker = { consecutive = 0, error_rate = 0.0 }\neject.consecutive = 0\n\
                   retry = { budget = 0.0, base = \"1ms\", cap = \"1ms\" }\n";
    let node = Node::start(&format!("{}{lenient}", endpoints(&[server.url()])));
    let begun = Instant::now();
    for _ in 0..40 {
        assert_eq!(status(&node.ask("GET")), 502);
    }
    let retries = node.metric("backoff_retries_total", &["op=\"rpc\""]);
    let free = 3 * (begun.elapsed().as_secs() + 2);
    assert!(retries <= free, "{retries} of at most {free}");
}

#[test]
fn nothing_a_broken_server_sends_passes_as_an_answer() {
    for nonsense in [
        "",
        "HTTP/1.1 ",
        "\u{7f}\u{1}\u{2}\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nfine",
        "HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\nfine",
        "HTTP/1.1 200 OK\r\n bad: fold\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n",
    ] {
        for reset in [false, true] {
            let act = move |_: usize, _: &str| match reset {
                true => Act::Reset(nonsense.into()),
                false => Act::Last(nonsense.into()),
            };
            let server = RawServer::start(act);
            let node = Node::start(&format!("{}{ONCE}", endpoints(&[server.url()])));
            let refused = node.ask("GET");
            assert!(refused.contains("\"reason\":\"bad_gateway\""), "{nonsense:?}: {refused}");
            assert_eq!(status(&refused), 502);
            assert_eq!(node.metric("upstream_failures_total", &["kind=\"broken\""]), 1);
        }
    }
}

#[test]
fn half_a_body_never_passes_as_a_whole_one_and_counts_against_the_server() {
    let sized = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    for half in [sized, chunked] {
        for reset in [false, true] {
            let act = move |_: usize, _: &str| match reset {
                true => Act::Reset(half.into()),
                false => Act::Last(half.into()),
            };
            let server = RawServer::start(act);
            let node = Node::start(&format!(
                "{}breaker = {{ consecutive = 1, open_for = \"1h\" }}\n",
                endpoints(&[server.url()])
            ));
            let cut = node.ask("GET");
            let is_whole = cut.contains("content-length: 4") || cut.ends_with("0\r\n\r\n");
            assert!(!is_whole && !cut.contains("halfhalf"), "{half:?}, reset {reset}: {cut}");
            eventually("the breaker opens", || node.metric("upstream_servers", &["state=\"open\""]) == 1);
        }
    }
}

#[test]
fn an_open_breaker_refuses_at_once_says_when_and_is_closed_by_one_request() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let server = RawServer::start(move |_, _| match is_well.load(Ordering::SeqCst) {
        true => Act::Say(FINE.into()),
        false => Act::Last(String::new()),
    });
    // Long enough that it is open while it is looked at, on a busy machine too.
    let breaker = "retry.max_tries = 1\nbreaker = { consecutive = 3, open_for = \"10s\" }\n";
    let node = Node::start(&format!("{}{breaker}", endpoints(&[server.url()])));
    (0..3).for_each(|_| assert_eq!(status(&node.ask("POST")), 502));
    let refused = node.ask("GET");
    let wait =
        refused.split_once("retry-after: ").and_then(|(_, rest)| rest.split_once('\r')?.0.parse().ok());
    assert!(status(&refused) == 502 && wait.is_some_and(|wait| (1..=15).contains(&wait)), "{refused}");
    assert_eq!(server.asked(), 3, "it is left alone");
    let down = || node.scope.readiness().standing(Some("gateway"));
    eventually("readiness tells", || {
        down().iter().any(|s| s.name == "upstream_down" && s.effect == Effect::Report)
    });
    assert!(down()[0].reason.contains("up"));
    well.store(true, Ordering::SeqCst);
    eventually("one request closes it", || status(&node.ask("GET")) == 200);
    eventually("readiness clears", || down().is_empty());
    assert_eq!(status(&node.ask("GET")), 200);
}

#[test]
fn a_reload_keeps_what_is_known_of_a_server_and_its_connections() {
    let broken = RawServer::start(|_, _| Act::Last(String::new()));
    let settings = |timeout: &str| {
        format!(
            "{}timeout = \"{timeout}\"\nretry.max_tries = 1\nbreaker = {{ consecutive = 2, open_for = \"1h\" }}\n",
            endpoints(&[broken.url()])
        )
    };
    let node = Node::start(&settings("50s"));
    (0..2).for_each(|_| assert_eq!(status(&node.ask("GET")), 502));
    node.reload(&settings("40s"));
    assert!(node.ask("GET").contains("retry-after"));
    assert_eq!(broken.asked(), 2, "the breaker is still open");
    let server = fine();
    // With one connection for all cores, each request uses it.
    let settings =
        |timeout: &str| format!("{}max_conns = 1\ntimeout = \"{timeout}\"\n", endpoints(&[server.url()]));
    for timeout in ["50s", "40s"] {
        node.reload(&settings(timeout));
        (0..4).for_each(|_| assert_eq!(status(&node.ask("GET")), 200));
    }
    assert_eq!((server.asked(), server.accepted()), (8, 1));
}

#[test]
fn a_server_that_fails_its_health_checks_is_not_used_until_it_passes_them() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let moody = RawServer::start(move |_, head| {
        if head.starts_with("get /healthz ") {
            assert!(head.contains("user-agent: omnigate/") && head.contains("host: 127.0.0.1:"), "{head}");
            return answer(if is_well.load(Ordering::SeqCst) { 204 } else { 500 }, "");
        }
        count.fetch_add(1, Ordering::SeqCst);
        Act::Say(FINE.into())
    });
    let steady = fine();
    let health = "health = { path = \"/healthz\", interval = \"20ms\", timeout = \"60s\" }\n";
    let node = Node::start(&format!("{}{health}", endpoints(&[moody.url(), steady.url()])));
    let unhealthy = || node.metric("upstream_servers", &["state=\"unhealthy\""]);
    eventually("it is found unhealthy", || unhealthy() == 1);
    let before = asked.load(Ordering::SeqCst);
    (0..20).for_each(|_| assert_eq!(status(&node.ask("GET")), 200));
    assert_eq!(asked.load(Ordering::SeqCst), before);
    well.store(true, Ordering::SeqCst);
    eventually("it is found healthy", || unhealthy() == 0);
    eventually("it is used", || {
        node.ask("GET");
        asked.load(Ordering::SeqCst) > before
    });
}

#[test]
fn health_checks_close_a_breaker_without_a_request() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let server = RawServer::start(move |_, head| match is_well.load(Ordering::SeqCst) {
        true => Act::Say(FINE.into()),
        false if head.starts_with("get /healthz ") => answer(503, ""),
        false => Act::Last(String::new()),
    });
    let settings = "retry.max_tries = 1\n\
                    health = { path = \"/healthz\", interval = \"20ms\", timeout = \"60s\", healthy_after = 1, \
                    unhealthy_after = 1000 }\n\
                    breaker = { consecutive = 1, open_for = \"50ms\" }\n";
    let node = Node::start(&format!("{}{settings}", endpoints(&[server.url()])));
    assert_eq!(status(&node.ask("GET")), 502);
    eventually("the breaker opens", || node.metric("upstream_servers", &["state=\"open\""]) == 1);
    well.store(true, Ordering::SeqCst);
    eventually("the breaker closes", || node.metric("upstream_servers", &["state=\"usable\""]) == 1);
    assert_eq!(status(&node.ask("GET")), 200);
}

#[test]
fn a_server_that_answers_worse_than_the_others_is_left_out_and_never_all_of_them_are() {
    let bad = RawServer::start(|_, _| answer(500, "no"));
    let good = fine();
    let node = Node::start(&format!("{}eject.base = \"1h\"\n", endpoints(&[bad.url(), good.url()])));
    eventually("it is left out", || {
        node.ask("GET");
        node.metric("upstream_servers", &["state=\"ejected\""]) == 1
    });
    assert_eq!(bad.asked(), 5);
    (0..20).for_each(|_| assert_eq!(status(&node.ask("GET")), 200));
    assert_eq!(bad.asked(), 5);
    let alone = Node::start(&endpoints(&[bad.url()]));
    (0..10).for_each(|_| assert_eq!(status(&alone.ask("GET")), 500));
    assert_eq!(bad.asked(), 15);
}

#[test]
fn a_server_never_has_more_connections_than_it_may_and_who_comes_late_waits() {
    let server = fine();
    let node = Node::start(&format!("{}max_conns = 1\n", endpoints(&[server.url()])));
    let together = Barrier::new(8);
    thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                together.wait();
                (0..10).for_each(|_| assert_eq!(status(&node.ask("GET")), 200));
            });
        }
    });
    assert_eq!((server.asked(), server.most_open()), (80, 1));
}

#[test]
fn who_finds_too_many_waiting_hears_so_and_who_waits_too_long_is_late() {
    let server = RawServer::start(|_, _| Act::Hold);
    let settings = "max_conns = 1\nmax_waiting = 1\ntimeout = \"10s\"\nretry.max_tries = 1\n";
    let node = Node::start(&format!("{}{settings}", endpoints(&[server.url()])));
    thread::scope(|s| {
        let holding = s.spawn(|| node.ask("GET"));
        eventually("the first is being served", || server.asked() == 1);
        let waiting = s.spawn(|| node.ask("GET"));
        eventually("the second waits", || node.metric("queue_depth", &["queue=\"upstream_wait\""]) == 1);
        let refused = node.ask("GET");
        assert!(status(&refused) == 429 && refused.contains("\"reason\":\"busy\""), "{refused}");
        assert!(refused.contains("retry-after: 1"), "{refused}");
        assert_eq!(node.metric("busy_rejections_total", &["queue=\"upstream_wait\""]), 1);
        assert_eq!(status(&holding.join().unwrap()), 504);
        assert_eq!(status(&waiting.join().unwrap()), 504);
    });
}

#[test]
fn a_server_hears_how_long_it_has_and_a_client_can_shorten_it() {
    let server = RawServer::start(|number, _| if number == 0 { Act::Say(FINE.into()) } else { Act::Hold });
    let node = Node::start(&format!("timeout = \"5s\"\n{}", endpoints(&[server.url()])));
    assert_eq!(status(&node.ask_with("GET", "grpc-timeout: 9S\r\n")), 200);
    assert!(server.heads()[0].contains("x-request-timeout-ms: 5000\r\n"), "{:?}", server.heads());
    assert!(server.heads()[0].contains("grpc-timeout: 5000000u\r\n"), "{:?}", server.heads());
    let begun = Instant::now();
    assert_eq!(status(&node.ask_with("GET", "x-request-timeout-ms: 3000\r\n")), 504);
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    let told = server.heads()[1].split_once("x-request-timeout-ms: ").unwrap().1.to_owned();
    let left: u64 = told.split_once('\r').unwrap().0.parse().unwrap();
    assert!((1..=3000).contains(&left), "what was left when it was asked: {left}");
}

#[test]
fn an_upstreams_latency_is_measured_under_its_name() {
    let server = fine();
    let node = Node::start(&endpoints(&[server.url()]));
    (0..3).for_each(|_| assert_eq!(status(&node.ask("GET")), 200));
    let measured = || node.metric("downstream_latency_seconds_count", &["service=\"up\""]);
    eventually("each is measured", || measured() == 3);
}

#[test]
fn every_address_of_a_name_is_a_server() {
    let server = fine();
    let node = Node::start(&endpoints(&[format!("http://localhost:{}", server.addr.port())]));
    for _ in 0..10 {
        assert_eq!(status(&node.ask("GET")), 200);
    }
    let well = node.gateway.all_healthy_once(node.scope.clock().within(PATIENCE));
    assert_eq!(node.block_on(well), Ok(()));
}

#[test]
fn a_strict_start_waits_for_every_endpoint_and_names_those_that_are_missing() {
    let (server, dead) = (fine(), format!("http://{}", nobody()));
    let node = Node::start(&endpoints(&[server.url(), dead.clone()]));
    let well = node.gateway.all_healthy_once(node.scope.clock().within(Duration::from_secs(5)));
    assert_eq!(node.block_on(well), Err(vec![format!("{dead} of `up`")]));
    let late = RawServer::start(|number, _| answer(if number < 3 { 503 } else { 200 }, ""));
    let node =
        Node::start(&format!("{}health = {{ path = \"/\", interval = \"1h\" }}\n", endpoints(&[late.url()])));
    let well = node.gateway.all_healthy_once(node.scope.clock().within(PATIENCE));
    assert_eq!(node.block_on(well), Ok(()));
}

/// A gateway with TLS, which chooses HTTP/2 where it is offered, in front of `server`; and whom to trust for it.
fn tls_server(server: &RawServer, dir: &std::path::Path) -> (Node, std::path::PathBuf) {
    let ca = TestCa::new("test");
    let files = ca.server(&["127.0.0.1"]).write(dir, "server");
    let tls = format!("tls = {{ cert_path = {:?}, key_path = {:?} }}", files.cert_path, files.key_path);
    (Node::start_with(&tls, &endpoints(&[server.url()])), ca.write(dir, "ca"))
}

#[test]
fn over_tls_many_requests_share_one_http2_connection_per_core() {
    let (server, dir) = (fine(), tempfile::tempdir().unwrap());
    let (behind, ca) = tls_server(&server, dir.path());
    let settings = format!("endpoints = [\"https://{}\"]\ntls.ca_path = {ca:?}\n", behind.addr);
    let front = Node::start(&settings);
    let together = Barrier::new(16);
    thread::scope(|s| {
        for _ in 0..16 {
            s.spawn(|| {
                together.wait();
                (0..5).for_each(|_| assert_eq!(status(&front.ask("GET")), 200));
            });
        }
    });
    let cores = front.scope.planes().cores().len() as u64;
    let spawned = front.metric("tasks_spawned_total", &["kind=\"h2_upstream\""]);
    assert!((1..=cores).contains(&spawned), "{spawned} connections for {cores} cores");
    assert_eq!(status(&ask(front.addr, "POST", "")), 200);
}

#[test]
fn over_tls_http1_is_spoken_where_it_is_wanted_and_a_stranger_is_not_spoken_to() {
    let (server, dir) = (fine(), tempfile::tempdir().unwrap());
    let (behind, ca) = tls_server(&server, dir.path());
    let at = format!("endpoints = [\"https://{}\"]\nretry.max_tries = 1\n", behind.addr);
    let front = Node::start(&format!("{at}protocol = \"http1\"\ntls.ca_path = {ca:?}\n"));
    (0..4).for_each(|_| assert_eq!(status(&front.ask("GET")), 200));
    assert_eq!(front.metric("tasks_spawned_total", &["kind=\"h2_upstream\""]), 0);
    let other = TestCa::new("other").write(dir.path(), "other");
    let wary = Node::start(&format!("{at}tls.ca_path = {other:?}\n"));
    assert_eq!(status(&wary.ask("GET")), 502);
    let misnamed = Node::start(&format!("{at}tls = {{ ca_path = {ca:?}, server_name = \"elsewhere\" }}\n"));
    assert_eq!(status(&misnamed.ask("GET")), 502);
}

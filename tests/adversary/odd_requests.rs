//! Requests that two servers could read in two ways, and refusals that would cost a client nothing.

use crate::{
    h2_frames::H2Client,
    support::{Client, Node, UNLIMITED, Upstream, ask, free_addr, to},
};

#[test]
fn a_target_without_a_path_goes_on_with_one() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    for (target, path) in [("http://a?x", "/?x"), ("http://a", "/"), ("http://a/?x", "/?x")] {
        let answer = ask(node.gateway, format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n")).unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, path), "{target}");
    }
    let mut client = H2Client::connect(node.gateway).unwrap();
    assert!(client.get("a", "?x", &[]).unwrap().is_malformed());
    assert_eq!(client.get("a", "/?x", &[]).unwrap().body(), "/?x");
}

#[test]
fn trace_is_not_forwarded_unless_a_route_lists_it() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\" }}, \
                             {{ path = \"/traced\", methods = [\"TRACE\"], upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    for method in ["TRACE", "TRACK", "trace", "Track"] {
        let answer = ask(node.gateway, format!("{method} /x HTTP/1.1\r\nhost: a\r\n\r\n")).unwrap();
        assert_eq!((answer.status, answer.json()["reason"].as_str()), (405, Some("method_not_allowed")));
        let allow = answer.header("allow").unwrap();
        assert!(allow.contains("GET") && !allow.contains("TRACE"), "{allow}");
        let mut client = H2Client::connect(node.gateway).unwrap();
        let fields = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", "/x")];
        assert_eq!(client.ask(&fields).unwrap().status(), Some(405), "{method}");
    }
    assert_eq!(upstream.arrived(), 0);
    assert_eq!(ask(node.gateway, "TRACE /traced HTTP/1.1\r\nhost: a\r\n\r\n").unwrap().status, 200);
}

/// Hosts that servers read in different ways.
const UNSOUND: [&str; 17] = [
    "h:x", "h:80:80", "h:", "h:65536", "h:000080", "h:-1", "h:+1", "[::1", "[::1]x", "[::1]:x", "[x]", "[]",
    "::1", "h]", "h%2e", ".h", "a..b",
];

#[test]
fn an_unsound_host_is_malformed_on_both_protocols() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    for host in UNSOUND {
        let answer = ask(node.gateway, format!("GET /x HTTP/1.1\r\nhost: {host}\r\n\r\n")).unwrap();
        assert_eq!(answer.status, 400, "{host}: {answer:?}");
        let answer = ask(node.gateway, format!("GET http://{host}/x HTTP/1.1\r\nhost: {host}\r\n\r\n"));
        assert_eq!(answer.unwrap().status, 400, "{host} in the target");
        let mut client = H2Client::connect(node.gateway).unwrap();
        let answer = client.get(host, "/x", &[]).unwrap();
        assert!(answer.is_malformed(), "{host} on HTTP/2: {answer:?}");
        let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/x"), ("host", host)];
        let answer = client.ask(&fields).unwrap();
        assert!(answer.is_malformed(), "{host} as a field on HTTP/2: {answer:?}");
    }
    assert_eq!(upstream.arrived(), 0);
    for host in ["h", "h:80", "a.example.", "[::1]", "[::1]:8080", "127.0.0.1:1", "a_b~c"] {
        let answer = ask(node.gateway, format!("GET /x HTTP/1.1\r\nhost: {host}\r\n\r\n")).unwrap();
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
        let answer = H2Client::connect(node.gateway).unwrap().get(host, "/x", &[]).unwrap();
        assert_eq!(answer.status(), Some(200), "{host} on HTTP/2");
    }
}

#[test]
fn a_request_with_too_many_fields_is_refused_on_http_2_as_well() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("{}limits.max_headers = 10\n", to(upstream.addr)));
    let names: Vec<String> = (0..11).map(|i| format!("x-{i}")).collect();
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let mut client = H2Client::connect(node.gateway).unwrap();
    assert_eq!(client.get("a", "/x", &fields[..10]).unwrap().status(), Some(200));
    let refused = client.get("a", "/x", &fields).unwrap();
    assert_eq!(refused.status(), Some(431), "{refused:?}");
    let same = [("x", "1"); 11];
    assert_eq!(client.get("a", "/x", &same).unwrap().status(), Some(431), "eleven of one name");
    assert_eq!(upstream.arrived(), 1);
}

#[test]
fn a_field_value_with_blanks_around_it_is_malformed_on_http_2() {
    let upstream = Upstream::start();
    let node = Node::in_front_of(upstream.addr);
    let mut client = H2Client::connect(node.gateway).unwrap();
    for value in [" a", "a ", "\ta", "a\t", " "] {
        let answer = client.get("a", "/x", &[("x-a", value)]).unwrap();
        assert!(answer.is_malformed(), "{value:?}: {answer:?}");
    }
    assert_eq!(upstream.arrived(), 0);
    assert_eq!(client.get("a", "/x", &[("x-a", "a \t b"), ("x-b", "")]).unwrap().status(), Some(200));
}

/// `[gateway]` settings under which a client may ask twice and then once a second.
const SLOW_RATE: &str = "quotas = { per_ip_rps = 1, burst = 2.0 }\n";

fn slow_node(upstream: &Upstream) -> Node {
    Node::start(&format!(
        "{SLOW_RATE}route = [{{ path = \"/\", upstream = \"up\" }}]\n\
         limits = {{ max_headers = 10, max_body_bytes = \"1KiB\" }}\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ))
}

/// How many refusals a client sends: more than its rate allows, however slow the machine is.
const REFUSALS: usize = 200;

#[test]
fn malformed_requests_over_http_2_use_up_the_rate_of_their_client() {
    let upstream = Upstream::start();
    let (blank, many) = ([("x-a", " a")], [("x-a", "a"); 11]);
    let kinds: [(&str, &[(&str, &str)]); 4] =
        [("a:b", &[]), ("a", &[("authorization", "a"), ("authorization", "b")]), ("a", &blank), ("a", &many)];
    for (host, fields) in kinds {
        let node = slow_node(&upstream);
        let mut client = H2Client::connect(node.gateway).unwrap();
        let mut limited = 0;
        for _ in 0..REFUSALS {
            limited += usize::from(client.get(host, "/x", fields).unwrap().status() == Some(429));
        }
        assert!(limited > 0, "{host} {fields:?}");
    }
    assert_eq!(upstream.arrived(), 0);
}

#[test]
fn refusals_over_http_1_use_up_the_rate_of_their_client() {
    let upstream = Upstream::start();
    for (what, request) in [
        ("two credentials", "GET /x HTTP/1.1\r\nhost: a\r\nauthorization: a\r\nauthorization: b\r\n\r\n"),
        ("an unsound host", "GET /x HTTP/1.1\r\nhost: a:b\r\n\r\n"),
        ("a body that is too large", "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 9999\r\n\r\n"),
        ("no HTTP", "nonsense\r\n\r\n"),
    ] {
        let node = slow_node(&upstream);
        for _ in 0..REFUSALS {
            let _ = Client::connect(node.gateway).unwrap().ask(request);
        }
        // Only the next good request shows what those cost that have no answer of their own.
        let next = ask(node.gateway, "GET /x HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        assert_eq!(next.status, 429, "{what}");
    }
}

#[test]
fn heads_that_are_no_http_use_up_the_rate_of_their_client_at_the_edge_too() {
    let edge = free_addr();
    let _node = Node::start(&format!(
        "enabled = false\n[node]\ndata_dir = \"./data\"\n\
         [edge]\nenabled = true\nlisten = \"{edge}\"\ningress.rps_limit = 1\n"
    ));
    for _ in 0..REFUSALS {
        let _ = Client::connect(edge).unwrap().ask("nonsense\r\n\r\n");
    }
    assert_eq!(ask(edge, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap().status, 429);
}

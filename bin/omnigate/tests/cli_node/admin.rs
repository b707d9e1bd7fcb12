//! What the admin listener answers.

use crate::{
    http::{self, Events},
    node::Node,
};

#[test]
fn the_index_lists_every_endpoint() {
    let node = Node::start(&[]);
    let index = node.get("/");
    assert_eq!(index.status, 200);
    for path in ["/metrics", "/healthz", "/readyz", "/version", "/topology", "/events", "/shutdown"] {
        assert!(index.body.contains(path), "{path} is missing in\n{}", index.body);
    }
}

#[test]
fn a_node_in_good_health_says_so() {
    let node = Node::start(&[]);
    let health = node.get("/healthz");
    assert_eq!((health.status, &health.json()["status"]), (200, &"ok".into()));
    for path in ["/readyz", "/readyz/gateway", "/readyz/kernel", "/readyz/admin"] {
        let ready = node.readiness(path);
        assert_eq!(
            (ready.status, ready.json()),
            (200, serde_json::json!({ "status": "ready", "conditions": [] })),
            "{path}"
        );
        assert_eq!(ready.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn an_unknown_service_is_not_found_and_the_known_ones_are_named() {
    let node = Node::start(&[]);
    let reply = node.get("/readyz/nope");
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json()["detail"], "no service is called `nope`; there are admin, gateway, kernel");
}

#[test]
fn metrics_come_in_the_format_the_scraper_asks_for() {
    let node = Node::start(&["--set", "node.name=edge-7"]);
    let plain = node.get("/metrics");
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(plain.body.contains("tasks_spawned_total{node=\"edge-7\""), "{}", plain.body);
    assert!(!plain.body.contains("# EOF"));

    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.3";
    let open = node.ask("GET", "/metrics", &[accept]);
    let content_type = open.header("content-type").unwrap();
    assert!(content_type.starts_with("application/openmetrics-text"));
    assert!(open.body.ends_with("# EOF\n"));
    let own = "http_requests_total{node=\"edge-7\",service=\"admin\",route=\"/metrics\",method=\"GET\",status=\"200\"} 1";
    assert!(open.body.contains(own), "{}", open.body);
}

#[test]
fn the_topology_shows_declarations_and_what_is_alive() {
    let node = Node::start(&["--set", "node.cores=2"]);
    let topology = node.get("/topology").json();
    assert_eq!(topology["phase"], "running");
    assert_eq!(topology["cores"].as_array().unwrap().len(), 2);
    let services = topology["services"].as_array().unwrap();
    let names: Vec<_> = services.iter().map(|s| s["service"].as_str().unwrap()).collect();
    assert_eq!(names, ["kernel", "gateway", "admin"]);
    let tasks = services[2]["tasks"].as_array().unwrap();
    let listener = tasks.iter().find(|task| task["name"] == "listener").unwrap();
    assert_eq!(listener["instances"][0]["state"], "running");
    let children = services[2]["children"].as_array().unwrap();
    assert!(children[0]["live"].as_u64().unwrap() >= 1, "{children:?}");
    let queues = services[0]["queues"].as_array().unwrap();
    let blocking = queues.iter().find(|queue| queue["name"] == "blocking").unwrap();
    assert!(blocking["depth"].is_u64(), "{blocking}");
}

#[test]
fn the_version_is_the_programs() {
    let node = Node::start(&[]);
    assert_eq!(node.get("/version").json()["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn head_answers_like_get_without_a_body() {
    let node = Node::start(&[]);
    for path in ["/", "/metrics", "/readyz/gateway", "/version"] {
        let (head, get) = (node.ask("HEAD", path, &[]), node.get(path));
        assert_eq!((head.status, head.body.as_str()), (get.status, ""), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
}

#[test]
fn a_wrong_path_or_method_is_told_the_right_ones() {
    let node = Node::start(&[]);
    let unknown = node.get("/metric");
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("/metrics, /healthz"), "{}", unknown.body);
    for (method, path, allow) in [("POST", "/metrics", "GET, HEAD"), ("GET", "/shutdown", "POST")] {
        let reply = node.ask(method, path, &[]);
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)), "{path}");
        assert_eq!(reply.json()["detail"], format!("{path} takes {allow}, not {method}"));
        assert_eq!(reply.json()["reason"], "method_not_allowed");
    }
}

#[test]
fn a_crash_is_rehearsed_only_where_that_is_allowed_and_meant() {
    let kill = |node: &Node, task: &str| node.ask("POST", &format!("/rehearse/{task}"), &["X-Omnigate: 1"]);
    let node = Node::start(&[]);
    assert_eq!(kill(&node, "gateway/pool_sweeper").status, 403);
    drop(node);
    let node = Node::start(&["--set", "admin.rehearse=true"]);
    assert_eq!(node.ask("POST", "/rehearse/gateway/pool_sweeper", &[]).status, 403);
    let unknown = kill(&node, "gateway/nobody");
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["detail"].as_str().unwrap().contains("/topology"), "{}", unknown.body);
    let mut events = Events::open(&node.admin);
    assert_eq!(kill(&node, "gateway/worker%230").status, 202);
    assert_eq!(events.wait_for("task_failed")["task"], "gateway/worker#0");
}

#[test]
fn a_node_without_services_still_answers_its_operator() {
    let node = Node::start(&["--set", "gateway.enabled=false"]);
    assert_eq!(node.gateway, "");
    assert_eq!(node.readiness("/readyz").status, 200);
    assert_eq!(node.get("/readyz/gateway").status, 404);
    let (code, log) = node.stop();
    assert_eq!(code, Some(0));
    assert!(log.contains("no service is enabled"), "{log}");
}

#[test]
fn events_are_told_as_they_happen_until_the_node_has_stopped() {
    let mut node = Node::start(&[]);
    let mut events = Events::open(&node.admin);
    let reply = node.ask("POST", "/shutdown", &["X-Omnigate: 1"]);
    assert_eq!(reply.status, 202);
    let cause = events.wait_for("shutdown");
    assert_eq!(cause["cause"], "asked on the admin listener");
    assert_eq!(events.wait_for("phase")["phase"], "draining/readiness");
    assert!(events.rest().contains("draining/writers"));
    assert_eq!(node.wait(), Some(0));
}

#[test]
fn one_event_stream_too_many_is_told_to_come_back() {
    let node = Node::start(&[]);
    let mut open: Vec<_> = (0..16).map(|_| Events::open(&node.admin)).collect();
    let reply = node.get("/events");
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("5")));
    assert_eq!(reply.json()["reason"], "busy");
    open.pop();
    // The node notices at its own pace that a stream was left, so the next place is asked for until it is there.
    http::eventually("there is a place", || {
        (http::ask(&node.admin, "HEAD", "/events", &[]).status == 200).then_some(())
    });
}

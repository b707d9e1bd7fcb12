//! Traces that are exported: what a collector learns of a request through gateway and edge.

#[path = "../../rt/ron-traces/tests/stub/mod.rs"]
mod stub;

use serde_json::Value;
use stub::{Act, Collector, attribute, spans_of};

use crate::support::{Node, Upstream, ask, free_addr};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";

/// A node whose gateway leads to an upstream and to its own edge, and that exports.
fn node(collector: &Collector, upstream: &Upstream) -> Node {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("public")).unwrap();
    std::fs::write(dir.path().join("public/a.txt"), "a").unwrap();
    Node::start_in(
        dir,
        &format!(
            "route = [{{ path = \"/up\", upstream = \"up\" }}, {{ path = \"/edge/\", service = \"edge\" }}]\n\
             upstream.up.endpoints = [\"http://{}\"]\n\
             [edge]\nenabled = true\nlisten = \"{}\"\nroots = [\"public\"]\n\
             [traces]\nurl = \"{}\"\n",
            upstream.addr,
            free_addr(),
            collector.url()
        ),
    )
}

fn get(node: &Node, target: &str, fields: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
    ask(node.gateway, request).unwrap().status
}

fn parent(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{CLIENT}-{flags}\r\nauthorization: Bearer secret-token\r\n")
}

fn of<'a>(spans: &'a [(String, Value)], service: &str) -> &'a Value {
    let found = spans.iter().find(|(told_by, _)| told_by == service);
    &found.unwrap_or_else(|| panic!("no span of {service} in {spans:?}")).1
}

#[test]
fn a_trace_goes_on_through_gateway_and_edge_and_tells_no_secret() {
    let (collector, upstream) = (Collector::start(|_| Act::Say("200 OK", "{}")), Upstream::start());
    let mut node = node(&collector, &upstream);
    assert_eq!(get(&node, "/edge/assets/a.txt?token=secret", &parent("01")), 200);
    let spans = collector.spans(2);
    let (gateway, edge) = (of(&spans, "gateway"), of(&spans, "edge"));
    assert_eq!((&gateway["traceId"], &edge["traceId"]), (&Value::from(TRACE), &Value::from(TRACE)));
    assert_eq!(gateway["parentSpanId"], CLIENT);
    assert_eq!(edge["parentSpanId"], gateway["spanId"], "whoever asked the edge");
    assert_eq!(
        (gateway["name"].as_str(), edge["name"].as_str()),
        (Some("GET /edge/"), Some("GET /edge/assets"))
    );
    assert_eq!(attribute(gateway, "url.path").as_deref(), Some("/edge/assets/a.txt"));
    assert_eq!(attribute(gateway, "omnigate.upstream").as_deref(), Some("edge"));
    assert_eq!(attribute(edge, "http.response.status_code").as_deref(), Some("200"));
    assert!(!format!("{spans:?}").contains("secret"), "{spans:?}");

    // Not recorded by its client's choice; then one that begins here, and a refusal.
    assert_eq!(get(&node, "/up/x", &parent("00")), 200);
    assert_eq!(get(&node, "/up/y", ""), 200);
    assert_eq!(get(&node, "/nowhere", ""), 404);
    let spans = collector.spans(2);
    let paths: Vec<_> = spans.iter().map(|(_, span)| attribute(span, "url.path").unwrap()).collect();
    assert_eq!(paths, ["/up/y", "/nowhere"]);
    assert!(spans.iter().all(|(_, span)| span.get("parentSpanId").is_none()), "{spans:?}");
    assert_eq!(attribute(&spans[1].1, "omnigate.reason").as_deref(), Some("not_found"));

    // What a request leaves just before the end arrives all the same.
    assert_eq!(get(&node, "/up/last", ""), 200);
    node.signal("TERM");
    assert_eq!(node.exit_code(), 0, "{}", node.log());
    let last = spans_of(&collector.next().body);
    assert_eq!(attribute(of(&last, "gateway"), "url.path").as_deref(), Some("/up/last"));
}

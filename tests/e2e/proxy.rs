//! A request through the whole node and back.

use crate::support::{Client, Node, Upstream, get};

#[test]
fn a_request_reaches_the_upstream_and_its_answer_comes_back() {
    let upstream = Upstream::start();
    let mut node = Node::in_front_of(upstream.addr);
    let mut client = Client::connect(node.gateway).unwrap();
    for path in ["/", "/a/b?c=d", "/third"] {
        let answer = client.get(path).unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, path));
    }
    node.signal("TERM");
    assert_eq!(node.exit_code(), 0);
}

#[test]
fn a_path_without_a_route_is_told_so() {
    let node = Node::start("");
    let answer = get(node.gateway, "/nowhere").unwrap();
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("\"reason\":\"not_found\""), "{}", answer.body);
    assert!(answer.body.contains("no route matches /nowhere"), "{}", answer.body);
}

#[test]
fn a_dead_upstream_is_a_bad_gateway_and_a_silent_one_a_timeout() {
    let dead = crate::support::free_addr();
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "route = [{{ path = \"/dead\", upstream = \"dead\" }}, {{ path = \"/hold\", upstream = \"slow\" }}]\n\
         upstream.dead.endpoints = [\"http://{dead}\"]\n\
         upstream.slow = {{ endpoints = [\"http://{}\"], timeout = \"200ms\" }}\n",
        upstream.addr
    ));
    let answer = get(node.gateway, "/dead").unwrap();
    assert_eq!(answer.status, 502);
    assert!(answer.body.contains("\"reason\":\"bad_gateway\""), "{}", answer.body);
    let answer = get(node.gateway, "/hold").unwrap();
    assert_eq!(answer.status, 504);
    assert!(answer.body.contains("\"reason\":\"downstream_timeout\""), "{}", answer.body);
    assert!(
        (node.metric("rejected_total{node=\"omnigate\",service=\"gateway\",reason=\"bad_gateway\"}") - 1.0)
            .abs()
            < 0.1
    );
}

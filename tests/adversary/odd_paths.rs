//! Paths that servers read differently.

use crate::support::{Client, Node, Upstream, free_addr, to};

/// The status that a path is answered with on a connection of its own.
fn status(to: std::net::SocketAddr, path: &str) -> u16 {
    Client::connect(to).unwrap().get(path).unwrap().status
}

#[test]
fn encodings_that_only_some_servers_decode_are_refused() {
    let upstream = Upstream::start();
    let node = Node::start(&to(upstream.addr));
    for path in ["/a/%u002e%u002e/b", "/adm%u0069n", "/a/%c0%ae%c0%ae/b", "/a/%e0%80%ae/", "/a/..%3bx/b"] {
        assert_eq!(status(node.gateway, path), 400, "{path}");
    }
    assert_eq!(upstream.arrived(), 0);
    assert_eq!(status(node.gateway, "/caf%c3%a9/%e2%82%ac"), 200);
}

#[test]
fn an_encoded_parameter_does_not_lead_past_a_route() {
    let upstream = Upstream::start();
    let routes = "route = [{ path = \"/\", upstream = \"up\" }, \
                  { path = \"/admin\", upstream = \"up\", auth = \"always\" }]";
    let settings = to(upstream.addr).replace("route = [{ path = \"/\", upstream = \"up\" }]", routes);
    let node = Node::start(&settings);
    for path in ["/admin", "/admin;x", "/admin%3bx", "/admin%3Bx/y"] {
        assert_eq!(status(node.gateway, path), 401, "{path}");
    }
    assert_eq!(status(node.gateway, "/administrators"), 200);
}

#[test]
fn the_redirect_to_https_refuses_what_https_refuses() {
    let redirect = free_addr();
    let node = Node::start(&format!("redirect_http = \"{redirect}\"\n"));
    for path in ["/../x", "/a/%2e%2e/x", "/a%00"] {
        assert_eq!(status(redirect, path), 400, "{path}");
    }
    assert_eq!(status(redirect, "/a/x"), 308);
    drop(node);
}

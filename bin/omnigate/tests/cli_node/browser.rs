//! Routes with `cors` and `security_headers`: what browsers are told, through the built program.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    http::{self, Reply},
    node::Node,
    ports::free_port,
};

/// A server with an opinion of its own, and how often it was asked.
fn server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, asked) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            // The other side may have left.
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAccess-Control-Allow-Origin: *\r\n\
                  Referrer-Policy: origin\r\nConnection: close\r\n\r\nok",
            );
        }
    });
    (addr, asked)
}

fn node(server: &str) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let file = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n\
         [gateway.upstream.app]\nendpoints = [\"http://{server}\"]\n\
         [gateway.upstream.gone]\nendpoints = [\"http://127.0.0.1:{}\"]\n\
         [[gateway.route]]\npath = \"/\"\nupstream = \"app\"\nauth = \"mutations\"\nsecurity_headers = \"basic\"\n\
         cors = {{ allow_origins = [\"https://app.test\"], allow_credentials = true, expose_headers = [\"x-total\"] }}\n\
         [[gateway.route]]\npath = \"/gone\"\nupstream = \"gone\"\nsecurity_headers = \"strict\"\n",
        free_port()
    );
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    Node::from_file(dir)
}

fn ask(node: &Node, method: &str, path: &str, headers: &[&str]) -> Reply {
    http::ask(&node.gateway, method, path, headers)
}

#[test]
fn a_preflight_is_answered_by_the_gateway_and_needs_no_credential() {
    let (server, asked) = server();
    let node = node(&server);
    let wanted = ["Origin: https://app.test", "Access-Control-Request-Method: PUT"];
    let reply = ask(&node, "OPTIONS", "/items/7", &wanted);
    assert_eq!((reply.status, reply.body.as_str()), (204, ""));
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://app.test"));
    assert_eq!(reply.header("access-control-allow-credentials"), Some("true"));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("PUT"));
    let other = ask(&node, "OPTIONS", "/items/7", &["Origin: https://evil.test", wanted[1]]);
    assert_eq!((other.status, other.header("access-control-allow-origin")), (204, None));
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the server is not asked");
}

#[test]
fn only_pages_of_listed_sites_may_read_answers_and_refusals() {
    let node = node(&server().0);
    for (method, status) in [("GET", 200), ("PUT", 401)] {
        let reply = ask(&node, method, "/", &["Origin: https://app.test", "Content-Length: 0"]);
        assert_eq!(
            (reply.status, reply.header("access-control-allow-origin")),
            (status, Some("https://app.test"))
        );
        assert_eq!(reply.header("access-control-expose-headers"), Some("x-total"));
        let other = ask(&node, method, "/", &["Origin: https://evil.test", "Content-Length: 0"]);
        assert_eq!((other.status, other.header("access-control-allow-origin")), (status, None));
        assert_eq!(other.header("vary"), Some("origin"));
    }
}

#[test]
fn a_preset_protects_answers_and_refusals_and_leaves_what_the_server_says() {
    let node = node(&server().0);
    let reply = ask(&node, "GET", "/", &[]);
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("x-frame-options"), Some("SAMEORIGIN"));
    assert_eq!(reply.header("referrer-policy"), Some("origin"), "the server's own");
    assert_eq!(reply.header("strict-transport-security"), None, "in the clear");
    let refused = ask(&node, "GET", "/gone", &[]);
    assert_eq!((refused.status, refused.header("x-frame-options")), (502, Some("DENY")));
    assert!(refused.header("content-security-policy").unwrap().contains("default-src 'self'"));
}

#[test]
fn every_site_with_credentials_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[gateway.upstream.a]\nendpoints = [\"http://127.0.0.1:1\"]\n[[gateway.route]]\npath = \"/\"\nupstream = \"a\"\n\
                cors = { allow_origins = [\"*\"], allow_credentials = true }\n";
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let ran = crate::cli_run::run(crate::cli_run::omnigate(dir.path(), &["check"]));
    assert!(ran.code == Some(2) && ran.err.contains("allow_credentials"), "{}", ran.err);
}

//! Requests to the edge that two servers could read in two ways, and answers that a client or a cache could misread.

use std::net::SocketAddr;

use crate::support::{Answer, Client, Node, ask, free_addr};

struct Edge {
    _node: Node,
    addr: SocketAddr,
}

impl Edge {
    fn start() -> Self {
        let (dir, addr) = (tempfile::tempdir().unwrap(), free_addr());
        let public = dir.path().join("public");
        std::fs::create_dir_all(public.join("docs/javascript:1")).unwrap();
        std::fs::write(public.join("docs/javascript:1/index.html"), "index").unwrap();
        std::fs::write(public.join("digits.txt"), "0123456789").unwrap();
        let settings = format!(
            "enabled = false\n[edge]\nenabled = true\nlisten = \"{addr}\"\nroots = [\"public\"]\n\
             ingress.rps_limit = 0\n"
        );
        Self { _node: Node::start_in(dir, &settings), addr }
    }

    /// Asks with these fields and no others, on a connection of its own.
    fn ask(&self, target: &str, fields: &str) -> Answer {
        ask(self.addr, format!("GET {target} HTTP/1.1\r\n{fields}connection: close\r\n\r\n")).unwrap()
    }
}

#[test]
fn a_request_without_one_sound_host_is_refused() {
    let edge = Edge::start();
    for fields in [
        "",
        "host:\r\n",
        "host: a\r\nhost: a\r\n",
        "host: a\r\nhost: b\r\n",
        "host: a b\r\n",
        "host: a/b\r\n",
        "host: a@b\r\n",
        "host: a,b\r\n",
        "host: a:x\r\n",
    ] {
        let answer = edge.ask("/edge/assets/digits.txt", fields);
        assert_eq!(answer.status, 400, "{fields:?}: {answer:?}");
        assert!(answer.closes, "{fields:?}: {answer:?}");
    }
    assert_eq!(edge.ask("http://a/edge/assets/digits.txt", "host: b\r\n").status, 400);
    for fields in ["host: a\r\n", "host: a:8080\r\n", "host: [::1]:80\r\n"] {
        assert_eq!(edge.ask("/edge/assets/digits.txt", fields).status, 200, "{fields:?}");
    }
    let old = ask(edge.addr, "GET /edge/assets/digits.txt HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(old.status, 200, "HTTP/1.0 has no Host");
}

#[test]
fn several_ranges_with_gaps_get_the_whole() {
    let edge = Edge::start();
    let many = format!("host: a\r\nrange: bytes={}\r\n", vec!["0-0"; 1000].join(","));
    for fields in ["host: a\r\nrange: bytes=0-1,5-6\r\n", "host: a\r\nrange: bytes=0-0,-1\r\n", &many] {
        let answer = edge.ask("/edge/assets/digits.txt", fields);
        assert_eq!((answer.status, answer.body.as_str()), (200, "0123456789"), "{fields}");
    }
    assert_eq!(edge.ask("/edge/assets/digits.txt", "host: a\r\nrange: bytes=10-\r\n").status, 416);
}

#[test]
fn a_redirect_keeps_the_query_and_never_names_a_scheme() {
    let edge = Edge::start();
    let mut client = Client::connect(edge.addr).unwrap();
    let answer = client.get("/edge/assets/docs/javascript:1?v=2").unwrap();
    assert_eq!((answer.status, answer.header("location")), (308, Some("./javascript:1/?v=2")));
    assert_eq!(client.get("/?lang=de").unwrap().header("location"), Some("/edge/packs?lang=de"));
}

#[test]
fn a_cache_learns_that_the_list_of_packs_depends_on_accept() {
    let edge = Edge::start();
    for accept in ["text/html", "application/json"] {
        let answer = edge.ask("/edge/packs", &format!("host: a\r\naccept: {accept}\r\n"));
        assert_eq!((answer.status, answer.header("vary")), (200, Some("Accept")), "{accept}");
    }
}

#[test]
fn the_pages_of_the_edge_run_their_own_scripts_alone() {
    let edge = Edge::start();
    let page = edge.ask("/edge/packs", "host: a\r\naccept: text/html\r\n");
    assert_eq!((page.status, page.header("x-content-type-options")), (200, Some("nosniff")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    for target in ["/", "/absent", "/edge/assets/digits.txt", "/edge/assets/absent", "/edge/assets/%00"] {
        let answer = edge.ask(target, "host: a\r\n");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{target}: {answer:?}");
    }
}

#[test]
fn a_refusal_of_the_edge_repeats_the_correlation_id() {
    let edge = Edge::start();
    let given = edge.ask("/edge/assets/absent", "host: a\r\nx-corr-id: order-7\r\n");
    assert_eq!(given.header("x-corr-id"), Some("order-7"));
    assert_eq!(given.json()["corr_id"], "order-7");
    for fields in
        ["host: a\r\n", "host: a\r\nx-corr-id: a\"b\r\n", "host: a\r\nx-corr-id: a\r\nx-corr-id: b\r\n"]
    {
        let made = edge.ask("/edge/assets/absent", fields);
        let id = made.header("x-corr-id").unwrap();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{fields}: {id}");
        assert_eq!(made.json()["corr_id"], id);
    }
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traced = format!("host: a\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01\r\n");
    assert_eq!(edge.ask("/edge/assets/absent", &traced).json()["corr_id"], trace);
}

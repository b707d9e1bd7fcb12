//! What is served: files, ranges, conditions, tiles and descriptions; alone and behind the gateway.

use crate::support::{Node, ask, free_addr, get};

use super::{EdgeNode, pack, tile, write};

fn start() -> EdgeNode {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("public/index.html"), b"<h1>hello</h1>");
    write(&dir.path().join("public/digits.txt"), b"0123456789");
    write(&dir.path().join("world.pmtiles"), &pack(3, 0));
    let edge = EdgeNode::start_in(dir, "roots = [\"public\"]\npacks = [\"world.pmtiles\"]");
    edge.wait_for_pack("world", "served");
    edge
}

#[test]
fn files_ranges_and_conditions_are_answered_as_http_has_it() {
    let edge = start();
    let whole = edge.get("/edge/assets/digits.txt");
    let etag = whole.header("etag").unwrap().to_owned();
    assert_eq!((whole.status, whole.body.as_str()), (200, "0123456789"));
    assert_eq!(etag, format!("\"b3:{}\"", blake3::hash(b"0123456789").to_hex()));
    for (fields, status, body) in [
        ("range: bytes=2-4\r\n", 206, "234"),
        ("range: bytes=-2\r\n", 206, "89"),
        ("range: bytes=0-3,4-5\r\n", 206, "012345"),
        ("range: lines=1-2\r\n", 200, "0123456789"),
        (&format!("range: bytes=0-0\r\nif-range: {etag}\r\n"), 206, "0"),
        ("range: bytes=0-0\r\nif-range: \"old\"\r\n", 200, "0123456789"),
        (&format!("if-none-match: {etag}\r\n"), 304, ""),
        ("if-match: \"old\"\r\n", 412, ""),
    ] {
        let answer = edge.get_with("/edge/assets/digits.txt", fields);
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{fields}");
    }
    let refused = edge.get_with("/edge/assets/digits.txt", "range: bytes=50-\r\n");
    assert_eq!((refused.status, refused.header("content-range")), (416, Some("bytes */10")));
    assert_eq!(refused.json()["reason"], "invalid_range");
    assert_eq!(edge.get("/edge/assets/").body, "<h1>hello</h1>");
}

#[test]
fn paths_that_are_meant_to_mislead_get_nowhere() {
    let edge = start();
    write(&edge.node.path().join("secret"), b"secret");
    for (path, status) in [
        ("/edge/assets/../secret", 400),
        ("/edge/assets/%2e%2e/secret", 400),
        ("/edge/assets/..%2Fsecret", 400),
        ("/edge/assets/digits.txt%00", 400),
        ("/edge/assets/a%5c..%5csecret", 400),
        ("/edge/assets//etc/passwd", 404),
        ("/edge/assets/.ssh/id", 404),
        ("/edge/../etc/passwd", 404),
        ("/edge/tiles/../world/0/0/0", 404),
        ("/edge/tiles/world/0/0/1", 404),
        ("/edge/tiles/world/x/0/0", 400),
        ("/edge/cas/b3:zz", 400),
    ] {
        let answer = edge.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{path}");
    }
}

#[test]
fn tiles_and_their_description_are_served() {
    let edge = start();
    let described = edge.get("/edge/tiles/world.json").json();
    assert_eq!((&described["tilejson"], &described["maxzoom"]), (&"3.0.0".into(), &3.into()));
    for _ in 0..2 {
        let answer = edge.get("/edge/tiles/world/3/5/2.png");
        assert_eq!((answer.status, answer.body), (200, tile((3, 5, 2), 0)));
    }
    let raw = edge.get_with("/edge/assets/world.pmtiles", "range: bytes=0-6\r\n");
    assert_eq!((raw.status, raw.body.as_str()), (206, "PMTiles"));
}

#[test]
fn the_gateways_routes_lead_to_the_edge_in_the_same_process() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("public/digits.txt"), b"0123456789");
    let gateway = "quotas.per_ip_rps = 0\ndrr.rate_limit_rps = 0\nroute = [{ path = \"/edge/\", service = \"edge\" }]\n";
    let edge = EdgeNode::start_with(dir, gateway, "roots = [\"public\"]");
    for _ in 0..2 {
        let answer = get(edge.node.gateway, "/edge/assets/digits.txt").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "0123456789"));
        assert!(answer.header("etag").is_some_and(|etag| etag.starts_with("\"b3:")));
    }
    let part = "GET /edge/assets/digits.txt HTTP/1.1\r\nhost: x\r\nrange: bytes=1-2\r\n\r\n";
    assert_eq!(ask(edge.node.gateway, part).unwrap().body, "12");
}

#[test]
fn a_scrape_of_the_edge_has_the_series_of_the_golden_file() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("public/a.txt"), b"a");
    let (addr, allow) = (free_addr(), "allow = [{ host = \"origin.test\", scheme = \"http\" }]");
    let settings =
        format!("roots = [\"public\"]\nmode = \"live\"\n{allow}\n[node]\ncores = 2\ndata_dir = \"./data\"");
    let edge = format!("enabled = false\n[edge]\nenabled = true\nlisten = \"{addr}\"\n{settings}\n");
    let node = Node::start_in(dir, &edge);
    assert_eq!(get(addr, "/edge/assets/a.txt").unwrap().status, 200);
    crate::metrics::compare_with_golden(&node, "metrics-edge.txt");
}

//! Conditional requests, ranges and methods, as HTTP has them.

use crate::support::Running;

const FILE: &str = "/edge/assets/a.txt";

fn edge() -> Running {
    Running::with_files(&[("a.txt", b"0123456789")])
}

#[test]
fn a_client_that_has_it_is_told_so() {
    let edge = edge();
    let first = edge.get(FILE);
    let (etag, modified) = (first.header("etag").to_owned(), first.header("last-modified").to_owned());
    for condition in [
        ("if-none-match", etag.as_str()),
        ("if-none-match", &format!("W/{etag}")),
        ("if-none-match", &format!("\"other\", {etag}")),
        ("if-none-match", "*"),
        ("if-modified-since", &modified),
    ] {
        let answer = edge.get_with(FILE, &[condition]);
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{condition:?}");
        assert_eq!(answer.header("etag"), etag);
        assert_eq!(answer.header("cache-control"), "public, max-age=60");
    }
    for condition in [
        ("if-none-match", "\"other\""),
        ("if-modified-since", "Mon, 01 Jan 1990 00:00:00 GMT"),
        ("if-match", etag.as_str()),
        ("if-unmodified-since", &modified),
    ] {
        assert_eq!(edge.get_with(FILE, &[condition]).status, 200, "{condition:?}");
    }
    // The tag counts, and not the date beside it.
    let both = [("if-none-match", "\"other\""), ("if-modified-since", modified.as_str())];
    assert_eq!(edge.get_with(FILE, &both).status, 200);
}

#[test]
fn a_client_that_insists_on_something_else_is_refused() {
    let edge = edge();
    for condition in [("if-match", "\"other\""), ("if-unmodified-since", "Mon, 01 Jan 1990 00:00:00 GMT")] {
        let answer = edge.get_with(FILE, &[condition]);
        assert_eq!((answer.status, answer.body.len()), (412, 0), "{condition:?}");
    }
}

#[test]
fn a_part_is_sent_only_of_what_the_client_has_the_rest_of() {
    let edge = edge();
    let etag = edge.get(FILE).header("etag").to_owned();
    let part = |if_range: &str| edge.get_with(FILE, &[("range", "bytes=2-3"), ("if-range", if_range)]);
    assert_eq!((part(&etag).status, part(&etag).text().as_str()), (206, "23"));
    for other in ["\"other\"", &format!("W/{etag}"), "Mon, 01 Jan 1990 00:00:00 GMT"] {
        assert_eq!((part(other).status, part(other).text().as_str()), (200, "0123456789"), "{other}");
    }
}

#[test]
fn ranges_that_make_no_sense_are_refused_with_the_length() {
    let edge = edge();
    for range in ["bytes=10-", "bytes=5-2", "bytes=-0", "bytes=a-b", "bytes="] {
        let answer = edge.get_with(FILE, &[("range", range)]);
        assert_eq!((answer.status, answer.reason().as_str()), (416, "invalid_range"), "{range}");
        assert_eq!(answer.header("content-range"), "bytes */10", "{range}");
    }
    assert_eq!(
        edge.metric("edge_rejects_total{node=\"test\",service=\"edge\",reason=\"invalid_range\"}"),
        5.0
    );
    for (range, status, text) in [
        ("bytes=0-3,4-5", 206, "012345"),
        ("bytes=0-1,5-6", 200, "0123456789"),
        ("items=0-1", 200, "0123456789"),
        ("bytes=-3", 206, "789"),
    ] {
        let answer = edge.get_with(FILE, &[("range", range)]);
        assert_eq!((answer.status, answer.text().as_str()), (status, text), "{range}");
    }
    // Ranges are for GET alone.
    assert_eq!(edge.ask("HEAD", FILE, &[("range", "bytes=99-")]).status, 200);
}

#[test]
fn a_head_is_the_same_without_its_body() {
    let edge = edge();
    let (get, mut head) = (edge.get(FILE), edge.ask("HEAD", FILE, &[]));
    assert!(head.body.is_empty());
    head.headers.remove("date");
    let same = head.headers.iter().all(|(name, value)| get.header(name) == value);
    assert!(same && head.headers.len() + 1 == get.headers.len(), "{head:?} {get:?}");
}

#[test]
fn writes_are_refused_and_options_tell_what_can_be_done() {
    let edge = edge();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let answer = edge.ask(method, FILE, &[("content-length", "0")]);
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD, OPTIONS"), "{method}");
    }
    let options = edge.ask("OPTIONS", FILE, &[("origin", "https://other.example")]);
    assert_eq!((options.status, options.header("allow")), (204, "GET, HEAD, OPTIONS"));
    assert_eq!(options.header("access-control-allow-origin"), "", "nobody is allowed unless listed");
}

#[test]
fn what_every_site_may_read_says_so_to_everybody() {
    let edge = Running::start(
        |dir| crate::support::write(&dir.join("public/a.txt"), b"0123456789"),
        |config| {
            config.roots.push(svc_edge::RootConfig::new("public".into()));
            config.cors.allow_origins.push("*".into());
        },
    );
    // A cache gives a page what was asked for without an `Origin`.
    for fields in [&[][..], &[("origin", "https://map.example")]] {
        let answer = edge.get_with(FILE, fields);
        assert_eq!((answer.header("access-control-allow-origin"), answer.header("vary")), ("*", ""));
        assert!(answer.header("access-control-expose-headers").contains("Content-Range"));
    }
}

#[test]
fn listed_sites_may_read() {
    let edge = Running::start(
        |dir| crate::support::write(&dir.join("public/a.txt"), b"0123456789"),
        |config| {
            config.roots.push(svc_edge::RootConfig::new("public".into()));
            config.cors.allow_origins.push("https://map.example".into());
        },
    );
    let answer = edge.get_with(FILE, &[("origin", "https://map.example")]);
    assert_eq!(answer.header("access-control-allow-origin"), "https://map.example");
    assert!(answer.header("access-control-expose-headers").contains("Content-Range"));
    assert_eq!(answer.header("vary"), "Origin");
    let preflight = [("origin", "https://map.example"), ("access-control-request-headers", "range")];
    let answer = edge.ask("OPTIONS", FILE, &preflight);
    assert!(answer.header("access-control-allow-headers").contains("Range"));
    let other = edge.get_with(FILE, &[("origin", "https://evil.example")]);
    assert_eq!((other.status, other.header("access-control-allow-origin")), (200, ""));
}

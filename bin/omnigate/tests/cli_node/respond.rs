//! Routes that the gateway answers itself: fixed responses and redirects.

use std::fs;

use crate::{http, node::Node};

const ROUTES: &str = r#"
[[gateway.route]]
path = "/"
respond = { status = 503, body = "<p>Back at noon.", content_type = "text/html" }
response_headers = { set = { retry-after = "600" } }

[[gateway.route]]
path = "/gone"
respond = { status = 204 }

[[gateway.route]]
path = "/old"
redirect = { to = "/new/{rest}{query}", status = 301 }

[[gateway.route]]
path = "/moved"
redirect = { to = "https://www.{host}/v2{path}" }

[[gateway.route]]
path = "/both"
redirect = { to = "https" }
respond = { body = "safe" }

[[gateway.route]]
path = "/staff"
allow_from = ["192.0.2.1"]
respond = { body = "for few" }
"#;

fn file(gateway: &str, routes: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let listeners =
        format!("[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n{gateway}");
    fs::write(dir.path().join("omnigate.toml"), format!("{listeners}{routes}")).unwrap();
    dir
}

#[test]
fn a_route_answers_by_itself() {
    let node = Node::from_file(file("", ROUTES));
    let reply = http::get(&node.gateway, "/anything?q");
    assert_eq!((reply.status, reply.body.as_str()), (503, "<p>Back at noon."));
    assert_eq!(reply.header("content-type"), Some("text/html"));
    assert_eq!((reply.header("retry-after"), reply.header("content-length")), (Some("600"), Some("16")));
    let head = http::ask(&node.gateway, "HEAD", "/", &[]);
    assert_eq!((head.status, head.body.as_str()), (503, ""));
    assert_eq!(head.header("content-length"), Some("16"));
    let empty = http::get(&node.gateway, "/gone");
    assert_eq!((empty.status, empty.body.as_str(), empty.header("content-type")), (204, "", None));
    let forbidden = http::get(&node.gateway, "/staff");
    assert_eq!(forbidden.status, 403, "address lists come first");
    assert_eq!(http::get(&node.gateway, "/gone/../staff").status, 400);
}

#[test]
fn redirects_lead_where_their_placeholders_say_and_never_to_a_host_of_the_clients_choice() {
    let node = Node::from_file(file("", ROUTES));
    let to = |path: &str, fields: &[&str]| {
        let reply = http::ask(&node.gateway, "GET", path, fields);
        (reply.status, reply.header("location").map(ToOwned::to_owned))
    };
    let at = |status, place: &str| (status, Some(place.to_owned()));
    assert_eq!(to("/old/a/b?c=d", &[]), at(301, "/new/a/b?c=d"));
    assert_eq!(to("/old", &[]), at(301, "/new/"));
    assert_eq!(to("/%6fld//%2f\\evil.test/x", &[]), at(301, "/new/evil.test/x"));
    assert_eq!(to("/moved/x?y", &["Host: a.test:99"]), at(308, "https://www.a.test/v2/moved/x"));
    assert_eq!(to("/moved/x", &["Host: a.test/evil"]).0, 400);
    assert_eq!(to("/both/x", &["Host: a.test"]), at(308, "https://a.test/both/x"));
}

#[test]
fn fixed_responses_are_taken_out_of_the_allowance_of_the_address() {
    let node = Node::from_file(file("[gateway.quotas]\nper_ip_rps = 1\nburst = 3.0\n", ROUTES));
    let statuses: Vec<_> = (0..8).map(|_| http::get(&node.gateway, "/gone").status).collect();
    assert_eq!(statuses[0], 204);
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[test]
fn a_clash_between_settings_is_told() {
    let routes = r#"
[gateway.upstream.a]
endpoints = ["http://127.0.0.1:1"]
[[gateway.route]]
path = "/a"
upstream = "a"
respond = { status = 700, content_type = "html" }
[[gateway.route]]
path = "/b"
auth = "always"
respond = { status = 204, body = "x" }
[[gateway.route]]
path = "/c"
redirect = { to = "/{path}" }
[[gateway.route]]
path = "/d"
redirect = { to = "https://a.test/?to={path}" }
[[gateway.route]]
path = "/e"
respond = { status = 302 }
"#;
    let dir = file("", routes);
    let ran = crate::cli_run::run(crate::cli_run::omnigate(dir.path(), &["check"]));
    assert_eq!(ran.code, Some(2));
    for words in [
        "takes the place of an upstream",
        "must be from 200 to 599",
        "is not a media type",
        "has no effect with `respond`",
        "a response with status 204 has none",
        "{path} begins with one itself",
        "where it would add parameters",
        "use `redirect`",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
}

//! What updates and writes change.

use http::{Method, StatusCode};
use httpcache::{
    invalidation::{invalidates, named_targets},
    update::{HeadSays, compare_head, confirms, freshened},
};

use crate::fields;

#[test]
fn a_304_is_about_a_stored_response_unless_its_validator_is_another() {
    let table = [
        ("ETag: \"a\"", "ETag: \"a\"", true),
        ("ETag: \"a\"", "", true),
        ("ETag: \"a\"", "ETag: \"b\"", false),
        ("ETag: W/\"a\"", "ETag: W/\"a\"", true),
        ("ETag: W/\"a\"", "ETag: W/\"b\"", false),
        ("", "ETag: \"b\"", false),
        ("Last-Modified: x", "Last-Modified: x", true),
        ("Last-Modified: x", "Last-Modified: y", false),
    ];
    for (stored, update, expected) in table {
        assert_eq!(confirms(&fields(stored), &fields(update)), expected, "{stored} / {update}");
    }
}

#[test]
fn an_update_replaces_fields_but_for_those_of_the_body() {
    let stored =
        fields("A: 1\nA: 2\nB: 1\nAge: 9\nContent-Length: 5\nContent-Type: x\nContent-Digest: sha-256=:a:");
    let update = fields("A: 3\nC: 4\nContent-Length: 9\nContent-Type: y\nContent-Digest: sha-256=:b:");
    let expected =
        fields("B: 1\nContent-Length: 5\nA: 3\nC: 4\nContent-Type: y\nContent-Digest: sha-256=:a:");
    assert_eq!(freshened(&stored, &update), expected);
}

#[test]
fn the_answer_to_a_head_tells_whether_the_stored_one_is_still_right() {
    let stored = fields("ETag: \"a\"\nLast-Modified: x");
    for (head, expected) in [
        ("", HeadSays::Same),
        ("ETag: \"a\"\nContent-Length: 5", HeadSays::Same),
        ("ETag: \"b\"", HeadSays::Changed),
        ("Last-Modified: y", HeadSays::Changed),
        ("Content-Length: 6", HeadSays::Changed),
    ] {
        assert_eq!(compare_head(&stored, 5, &fields(head)), expected, "{head}");
    }
}

#[test]
fn successful_writes_invalidate() {
    let of = |method: &str, status| {
        invalidates(&method.parse::<Method>().unwrap(), StatusCode::from_u16(status).unwrap())
    };
    assert!(of("POST", 200) && of("PUT", 201) && of("DELETE", 204) && of("M-SEARCH", 200) && of("POST", 303));
    assert!(
        !of("GET", 200) && !of("HEAD", 200) && !of("OPTIONS", 200) && !of("POST", 404) && !of("PUT", 500)
    );
}

#[test]
fn only_targets_on_the_same_origin_are_invalidated() {
    let named =
        |value: &str| named_targets(&fields(&format!("Location: {value}")), "https", "a.example", "/x/y");
    for (value, expected) in [
        ("/z?q", Some("/z?q")),
        ("z", Some("/x/z")),
        ("https://A.example/z", Some("/z")),
        ("//a.example/z", Some("/z")),
        ("https://a.example", Some("/")),
        ("/z#part", Some("/z")),
        ("https://b.example/z", None),
        ("http://a.example/z", None),
        ("//b.example/z", None),
        ("mailto:x", None),
        ("", None),
        ("z?t=12:30", Some("/x/z?t=12:30")),
        ("z?to=https://b.example/", Some("/x/z?to=https://b.example/")),
        ("a/b:c", Some("/x/a/b:c")),
        ("?q", Some("/x/y?q")),
        ("#part", None),
        ("https://a.example:443/z", Some("/z")),
        ("https://a.example:/z", Some("/z")),
        ("https://a.example:80/z", None),
        ("//a.example:443/z", Some("/z")),
        ("https://u@a.example/z", None),
        ("HTTPS://a.example/z?q", Some("/z?q")),
    ] {
        assert_eq!(named(value), expected.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{value}");
    }
    let http =
        |value: &str, host| named_targets(&fields(&format!("Location: {value}")), "http", host, "/x/y");
    assert_eq!(http("http://a.example:80/z", "a.example"), ["/z"]);
    assert_eq!(http("http://a.example/z", "a.example:80"), ["/z"]);
    assert_eq!(http("http://[::1]:80/z", "[::1]"), ["/z"]);
    assert_eq!(http("http://[::1]:8080/z", "[::1]:8080"), ["/z"]);
    assert!(http("http://a.example:443/z", "a.example").is_empty());
}

#[test]
fn dots_in_a_named_target_are_resolved_as_clients_do() {
    let named =
        |value: &str| named_targets(&fields(&format!("Location: {value}")), "https", "a.example", "/x/y/z");
    // The examples of RFC 3986, 5.4, as far as they concern the path.
    for (value, expected) in [
        ("./g", "/x/y/g"),
        (".", "/x/y/"),
        ("./", "/x/y/"),
        ("..", "/x/"),
        ("../", "/x/"),
        ("../g", "/x/g"),
        ("../..", "/"),
        ("../../g", "/g"),
        ("../../../g", "/g"),
        ("g/.", "/x/y/g/"),
        ("./g/.", "/x/y/g/"),
        ("g/./h", "/x/y/g/h"),
        ("g/../h", "/x/y/h"),
        ("g.", "/x/y/g."),
        ("..g", "/x/y/..g"),
        ("g?y/../x", "/x/y/g?y/../x"),
        ("./g?y/./x", "/x/y/g?y/./x"),
    ] {
        assert_eq!(named(value), [expected], "{value}");
    }
    // A client that keeps to the path as it is written asks for another target.
    assert_eq!(named("/a/../g?q"), ["/a/../g?q", "/g?q"]);
    assert_eq!(named("https://a.example/./g"), ["/./g", "/g"]);
}

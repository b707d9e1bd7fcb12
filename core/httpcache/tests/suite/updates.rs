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
    let stored = fields("A: 1\nA: 2\nB: 1\nAge: 9\nContent-Length: 5\nContent-Type: x");
    let update = fields("A: 3\nC: 4\nContent-Length: 9\nContent-Type: y");
    let expected = fields("B: 1\nContent-Length: 5\nA: 3\nC: 4\nContent-Type: y");
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
        ("../z", None),
        ("", None),
    ] {
        assert_eq!(named(value), expected.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{value}");
    }
}

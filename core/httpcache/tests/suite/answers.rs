//! What a request gets of a stored response.

use http::{Method, StatusCode};
use httpcache::{
    answer::{Answer, Part, decide_answer},
    control::Control,
    reuse::{conditions, judge},
    status::{CacheStatus, Forwarded},
};
use httprules::{cache_control::RequestDirectives, freshness::Verdict, range::ContentRange};

use crate::fields;

const NOW: u64 = 1_700_000_000;

fn verdict(said: &str, request: &str, grace: u64, age: u64) -> Verdict {
    let headers = fields(&format!("Cache-Control: {said}"));
    let stored = Control::of(&headers).freshness(StatusCode::OK, &headers, NOW, NOW);
    let request = RequestDirectives::of(&fields(&format!("Cache-Control: {request}")));
    judge(&stored, &request, grace, NOW + age)
}

#[test]
fn grace_answers_for_an_origin_that_cannot_unless_somebody_forbids_it() {
    let validate = |if_error| Verdict::Validate { if_error };
    let table = [
        ("max-age=10", "x", 9, Verdict::Fresh),
        ("max-age=10", "x", 10, validate(true)),
        ("max-age=10", "x", 14, validate(true)),
        ("max-age=10", "x", 15, validate(false)),
        ("max-age=10, must-revalidate", "x", 12, validate(false)),
        ("max-age=10, proxy-revalidate", "x", 12, validate(false)),
        ("s-maxage=10", "x", 12, validate(false)),
        ("max-age=10, no-cache", "x", 12, validate(false)),
        ("max-age=10", "no-cache", 12, validate(false)),
        ("max-age=10, stale-if-error=1", "x", 12, validate(false)),
        ("max-age=10, stale-if-error=9", "x", 18, validate(true)),
        ("max-age=10, stale-while-revalidate=9", "x", 18, Verdict::Stale),
    ];
    for (said, request, age, expected) in table {
        assert_eq!(verdict(said, request, 5, age), expected, "{said} / {request} at {age}");
    }
}

#[test]
fn a_stored_response_is_validated_by_what_its_origin_sent() {
    let found = conditions(&fields("ETag: W/\"a\"\nLast-Modified: x"));
    let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(found, [("if-none-match", "W/\"a\""), ("if-modified-since", "x")]);
    assert!(conditions(&fields("A: 1")).is_empty());
}

#[test]
fn conditions_and_ranges_are_answered_from_what_is_stored() {
    let stored = fields("ETag: \"a\"\nDate: Tue, 14 Nov 2023 22:13:20 GMT");
    let answer = |request: &str, status: u16| {
        let status = StatusCode::from_u16(status).unwrap();
        decide_answer((&Method::GET, &fields(request)), (status, &stored), (10, None), NOW)
    };
    let part = |range: std::ops::Range<u64>| {
        Answer::Part(range.clone(), ContentRange { part: Some(range), len: 10 })
    };
    assert_eq!(answer("", 200), Answer::Whole);
    assert_eq!(answer("If-None-Match: \"b\", \"a\"", 200), Answer::NotModified);
    assert_eq!(answer("If-None-Match: \"a\"", 404), Answer::Whole);
    assert_eq!(answer("If-Match: \"b\"", 200), Answer::Failed);
    assert_eq!(answer("Range: bytes=2-3", 200), part(2..4));
    assert_eq!(answer("Range: bytes=2-3\nIf-Range: \"a\"", 200), part(2..4));
    assert_eq!(answer("Range: bytes=2-3\nIf-Range: \"b\"", 200), Answer::Whole);
    assert_eq!(answer("Range: bytes=20-", 200), Answer::Unsatisfiable(10));
}

#[test]
fn a_stored_part_answers_only_for_what_lies_inside() {
    let stored = fields("Content-Range: bytes 4-8/10");
    let part = Part::of(&stored, 5).unwrap();
    assert_eq!(part, Part { range: 4..9, len: 10 });
    let answer = |range: &str| {
        let request = fields(&format!("Range: bytes={range}"));
        decide_answer((&Method::GET, &request), (StatusCode::PARTIAL_CONTENT, &stored), (5, Some(&part)), NOW)
    };
    assert_eq!(answer("5-6"), Answer::Part(1..3, ContentRange { part: Some(5..7), len: 10 }));
    for outside in ["3-5", "5-9", "0-", "-3"] {
        assert_eq!(answer(outside), Answer::NotStored, "{outside}");
    }
    for wrong in [
        "bytes 4-9/10",
        "bytes 4-8/*",
        "bytes */10",
        "bytes 8-4/10",
        "items 4-8/10",
        "bytes 6-10/10",
        "4-8/10",
    ] {
        assert_eq!(Part::of(&fields(&format!("Content-Range: {wrong}")), 5), None, "{wrong}");
    }
}

#[test]
fn the_status_says_what_the_cache_did() {
    let hit = CacheStatus { is_hit: true, ttl: Some(-3), ..CacheStatus::default() };
    assert_eq!(hit.to_string(), "omnigate; hit; ttl=-3");
    let miss = CacheStatus {
        forwarded: Some(Forwarded::VaryMiss),
        forwarded_status: Some(304),
        is_stored: true,
        is_collapsed: true,
        detail: Some("private"),
        ..CacheStatus::default()
    };
    let expected = "omnigate; fwd=vary-miss; fwd-status=304; stored; collapsed; detail=private";
    assert_eq!(miss.to_string(), expected);
    assert_eq!(hit.behind(["origin; hit", ""]), "origin; hit, omnigate; hit; ttl=-3");
}

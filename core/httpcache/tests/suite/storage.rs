//! What is stored.

use http::StatusCode;
use httpcache::storage::{Asked, NotStored, Rules, concerns_storing, judge, strip};
use httprules::cache_control::RequestDirectives;

use crate::fields;

const NOW: u64 = 1_700_000_000;

fn judged(asked: &Asked, rules: &Rules, status: u16, text: &str) -> Result<u64, NotStored> {
    let status = StatusCode::from_u16(status).unwrap();
    judge(asked, rules, status, &fields(text), (NOW, NOW)).map(|storable| storable.freshness.lifetime())
}

#[test]
fn plain_requests_store_what_says_how_long_it_is_fresh() {
    let table = [
        (200, "Cache-Control: max-age=60", Ok(60)),
        (599, "Cache-Control: max-age=60", Ok(60)),
        (200, "Cache-Control: max-age=60, s-maxage=5", Ok(5)),
        (200, "ETag: \"x\"", Ok(0)),
        (200, "Cache-Control: no-cache\nETag: \"x\"", Ok(0)),
        (200, "Cache-Control: max-age=60, no-store, must-understand", Ok(60)),
        (200, "", Err(NotStored::Useless)),
        (200, "Cache-Control: max-age=0", Err(NotStored::Useless)),
        (599, "Last-Modified: Tue, 14 Nov 2000 22:13:20 GMT", Err(NotStored::Useless)),
        (200, "Cache-Control: max-age=60, no-store", Err(NotStored::NoStore)),
        (599, "Cache-Control: max-age=60, no-store, must-understand", Err(NotStored::Status)),
        (200, "Cache-Control: max-age=60, private", Err(NotStored::Private)),
        (200, "Cache-Control: max-age=60\nVary: *", Err(NotStored::Vary)),
        (206, "Cache-Control: max-age=60", Err(NotStored::Status)),
        (304, "Cache-Control: max-age=60", Err(NotStored::Status)),
        (103, "Cache-Control: max-age=60", Err(NotStored::Status)),
    ];
    for (status, text, expected) in table {
        assert_eq!(judged(&Asked::default(), &Rules::default(), status, text), expected, "{status} {text}");
    }
}

#[test]
fn what_is_about_one_request_is_not_stored_whatever_it_says_of_itself() {
    let says = "Cache-Control: public, max-age=60\nETag: \"x\"";
    for status in [401, 406, 407, 408, 411, 412, 413, 415, 416, 417, 421, 425, 426, 428, 429, 431, 511] {
        let judged = judged(&Asked::default(), &Rules::default(), status, says);
        assert_eq!(judged, Err(NotStored::Status), "{status}");
    }
    // What is about the target is.
    for status in [200, 203, 204, 301, 302, 307, 308, 400, 402, 403, 404, 405, 410, 414, 451, 500, 501, 503] {
        assert_eq!(judged(&Asked::default(), &Rules::default(), status, says), Ok(60), "{status}");
    }
}

#[test]
fn answers_to_authorized_requests_are_stored_only_if_they_say_that_others_may_see_them() {
    let asked = Asked { is_authorized: true, ..Asked::default() };
    for (text, stored) in [
        ("max-age=60", false),
        ("max-age=60, public", true),
        ("max-age=60, must-revalidate", true),
        ("s-maxage=60", true),
        ("max-age=60, public, private", false),
    ] {
        let judged = judged(&asked, &Rules::default(), 200, &format!("Cache-Control: {text}"));
        assert_eq!(judged.is_ok(), stored, "{text}");
    }
}

#[test]
fn cookies_are_shared_only_if_the_operator_says_so() {
    let sets = "Cache-Control: max-age=60\nSet-Cookie: a=b";
    let open = Rules { store_set_cookie: true, ..Rules::default() };
    assert_eq!(judged(&Asked::default(), &Rules::default(), 200, sets), Err(NotStored::SetCookie));
    assert_eq!(judged(&Asked::default(), &open, 200, sets), Ok(60));
    // Even then nobody guesses how long.
    let guessed = "Last-Modified: Tue, 14 Nov 2000 22:13:20 GMT\nSet-Cookie: a=b";
    assert_eq!(judged(&Asked::default(), &open, 200, guessed), Err(NotStored::Useless));
    let unstored = "Cache-Control: max-age=60, no-cache=\"set-cookie\"\nSet-Cookie: a=b";
    assert_eq!(judged(&Asked::default(), &Rules::default(), 200, unstored), Ok(60));
}

#[test]
fn the_answer_to_a_request_with_a_cookie_needs_explicit_freshness() {
    let asked = Asked { has_cookie: true, ..Asked::default() };
    let rules = Rules { default_lifetime: 60, ..Rules::default() };
    let heuristic = "Last-Modified: Tue, 14 Nov 2000 22:13:20 GMT";
    assert_eq!(judged(&asked, &rules, 200, heuristic), Err(NotStored::Useless));
    assert_eq!(judged(&asked, &rules, 200, "Cache-Control: max-age=60"), Ok(60));
    assert!(judged(&Asked::default(), &rules, 200, heuristic).is_ok());
}

#[test]
fn a_request_can_keep_its_answer_from_being_stored() {
    let directives = RequestDirectives { no_store: true, ..RequestDirectives::default() };
    let asked = Asked { directives, ..Asked::default() };
    let judged = judged(&asked, &Rules::default(), 200, "Cache-Control: max-age=60");
    assert_eq!(judged, Err(NotStored::NoStore));
}

#[test]
fn the_operator_sets_a_lifetime_where_there_is_none_and_caps_the_others() {
    let rules = Rules { default_lifetime: 10, max_lifetime: Some(30), ..Rules::default() };
    assert_eq!(judged(&Asked::default(), &rules, 404, ""), Ok(10));
    assert_eq!(judged(&Asked::default(), &rules, 500, ""), Err(NotStored::Useless));
    assert_eq!(judged(&Asked::default(), &rules, 200, "Cache-Control: max-age=60"), Ok(30));
}

#[test]
fn fields_that_could_speak_of_storing_are_told_from_others() {
    let name = |name: &str| http::HeaderName::try_from(name).unwrap();
    for concerns in [
        "cache-control",
        "cdn-cache-control",
        "surrogate-control",
        "surrogate-key",
        "cache-tag",
        "x-accel-expires",
        "expires",
        "pragma",
        "vary",
        "x-vary-options",
        "age",
        "date",
        "etag",
        "last-modified",
        "set-cookie",
        "set-cookie2",
        "www-authenticate",
        "authentication-info",
        "content-range",
        "content-encoding",
        "content-type",
        "repr-digest",
        "location",
    ] {
        assert!(concerns_storing(&name(concerns)), "{concerns}");
    }
    for other in ["a", "x-hop", "server", "x-request-id", "link", "via", "x-agent"] {
        assert!(!concerns_storing(&name(other)), "{other}");
    }
}

#[test]
fn fields_that_are_not_to_be_stored_are_removed() {
    let mut headers = fields("Cache-Control: max-age=60, no-cache=\"a\"\nA: 1\nB: 2\nProxy-Authenticate: x");
    strip(&mut headers);
    assert_eq!(headers, fields("Cache-Control: max-age=60, no-cache=\"a\"\nB: 2"));
}

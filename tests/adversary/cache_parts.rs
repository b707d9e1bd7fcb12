//! Parts of responses in the cache: which are combined, which are completed, and that no byte is ever that of another
//! version.

use crate::{
    cache_node::Lives,
    cache_origin::{Origin, field, get, is_hit, whole},
    support::{Answer, ask},
};

const BODY: &str = "0123456789abcdefghij";

/// The answer of a server that has `body` with this validator, to a request with these ranges and conditions.
fn ranged(request: &str, etag: &str, body: &str) -> String {
    let fields = format!("cache-control: max-age=60\r\netag: {etag}\r\ncontent-type: text/x\r\n");
    let is_current = field(request, "if-range").is_none_or(|known| known == etag);
    let range = field(request, "range").filter(|_| is_current);
    let Some((first, last)) =
        range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-'))
    else {
        return whole(200, &fields, body);
    };
    let first: usize = first.parse().unwrap();
    let end = last.parse().map_or(body.len(), |last: usize| (last + 1).min(body.len()));
    let place = format!("content-range: bytes {first}-{}/{}\r\n", end - 1, body.len());
    whole(206, &(fields + &place), &body[first..end])
}

fn seen(answer: &Answer) -> (u16, &str, bool) {
    (answer.status, answer.body.as_str(), is_hit(answer))
}

fn range(first: usize, last: usize) -> String {
    format!("range: bytes={first}-{last}\r\n")
}

#[test]
fn parts_with_the_same_strong_validator_become_one() {
    let origin = Origin::start(|request| ranged(request, "\"1\"", BODY));
    let node = origin.behind_cache("{}", "");
    // With a gap, touching, and overlapping; the second closes the gap.
    for (first, last) in [(0, 4), (10, 14), (5, 9), (13, 17)] {
        assert_eq!(seen(&get(&node, "/", &range(first, last))), (206, &BODY[first..=last], false));
    }
    let across = get(&node, "/", &range(2, 16));
    assert_eq!(seen(&across), (206, &BODY[2..=16], true));
    assert_eq!(across.header("content-range"), Some("bytes 2-16/20"));
    assert!(!is_hit(&get(&node, "/", &range(2, 18))));
    // The last bytes make it whole.
    get(&node, "/", &range(18, 19));
    let all = get(&node, "/", "");
    assert_eq!(seen(&all), (200, BODY, true));
    assert_eq!((all.header("content-length"), all.header("content-range")), (Some("20"), None));
    assert_eq!(all.header("content-type"), Some("text/x"));
    assert_eq!(origin.count(), 6);
}

#[test]
fn a_stored_beginning_or_end_is_completed_by_the_rest_alone() {
    for (first, last, rest) in [(0, 7, "bytes=8-19"), (8, 19, "bytes=0-7")] {
        let origin = Origin::start(|request| ranged(request, "\"1\"", BODY));
        let node = origin.behind_cache("{}", "");
        get(&node, "/", &range(first, last));
        let all = get(&node, "/", "");
        assert_eq!(seen(&all), (200, BODY, false));
        assert_eq!((all.header("content-length"), all.header("content-range")), (Some("20"), None));
        let said = all.header("cache-status").unwrap();
        assert!(said.contains("fwd=partial; fwd-status=206") && said.contains("stored"), "{said}");
        let asked = origin.asked().pop().unwrap();
        assert_eq!(field(&asked, "range").as_deref(), Some(rest));
        assert_eq!(field(&asked, "if-range").as_deref(), Some("\"1\""));
        assert_eq!(seen(&get(&node, "/", "")), (200, BODY, true));
        assert_eq!(origin.count(), 2);
    }
}

/// What a server makes of a request.
type Answering = Box<dyn Fn(&str) -> String + Send + Sync>;

#[test]
fn what_has_changed_is_never_mixed() {
    // What the server says to the request that would complete the part, and what everybody gets in the end.
    let other = BODY.to_ascii_uppercase();
    let table: [(&str, Answering); 6] = [
        ("another version, If-Range known", Box::new(|request| ranged(request, "\"2\"", &upper()))),
        (
            "another version, If-Range ignored",
            Box::new(|request| {
                let without = request.replace("if-range", "x");
                ranged(&without, "\"2\"", &upper())
            }),
        ),
        (
            "no validator",
            Box::new(|request| {
                ranged(&request.replace("if-range", "x"), "\"2\"", &upper()).replace("etag: \"2\"\r\n", "")
            }),
        ),
        ("a weak one", Box::new(|request| ranged(&request.replace("if-range", "x"), "W/\"1\"", &upper()))),
        (
            "another range",
            Box::new(|request| {
                ranged(&request.replace("bytes=8-", "bytes=9-").replace("if-range", "x"), "\"1\"", &upper())
            }),
        ),
        (
            "no such range",
            Box::new(|request| match field(request, "range") {
                Some(_) => whole(416, "content-range: bytes */4\r\n", ""),
                None => ranged(request, "\"2\"", &upper()),
            }),
        ),
    ];
    for (why, later) in table {
        let origin = Origin::start(move |request| match field(request, "range").as_deref() {
            Some("bytes=0-7") => ranged(request, "\"1\"", BODY),
            _ => later(request),
        });
        let node = origin.behind_cache("{}", "");
        get(&node, "/", &range(0, 7));
        let all = get(&node, "/", "");
        assert_eq!((all.status, all.body.as_str()), (200, other.as_str()), "{why}");
        let again = get(&node, "/", "");
        assert_eq!((again.status, again.body.as_str()), (200, other.as_str()), "{why}");
    }
}

fn upper() -> String {
    BODY.to_ascii_uppercase()
}

#[test]
fn parts_that_differ_where_they_overlap_are_not_combined() {
    // A validator that stays the same though the bytes change.
    let origin = Origin::start(|request| match field(request, "range").as_deref() {
        Some("bytes=0-7") => ranged(request, "\"1\"", BODY),
        _ => ranged(request, "\"1\"", &upper()),
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", &range(0, 7));
    // Letters differ, digits do not: the first overlap agrees.
    get(&node, "/", &range(4, 11));
    assert_eq!(seen(&get(&node, "/", &range(0, 9))), (206, "0123456789", true));
    let origin = Origin::start(|request| match field(request, "range").as_deref() {
        Some("bytes=8-13") => ranged(request, "\"1\"", BODY),
        _ => ranged(request, "\"1\"", &upper()),
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", &range(8, 13));
    get(&node, "/", &range(12, 16));
    assert_eq!(seen(&get(&node, "/", &range(12, 13))), (206, "CD", true));
    assert_eq!(seen(&get(&node, "/", &range(8, 11))), (206, "89AB", false));
}

#[test]
fn weak_validators_dates_and_none_combine_nothing() {
    let tables = [
        "etag: \"1\"\r\nvary: range\r\n",
        "etag: W/\"1\"\r\n",
        "last-modified: Tue, 14 Nov 2000 22:13:20 GMT\r\n",
        "",
    ];
    for validator in tables {
        let origin = Origin::start(move |request| {
            ranged(request, "\"1\"", BODY).replace("etag: \"1\"\r\n", validator)
        });
        let node = origin.behind_cache("{}", "");
        get(&node, "/", &range(0, 4));
        get(&node, "/", &range(5, 9));
        assert!(!is_hit(&get(&node, "/", &range(3, 6))), "{validator}");
        let all = get(&node, "/", "");
        assert_eq!(seen(&all), (200, BODY, false), "{validator}");
        assert_eq!(field(&origin.asked().pop().unwrap(), "range"), None, "{validator}");
    }
}

#[test]
fn parts_of_variants_and_of_visitors_are_not_mixed() {
    let origin = Origin::start(|request| {
        let is_german = field(request, "accept-language").as_deref() == Some("de");
        let body = if is_german { upper() } else { BODY.to_owned() };
        // The same validator for both, which is wrong but common.
        ranged(request, "\"1\"", &body).replace("content-type", "vary: accept-language\r\ncontent-type")
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", &(range(0, 11) + "accept-language: de\r\n"));
    get(&node, "/", &(range(12, 19) + "accept-language: en\r\n"));
    assert_eq!(get(&node, "/", "accept-language: de\r\n").body, upper());
    assert_eq!(get(&node, "/", "accept-language: en\r\n").body, BODY);

    let origin = Origin::start(|request| {
        let is_visitor = field(request, "cookie").is_some();
        let body = if is_visitor { upper() } else { BODY.to_owned() };
        let answer = ranged(request, "\"1\"", &body);
        if is_visitor { answer.replace("max-age=60", "private") } else { answer }
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", &range(0, 11));
    assert_eq!(get(&node, "/", "cookie: a=b\r\n").body, upper(), "a visitor's page is asked for as a whole");
    assert_eq!(get(&node, "/", "").body, BODY);
}

#[test]
fn a_part_without_what_describes_it_is_not_stored() {
    // As servers answer clients that know the rest (RFC 9110, 15.3.7).
    let origin = Origin::start(|request| {
        let answer = ranged(request, "\"1\"", BODY);
        if field(request, "if-range").is_some() {
            answer.replace("content-type: text/x\r\n", "")
        } else {
            answer
        }
    });
    let node = origin.behind_cache("{}", "");
    let mine = get(&node, "/", &(range(0, 9) + "if-range: \"1\"\r\n"));
    assert_eq!((mine.status, mine.header("content-type")), (206, None));
    let yours = get(&node, "/", &range(0, 9));
    assert_eq!((yours.header("content-type"), is_hit(&yours)), (Some("text/x"), false));
}

#[test]
fn only_so_many_parts_of_a_representation_are_kept_apart() {
    let body: &'static str = Box::leak(BODY.repeat(10).into_boxed_str());
    let origin = Origin::start(move |request| ranged(request, "\"1\"", body));
    let node = origin.behind_cache("{}", "");
    for nth in 0..9 {
        get(&node, "/", &range(nth * 10, nth * 10 + 1));
    }
    for nth in 1..9 {
        assert!(is_hit(&get(&node, "/", &range(nth * 10, nth * 10))), "{nth}");
    }
    assert!(!is_hit(&get(&node, "/", &range(0, 0))), "the oldest made room");
}

#[test]
fn a_rest_that_breaks_off_is_not_stored_as_whole() {
    let origin = Origin::start(|request| match field(request, "range").as_deref() {
        Some("bytes=8-19") => {
            let answer = ranged(request, "\"1\"", BODY);
            answer[..answer.len() - 3].replace("etag", "connection: close\r\netag")
        }
        _ => ranged(request, "\"1\"", BODY),
    });
    let node = origin.behind_cache("{}", "upstream.up.breaker = { consecutive = 0, error_rate = 0 }");
    get(&node, "/", &range(0, 7));
    let broken = ask(node.gateway, "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(broken.is_err(), "{broken:?}");
    assert_eq!(seen(&get(&node, "/", &range(0, 7))), (206, &BODY[0..8], true));
    assert!(!is_hit(&get(&node, "/", &range(10, 12))));
}

#[test]
fn a_stale_part_is_validated_by_its_range_and_not_fetched_as_a_whole() {
    let origin = Origin::start(|request| {
        let answer = ranged(request, "\"1\"", BODY);
        answer.replace("max-age=60", "max-age=1, stale-while-revalidate=60").replace("etag", "age: 5\r\netag")
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", &range(0, 7));
    assert!(is_hit(&get(&node, "/", &range(2, 3))));
    origin.wait_for(2);
    assert_eq!(field(&origin.asked()[1], "range").as_deref(), Some("bytes=2-3"));
}

#[test]
fn what_was_combined_outlasts_a_stop() {
    let origin = Origin::start(|request| ranged(request, "\"1\"", BODY));
    let mut node = Lives::of(&origin, "{}", "");
    node.start();
    for (first, last) in [(0, 4), (10, 14), (5, 9)] {
        node.get("/0", &range(first, last));
    }
    node.wait_for_disk(1);
    node.stop();
    node.start();
    assert_eq!(seen(&node.get("/0", &range(3, 12))), (206, &BODY[3..=12], true));
    assert_eq!(node.get("/0", "").body, BODY);
    node.wait_for_disk(1);
    node.stop();
    node.start();
    assert_eq!(seen(&node.get("/0", "")), (200, BODY, true));
    assert_eq!(origin.count(), 4);
}

//! What is served without asking, what is asked for again, and what is not kept (RFC 9111).

use std::sync::Arc;

use cas::{Cas, Limits};
use httprules::{cache_control::RequestDirectives, freshness::Time};
use svc_edge::fill::Found;
use types::Reason;

use crate::support::{Act, Ground, Node, Origin, answer, eventually, reason, tagged, within_a_moment};

/// An origin whose answers tell their number.
fn counting(headers: &'static str) -> Origin {
    Origin::start(move |number, _| Act::Say(tagged(headers, number.to_string())))
}

#[track_caller]
fn text(node: &Node, found: Found) -> String {
    let (Found::Fresh(entry) | Found::Stale(entry)) = found else { panic!("{found:?}") };
    String::from_utf8(node.bytes(&entry)).unwrap()
}

#[test]
fn what_is_fresh_is_not_asked_for_again() {
    let origin = counting("cache-control: public, max-age=3600\r\ncontent-type: text/plain\r\nage: 7\r\n");
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    assert!(matches!(node.find(&url, ""), Found::Missing));
    let entry = node.fetch(&url).unwrap();
    assert_eq!(entry.media_type.as_ref().unwrap(), "text/plain");
    assert_eq!(entry.cache_control.as_ref().unwrap(), "public, max-age=3600");
    assert!((7..600).contains(&entry.age(node.now())));
    assert!(matches!(node.find(&url, ""), Found::Fresh(_)));
    assert!(matches!(node.find(&url, "max-age=3600"), Found::Fresh(_)));
    assert!(matches!(node.find(&url, "max-age=1"), Found::Missing));
    assert!(matches!(node.find(&url, "no-cache"), Found::Missing));
    assert!(node.fetch(&url).is_ok());
    assert_eq!(origin.asked(), 1);
}

#[test]
fn what_is_stale_does_not_become_fresh_when_the_clock_is_moved_back() {
    let origin = counting("cache-control: max-age=3\r\n");
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    let entry = node.fetch(&url).unwrap();
    let received_at = entry.stored.received_at;
    let after = |seconds: u64| Time {
        unix: received_at.unix - 86_400 + seconds,
        steady: received_at.steady + seconds,
    };
    let request = RequestDirectives::default();
    assert!(matches!(node.fill.find(&url, &request, after(2)), Found::Fresh(_)));
    assert!(matches!(node.fill.find(&url, &request, after(3)), Found::Missing));
    assert_eq!((entry.age(after(2)), entry.age(after(3))), (2, 3));
}

#[test]
fn what_nobody_says_anything_of_is_fresh_for_as_long_as_we_say() {
    let origin = counting("");
    let mut ground = Ground::new(vec![origin.entry()]);
    ground.config.fill.default_ttl = std::time::Duration::ZERO.into();
    let strict = Node::on(ground);
    let url = strict.url(&origin, "/x");
    strict.fetch(&url).unwrap();
    assert!(matches!(strict.find(&url, ""), Found::Missing));
    let usual = Node::start(vec![origin.entry()]);
    usual.fetch(&url).unwrap();
    assert!(matches!(usual.find(&url, ""), Found::Fresh(_)));
}

#[test]
fn what_may_be_stale_meanwhile_is_served_and_refreshed_once() {
    let origin = Origin::start(|number, _| match number {
        0 => Act::Say(tagged("cache-control: max-age=10, stale-while-revalidate=600\r\nage: 12\r\n", "old")),
        _ => Act::Say(tagged("cache-control: max-age=60\r\n", "new")),
    });
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    node.fetch(&url).unwrap();
    assert!(matches!(node.find(&url, "max-age=0"), Found::Missing), "whoever wants it fresh waits");
    for _ in 0..100 {
        text(&node, node.find(&url, ""));
    }
    eventually("it is refreshed", || text(&node, node.find(&url, "")) == "new");
    assert_eq!(origin.asked(), 2);
    assert!(matches!(node.find(&url, ""), Found::Fresh(_)));
}

#[test]
fn what_the_origin_says_is_still_good_is_not_sent_again() {
    let origin = Origin::start(|_, head| match head.contains("if-none-match: \"t\"\r\n") {
        false => Act::Say(tagged(
            "last-modified: sun, 06 nov 1994 08:49:37 gmt\r\ncache-control: max-age=1\r\nage: 5\r\n",
            "body",
        )),
        true => Act::Say(b"HTTP/1.1 304 X\r\ncache-control: max-age=60\r\n\r\n".to_vec()),
    });
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    let first = node.fetch(&url).unwrap();
    let second = node.fetch(&url).unwrap();
    assert_eq!(first.id, second.id);
    assert_eq!(second.cache_control.as_ref().unwrap(), "max-age=60");
    assert!(origin.heads()[1].contains("if-modified-since: sun, 06 nov 1994"));
    assert!(matches!(node.find(&url, ""), Found::Fresh(_)));
    assert!(node.fetch_with(&url, "no-cache").is_ok());
    assert_eq!(origin.asked(), 3, "no-cache asks although it is fresh");
}

#[test]
fn an_answer_that_something_else_is_unchanged_does_not_count() {
    for (told, confirms) in [
        ("etag: \"t\"\r\n", true),
        ("etag: W/\"t\"\r\n", true),
        ("etag: \"other\"\r\n", false),
        ("etag: W/\"other\"\r\n", false),
        ("etag: nonsense\r\n", true),
        ("last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n", true),
        ("last-modified: Mon, 07 Nov 1994 08:49:37 GMT\r\n", false),
        ("", true),
    ] {
        let origin = Origin::start(move |number, head| match head.contains("if-none-match") {
            true => {
                Act::Say(format!("HTTP/1.1 304 X\r\ncache-control: max-age=60\r\n{told}\r\n").into_bytes())
            }
            false => {
                let fields =
                    "last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\ncache-control: max-age=1\r\nage: 5\r\n";
                Act::Say(tagged(fields, if number == 0 { "old" } else { "new" }))
            }
        });
        let node = Node::start(vec![origin.entry()]);
        let url = node.url(&origin, "/x");
        node.fetch(&url).unwrap();
        let entry = node.fetch(&url).unwrap();
        let expected = if confirms { ("old", 2) } else { ("new", 3) };
        let got = String::from_utf8(node.bytes(&entry)).unwrap();
        assert_eq!((got.as_str(), origin.asked()), expected, "{told}");
    }
}

#[test]
fn an_answer_without_a_date_that_nothing_has_changed_makes_an_object_fresh_again() {
    let origin = Origin::start(|_, head| match head.contains("if-none-match") {
        false => {
            let old = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\ncache-control: max-age=600\r\n";
            Act::Say(tagged(old, "body"))
        }
        true => Act::Say(b"HTTP/1.1 304 X\r\n\r\n".to_vec()),
    });
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    for _ in 0..3 {
        assert_eq!(node.bytes(&node.fetch(&url).unwrap()), b"body");
    }
    assert_eq!(origin.asked(), 2, "it is stale when it comes, validated once, and fresh from then on");
}

#[test]
fn what_is_gone_from_the_store_is_fetched_whole() {
    let origin = counting("cache-control: max-age=1\r\nage: 5\r\n");
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    let entry = node.fetch(&url).unwrap();
    node.cas.remove(entry.id).unwrap();
    assert_eq!(node.bytes(&node.fetch(&url).unwrap()), b"1");
    assert!(!origin.heads()[1].contains("if-none-match"));
}

#[test]
fn what_may_be_stale_when_asking_fails_is_served_then() {
    let failing = |cache_control: &'static str| {
        Origin::start(move |number, _| match number {
            0 => Act::Say(tagged(&format!("cache-control: {cache_control}\r\nage: 12\r\n"), "old")),
            _ => Act::Say(answer(500, "", "")),
        })
    };
    within_a_moment(|| {
        let origin = failing("max-age=10, stale-if-error=600");
        let node = Node::start(vec![origin.entry()]);
        let url = node.url(&origin, "/x");
        node.fetch(&url).unwrap();
        assert!(matches!(node.find(&url, ""), Found::Missing));
        assert_eq!(node.bytes(&node.fetch(&url).unwrap()), b"old");
        assert_eq!(origin.asked(), 2);
        // Nobody waits for an origin that failed a moment ago.
        let (Found::Fresh(entry) | Found::Stale(entry)) = node.find(&url, "") else {
            panic!("it is waited for")
        };
        assert_eq!((node.bytes(&entry), origin.asked()), (b"old".to_vec(), 2));
    });

    for strict in
        ["max-age=10", "max-age=10, stale-if-error=60, must-revalidate", "max-age=10, stale-if-error=1"]
    {
        let origin = failing(strict);
        let node = Node::start(vec![origin.entry()]);
        let url = node.url(&origin, "/x");
        node.fetch(&url).unwrap();
        assert_eq!(reason(node.fetch(&url)), Reason::BadGateway, "{strict}");
    }
}

#[test]
fn that_there_is_nothing_is_remembered_for_a_while() {
    for status in [404, 410] {
        let origin = Origin::saying(answer(status, "", "nothing"));
        let node = Node::start(vec![origin.entry()]);
        let url = node.url(&origin, "/x");
        assert_eq!(reason(node.fetch(&url)), Reason::NotFound);
        assert!(matches!(node.find(&url, ""), Found::Refused(refusal) if refusal.reason == Reason::NotFound));
        assert_eq!(reason(node.fetch(&url)), Reason::NotFound);
        assert_eq!((origin.asked(), node.stored()), (1, 0));
    }
    let origin = Origin::start(|number, _| match number {
        0 => Act::Say(answer(404, "cache-control: max-age=0\r\n", "nothing")),
        _ => Act::Say(tagged("", "something")),
    });
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    assert_eq!(reason(node.fetch(&url)), Reason::NotFound);
    assert_eq!(node.bytes(&node.fetch(&url).unwrap()), b"something", "the origin said not to remember");
}

#[test]
fn an_object_that_is_gone_from_its_origin_is_gone_here() {
    let origin = Origin::start(|number, _| match number {
        0 => Act::Say(tagged("cache-control: max-age=1, stale-if-error=60\r\nage: 5\r\n", "body")),
        _ => Act::Say(answer(404, "", "")),
    });
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    assert!(node.fetch(&url).is_ok());
    assert_eq!(reason(node.fetch(&url)), Reason::NotFound, "which is no error");
}

#[test]
fn what_is_not_to_be_kept_is_served_and_not_kept() {
    for headers in [
        "cache-control: no-store\r\n",
        "cache-control: private, max-age=60\r\n",
        "vary: accept-language\r\n",
        "vary: *\r\n",
        "set-cookie: a=b\r\n",
    ] {
        let origin = counting(headers);
        let node = Node::start(vec![origin.entry()]);
        let url = node.url(&origin, "/x");
        let entry = node.fetch(&url).unwrap();
        assert_eq!(entry.held().unwrap(), "0", "{headers}");
        assert_eq!(node.stored(), 0, "{headers}");
        assert!(matches!(node.find(&url, ""), Found::Missing), "{headers}");
        assert_eq!(node.fetch(&url).unwrap().held().unwrap(), "1", "{headers}");
    }
    let origin = counting("vary: Accept-Encoding\r\ncache-control: max-age=60\r\n");
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    assert!(node.fetch_with(&url, "no-store").unwrap().held().is_some(), "the client asks not to");
    assert!(node.fetch(&url).unwrap().held().is_none());
    assert_eq!(node.stored(), 1);
}

#[test]
fn an_object_that_is_held_has_its_name_and_a_limit() {
    let origin = Origin::start(|_, head| {
        let len = if head.contains("/large") { (16 << 20) + 1 } else { 100_000 };
        Act::Say(tagged("cache-control: no-store\r\n", vec![b'x'; len]))
    });
    let node = Node::start(vec![origin.entry()]);
    let entry = node.fetch(&node.url(&origin, "/x")).unwrap();
    assert_eq!(entry.id.as_bytes(), node.cas.put(&vec![b'x'; 100_000]).unwrap().id.as_bytes());
    assert_eq!(reason(node.fetch(&node.url(&origin, "/large"))), Reason::SourceCap);
}

#[test]
fn whoever_reads_all_that_is_stored_keeps_nobody_from_other_objects() {
    let origin = Origin::saying(tagged("cache-control: max-age=60\r\n", vec![b'x'; 1 << 20]));
    let mut ground = Ground::new(vec![origin.entry()]);
    let limits = Limits { max_bytes: 3 << 19, ..Limits::default() };
    ground.cas = Arc::new(Cas::in_memory(limits));
    let node = Node::on(ground);
    let id = node.cas.put(&vec![b'y'; 1 << 20]).unwrap().id;
    let reads = node.cas.open(id).unwrap();
    let entry = node.fetch(&node.url(&origin, "/x")).expect("it is held in place of being stored");
    assert_eq!((entry.held().map(|bytes| bytes.len()), node.stored()), (Some(1 << 20), 1));
    drop(reads);
    let entry = node.fetch(&node.url(&origin, "/x")).expect("there is room again");
    assert!(entry.held().is_none());
}

#[test]
fn whoever_does_not_want_us_to_ask_is_told_what_is_here() {
    let origin = counting("cache-control: max-age=60\r\n");
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    let refused = node.find(&url, "only-if-cached");
    assert!(matches!(refused, Found::Refused(refusal) if refusal.reason.status() == 504));
    assert_eq!(origin.asked(), 0);
    node.fetch(&url).unwrap();
    assert!(matches!(node.find(&url, "only-if-cached"), Found::Fresh(_)));
}

#[test]
fn a_temporary_redirect_is_asked_for_again() {
    let origin = Origin::start(|_, head| match head.starts_with("get /there ") {
        true => Act::Say(tagged("cache-control: max-age=60\r\n", "there")),
        false => Act::Say(answer(302, "location: /there\r\n", "")),
    });
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    node.fetch(&url).unwrap();
    assert!(matches!(node.find(&url, ""), Found::Missing));
    node.fetch(&url).unwrap();
    assert_eq!(origin.asked(), 4);
    assert!(
        origin.heads().iter().all(|head| !head.contains("if-none-match")),
        "whose tag it is cannot be said"
    );
}

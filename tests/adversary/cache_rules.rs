//! The rules of RFC 9111 through the built program: a small part of what the public cache-tests look at.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{
    cache_origin::{Origin, field, fresh, get, is_hit, target, whole},
    support::{Answer, Client, Node, eventually},
};

/// What `Cache-Status` says.
fn said(answer: &Answer) -> &str {
    answer.header("cache-status").unwrap_or_default()
}

/// A server that answers its n-th request with the n-th of these, and the last of them from then on.
fn in_turn(answers: Vec<String>) -> Origin {
    let turn = AtomicUsize::new(0);
    Origin::start(move |_| {
        let number = turn.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
        answers[number].clone()
    })
}

/// A server that answers a request for `/n` with the n-th of these.
fn by_row(answers: Vec<String>) -> Origin {
    Origin::start(move |request| answers[target(request)[1..].parse::<usize>().unwrap()].clone())
}

const PATIENT: &str =
    "upstream.up.retry.max_tries = 1\nupstream.up.breaker = { consecutive = 0, error_rate = 0 }";

#[test]
fn what_is_fresh_is_a_hit_with_its_age_and_its_own_date() {
    let date = "Tue, 14 Nov 2023 22:13:20 GMT";
    let fields = format!("cache-control: max-age=999999999\r\ndate: {date}\r\nage: 30\r\nx-own: 1\r\n");
    let origin = Origin::start(move |_| whole(200, &fields, "body"));
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    let answer = get(&node, "/", "");
    assert!(is_hit(&answer) && answer.body == "body", "{answer:?}");
    assert_eq!((answer.header("date"), answer.header("x-own")), (Some(date), Some("1")));
    assert!(answer.header("age").unwrap().parse::<u64>().unwrap() >= 30);
}

#[test]
fn directives_decide_what_is_stored() {
    let table = [
        ("cache-control: max-age=60\r\n", 200, true),
        ("cache-control: max-age=60\r\n", 404, true),
        ("cache-control: max-age=60\r\n", 599, true),
        ("cache-control: s-maxage=60, max-age=0\r\n", 200, true),
        ("cache-control: max-age=60, no-store, must-understand\r\n", 200, true),
        ("cdn-cache-control: max-age=60\r\ncache-control: no-store\r\n", 200, true),
        ("omnigate-cache-control: max-age=60\r\ncdn-cache-control: no-store\r\n", 200, true),
        ("last-modified: Tue, 14 Nov 2000 22:13:20 GMT\r\n", 200, true),
        ("expires: Thu, 18 Aug 2050 02:01:18 GMT\r\n", 200, true),
        ("cache-control: max-age=60\r\nage: 90\r\n", 200, false),
        ("cache-control: max-age=0\r\n", 200, false),
        ("cache-control: no-store, max-age=60\r\n", 200, false),
        ("cache-control: private, max-age=60\r\n", 200, false),
        ("cache-control: no-cache, max-age=60\r\n", 200, false),
        ("cdn-cache-control: no-store\r\ncache-control: max-age=60\r\n", 200, false),
        ("last-modified: Tue, 14 Nov 2000 22:13:20 GMT\r\n", 403, false),
        ("expires: 0\r\n", 200, false),
        ("", 200, false),
    ];
    let origin = by_row(table.iter().map(|(fields, status, _)| whole(*status, fields, "x")).collect());
    let node = origin.behind_cache("{}", PATIENT);
    for (row, (fields, status, stored)) in table.into_iter().enumerate() {
        let path = format!("/{row}");
        get(&node, &path, "");
        let second = get(&node, &path, "");
        assert_eq!((second.status, is_hit(&second)), (status, stored), "{status} {fields} {}", said(&second));
        assert_eq!(second.header("omnigate-cache-control"), None);
    }
}

#[test]
fn malformed_directives_are_read_so_that_nothing_is_stored() {
    let table = [
        "cache-control: max-age=60, private;\r\n",
        "cache-control: max-age=60\r\ncache-control: no-store;\r\n",
        "cache-control: s-maxage=60, \"private\"\r\n",
        "cache-control: private; foo, max-age=60\r\n",
        "cache-control: no-cache;\r\nlast-modified: Tue, 14 Nov 2000 22:13:20 GMT\r\n",
        "cdn-cache-control: private;\r\ncache-control: max-age=60\r\n",
    ];
    let origin = by_row(table.map(|fields| whole(200, fields, "x")).to_vec());
    let node = origin.behind_cache("{}", PATIENT);
    for (row, fields) in table.into_iter().enumerate() {
        let path = format!("/{row}");
        get(&node, &path, "");
        let second = get(&node, &path, "");
        assert_eq!((second.status, is_hit(&second)), (200, false), "{fields} {}", said(&second));
    }
}

#[test]
fn what_is_stale_is_validated_and_updated() {
    let first = whole(200, "cache-control: no-cache\r\netag: \"1\"\r\nx-field: old\r\n", "body");
    let same =
        "HTTP/1.1 304 X\r\netag: \"1\"\r\ncache-control: max-age=60\r\nx-field: new\r\n\r\n".to_owned();
    let asked = Arc::new(AtomicUsize::new(0));
    let conditional = Arc::clone(&asked);
    let origin = Origin::start(move |request| match field(request, "if-none-match").as_deref() {
        Some("\"1\"") => {
            conditional.fetch_add(1, Ordering::Relaxed);
            same.clone()
        }
        _ => first.clone(),
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    let second = get(&node, "/", "");
    assert_eq!((second.body.as_str(), second.header("x-field")), ("body", Some("new")));
    assert!(said(&second).contains("fwd=stale; fwd-status=304"), "{}", said(&second));
    let third = get(&node, "/", "");
    assert!(is_hit(&third) && third.body == "body" && third.header("x-field") == Some("new"), "{third:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn a_304_about_something_else_does_not_count() {
    let origin = Origin::start(|request| match field(request, "if-none-match") {
        Some(_) => "HTTP/1.1 304 X\r\netag: \"2\"\r\n\r\n".to_owned(),
        None => whole(200, "cache-control: no-cache\r\netag: \"1\"\r\n", "body"),
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    let second = get(&node, "/", "");
    assert_eq!((second.status, second.body.as_str(), origin.count()), (200, "body", 3));
}

#[test]
fn conditions_and_ranges_are_answered_from_what_is_stored() {
    let origin = Origin::start(|_| whole(200, "cache-control: max-age=60\r\netag: \"1\"\r\n", "0123456789"));
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    let table = [
        ("if-none-match: \"1\"\r\n", 304, ""),
        ("if-none-match: \"2\"\r\n", 200, "0123456789"),
        ("if-match: \"2\"\r\n", 412, ""),
        ("range: bytes=2-3\r\n", 206, "23"),
        ("range: bytes=-3\r\n", 206, "789"),
        ("range: bytes=2-3\r\nif-range: \"2\"\r\n", 200, "0123456789"),
        ("range: bytes=20-\r\n", 416, ""),
    ];
    for (fields, status, body) in table {
        let answer = get(&node, "/", fields);
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{fields}");
        assert!(is_hit(&answer), "{fields}");
    }
    assert_eq!(get(&node, "/", "range: bytes=2-3\r\n").header("content-range"), Some("bytes 2-3/10"));
    let mut client = Client::connect(node.gateway).unwrap();
    client.send_raw("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let head = client.receive_head().unwrap();
    assert_eq!((head.header("content-length"), is_hit(&head)), (Some("10"), true));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_part_answers_for_what_lies_inside() {
    let part = "cache-control: max-age=60\r\ncontent-range: bytes 4-8/10\r\n";
    let origin = Origin::start(move |request| match field(request, "range").as_deref() {
        Some("bytes=4-8") => whole(206, part, "45678"),
        _ => whole(200, "cache-control: no-store\r\n", "0123456789"),
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "range: bytes=4-8\r\n");
    let inside = get(&node, "/", "range: bytes=5-6\r\n");
    assert_eq!((inside.status, inside.body.as_str(), is_hit(&inside)), (206, "56", true));
    assert!(!is_hit(&get(&node, "/", "range: bytes=3-5\r\n")));
    assert_eq!(get(&node, "/", "").body, "0123456789");
}

#[test]
fn a_stale_response_answers_for_a_server_that_cannot_unless_that_is_forbidden() {
    let error = whole(503, "", "error");
    let table = [
        ("max-age=60, stale-if-error=600", true),
        ("max-age=85", true),
        ("max-age=60", false),
        ("max-age=85, must-revalidate", false),
        ("max-age=85, proxy-revalidate", false),
        ("s-maxage=85", false),
        ("max-age=85, no-cache", false),
    ];
    for (said, serves) in table {
        let stale = whole(200, &format!("cache-control: {said}\r\nage: 90\r\n"), "stale");
        for failing in [error.clone(), String::from("x\r\nconnection: close\r\n\r\n")] {
            let origin = in_turn(vec![stale.clone(), failing]);
            // The age of what is stored is 90 s and grows: a grace of 10 s is enough for what was fresh for 85 s.
            let node = origin.behind_cache("{}", PATIENT);
            get(&node, "/", "");
            let second = get(&node, "/", "");
            assert_eq!(second.body == "stale", serves, "{said}: {second:?}");
        }
    }
}

#[test]
fn a_stale_response_is_given_out_while_it_is_validated() {
    let stale = whole(200, "cache-control: max-age=60, stale-while-revalidate=600\r\nage: 90\r\n", "old");
    let origin = in_turn(vec![stale, fresh("new")]);
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    let second = get(&node, "/", "");
    assert_eq!((second.body.as_str(), is_hit(&second)), ("old", true));
    eventually("the new one is stored", || {
        let answer = get(&node, "/", "");
        (answer.body == "new" && is_hit(&answer)).then_some(())
    });
    assert_eq!(origin.count(), 2);
}

#[test]
fn directives_of_requests_count() {
    let origin = Origin::start(|request| {
        let age = if target(request) == "/aged" { "age: 30\r\n" } else { "" };
        whole(200, &format!("cache-control: max-age=60\r\n{age}"), "x")
    });
    let node = origin.behind_cache("{}", "");
    let ask = |node: &Node, path: &str, directives: &str| {
        get(node, path, &format!("cache-control: {directives}\r\n"))
    };
    assert_eq!(ask(&node, "/nothing", "only-if-cached").status, 504);
    get(&node, "/", "");
    get(&node, "/aged", "");
    for (path, directives, hits) in [
        ("/", "only-if-cached", true),
        ("/", "no-cache", false),
        ("/", "no-store", false),
        ("/aged", "max-age=20", false),
        ("/aged", "max-age=50", true),
        ("/aged", "min-fresh=50", false),
        ("/", "max-stale=5", true),
    ] {
        get(&node, path, "");
        assert_eq!(is_hit(&ask(&node, path, directives)), hits, "{path} {directives}");
    }
}

#[test]
fn a_cookie_is_stored_only_if_the_operator_says_so() {
    let sets = || Origin::start(|_| whole(200, "cache-control: max-age=60\r\nset-cookie: a=b\r\n", "x"));
    for (cache, hits) in [("{}", false), ("{ store_set_cookie = true }", true)] {
        let origin = sets();
        let node = origin.behind_cache(cache, "");
        get(&node, "/", "");
        assert_eq!(is_hit(&get(&node, "/", "")), hits, "{cache}");
    }
}

#[test]
fn equal_bodies_take_room_once() {
    let origin = Origin::start(|_| fresh(&"x".repeat(100_000)));
    let node = origin.behind_cache("{}", "");
    for number in 0..50 {
        get(&node, &format!("/{number}"), "");
    }
    assert!(is_hit(&get(&node, "/0", "")) && is_hit(&get(&node, "/49", "")));
    let taken =
        eventually("it is sampled", || Some(node.metric("gateway_cache_bytes")).filter(|taken| *taken > 0.0));
    assert!((100_000.0..400_000.0).contains(&taken), "{taken}");
}

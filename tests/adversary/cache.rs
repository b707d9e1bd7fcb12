//! Poisoning of the cache: what one client sends must not change what another one gets.

use crate::{
    cache_origin::{Origin, field, fresh, get, is_hit, target, whole},
    support::ask,
};

/// A server that lets the fields by which proxies speak change its answer, and says that the answer is for all.
fn gullible() -> Origin {
    Origin::start(|request| {
        let evil: Vec<_> = request.lines().filter(|line| line.contains("evil")).collect();
        fresh(&format!("{} {}", target(request), evil.join(";")))
    })
}

#[test]
fn fields_that_are_not_in_the_key_do_not_reach_the_server() {
    let origin = gullible();
    let node = origin.behind_cache("{}", "");
    for (number, name) in [
        "X-Forwarded-Host",
        "X-Forwarded-Scheme",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X_Forwarded_Host",
        "X-Host",
        "X-Original-Host",
        "X-HTTP-Host-Override",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-HTTP-Method-Override",
        "X-Method-Override",
        "Forwarded",
        "X-Omnigate-Tenant",
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{number}");
        let first = get(&node, &path, &format!("{name}: evil.example\r\n"));
        assert!(!first.body.contains("evil"), "{name}: {}", first.body);
        let second = get(&node, &path, "");
        assert!(is_hit(&second) && !second.body.contains("evil"), "{name}: {second:?}");
    }
}

#[test]
fn what_a_trusted_proxy_says_of_a_request_is_in_the_key() {
    let origin = gullible();
    let node = origin.behind_cache("{}", "trusted_proxies = [\"127.0.0.1\"]");
    for name in ["X-Forwarded-Host", "X-Host", "X-Forwarded-Prefix", "X-HTTP-Method-Override"] {
        let path = format!("/{name}");
        let first = get(&node, &path, &format!("{name}: evil.example\r\n"));
        assert!(first.body.contains("evil"), "a proxy is believed: {first:?}");
        let clean = get(&node, &path, "");
        assert!(!is_hit(&clean) && !clean.body.contains("evil"), "{name}: {clean:?}");
        assert!(is_hit(&get(&node, &path, &format!("{name}: evil.example\r\n"))), "{name}");
    }
}

#[test]
fn a_field_that_the_client_has_removed_does_not_select_a_variant() {
    let origin = Origin::start(|request| {
        let language = field(request, "accept-language").unwrap_or_else(|| "none".to_owned());
        whole(200, "cache-control: max-age=60\r\nvary: accept-language\r\n", &language)
    });
    let node = origin.behind_cache("{}", "");
    let attack = get(&node, "/", "accept-language: de\r\nconnection: accept-language\r\n");
    assert_eq!(attack.body, "none");
    let victim = get(&node, "/", "accept-language: de\r\n");
    assert_eq!((victim.body.as_str(), is_hit(&victim)), ("de", false));
    assert!(is_hit(&get(&node, "/", "")), "what was removed is absent");
    assert!(is_hit(&get(&node, "/", "accept-language: DE\r\n")));
}

#[test]
fn answers_that_vary_with_what_the_gateway_writes_are_not_stored() {
    let origin = Origin::start(|request| {
        let name = target(request).trim_start_matches('/').to_owned();
        whole(200, &format!("cache-control: max-age=60\r\nvary: {name}\r\n"), "x")
    });
    let node = origin.behind_cache("{}", "");
    for name in
        ["x-forwarded-for", "forwarded", "traceparent", "x-corr-id", "x-real-ip", "my_field", "te", "*"]
    {
        for _ in 0..2 {
            assert!(!is_hit(&get(&node, &format!("/{name}"), "")), "{name}");
        }
    }
    assert!(!is_hit(&get(&node, "/accept", "")) && is_hit(&get(&node, "/accept", "")));
}

#[test]
fn the_body_of_a_get_changes_nothing_for_others() {
    let origin = Origin::start(|request| fresh(request.split("\r\n\r\n").nth(1).unwrap_or_default()));
    let node = origin.behind_cache("{}", "");
    let fat = "GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nevil";
    assert_eq!(ask(node.gateway, fat).unwrap().body, "evil");
    let clean = get(&node, "/", "");
    assert_eq!((clean.body.as_str(), is_hit(&clean)), ("", false));
    // And what is stored is no answer to a request with a body.
    let again = ask(node.gateway, fat).unwrap();
    assert_eq!((again.body.as_str(), is_hit(&again)), ("evil", false));
    assert!(is_hit(&get(&node, "/", "")));
}

#[test]
fn spellings_of_a_path_are_targets_of_their_own() {
    let origin = Origin::start(|request| fresh(target(request)));
    let node = origin.behind_cache("{}", "");
    let spellings = [
        "/a/b",
        "/a%2fb",
        "//a/b",
        "/a/b/",
        "/a;x/b",
        "/a/b?",
        "/a/b?x=1",
        "/a/b?x=1&",
        "/A/b",
        "/%61/b",
        "/a\\b",
    ];
    for spelling in spellings {
        let answer = get(&node, spelling, "");
        assert!(
            answer.status == 400 || answer.body == spelling && !is_hit(&answer),
            "{spelling}: {answer:?}"
        );
    }
    for spelling in spellings {
        let answer = get(&node, spelling, "");
        assert!(answer.status == 400 || answer.body == spelling && is_hit(&answer), "{spelling}: {answer:?}");
    }
}

#[test]
fn query_parameters_that_make_no_difference_reach_neither_the_key_nor_the_server() {
    let origin = Origin::start(|request| fresh(target(request)));
    let node = origin.behind_cache("{ ignore_query = [\"utm_*\", \"fbclid\"] }", "");
    let table = [
        ("/a?utm_source=evil", "/a", false),
        ("/a", "/a", true),
        ("/a?fbclid=1&utm_x", "/a", true),
        ("/a?b=1&fbclid=2", "/a?b=1", false),
        ("/a?b=1", "/a?b=1", true),
        // Written in another way they make a difference, here and there.
        ("/a?utm%5fsource=evil", "/a?utm%5fsource=evil", false),
        // A server that also ends parameters with semicolons sees what the key has.
        ("/a?utm_source=1;c=evil", "/a", true),
        ("/a?c=1;utm_source=evil", "/a?c=1;utm_source=evil", false),
    ];
    for (asked, seen, hit) in table {
        let answer = get(&node, asked, "");
        assert_eq!((answer.body.as_str(), is_hit(&answer)), (seen, hit), "{asked}");
    }
    // A write to either forgets the one.
    assert_eq!(
        ask(node.gateway, "POST /a?fbclid=3 HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")
            .unwrap()
            .status,
        200
    );
    assert!(!is_hit(&get(&node, "/a?utm_y=1", "")));
}

#[test]
fn hosts_do_not_share_answers() {
    let origin = Origin::start(|request| fresh(&field(request, "host").unwrap_or_default()));
    let node = origin.behind_cache("{}", "");
    for host in ["a", "b", "a:8080", "a.", "b.a"] {
        let answer = ask(node.gateway, format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n")).unwrap();
        assert_eq!((answer.body.as_str(), is_hit(&answer)), (host, false));
    }
    let whole_uri = "GET http://b/ HTTP/1.1\r\nhost: b\r\n\r\n";
    let answer = ask(node.gateway, whole_uri).unwrap();
    assert_eq!((answer.body.as_str(), is_hit(&answer)), ("b", true));
}

#[test]
fn the_server_gets_the_host_as_it_is_in_the_key() {
    let origin = Origin::start(|request| {
        let host = field(request, "host").unwrap_or_default();
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            // Such servers know their names in one spelling, and send clients of others there.
            return whole(301, "cache-control: max-age=60\r\nlocation: /\r\n", "");
        }
        fresh(&host)
    });
    let node = origin.behind_cache("{}", "");
    let asked = |target: &str, host: &str| {
        ask(node.gateway, format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")).unwrap()
    };
    for (target, odd, usual) in [
        ("/name", "WWW.a", "www.a"),
        ("/port", "A:8080", "a:8080"),
        ("/dot", "A.", "a."),
        ("/usual", "a:80", "a"),
        ("/zeros", "a:0080", "a"),
        ("/address", "[::A]", "[::a]"),
        ("http://A/whole", "a", "a"),
        ("http://a/both", "A", "a"),
        ("http://a:80/whole-usual", "a", "a"),
    ] {
        let attack = asked(target, odd);
        assert_eq!((attack.status, attack.body.as_str(), is_hit(&attack)), (200, usual, false), "{target}");
        let path = target.trim_start_matches("http://").trim_start_matches(['A', 'a']);
        let victim = asked(path.trim_start_matches(":80"), usual);
        assert_eq!((victim.status, victim.body.as_str(), is_hit(&victim)), (200, usual, true), "{target}");
    }
    // Spellings of a host that are not rewritten are hosts of their own.
    for host in ["b", "b:443", "b.", "[::1]", "[0::1]"] {
        let answer = asked("/", host);
        assert_eq!((answer.body.as_str(), is_hit(&answer)), (host, false));
    }
}

#[test]
fn a_write_to_a_host_invalidates_it_however_its_usual_port_is_written() {
    let origin = Origin::start(|_| fresh("x"));
    let node = origin.behind_cache("{}", "");
    let asked = |method: &str, host: &str| {
        let request = format!("{method} /a HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\n\r\n");
        is_hit(&ask(node.gateway, request).unwrap())
    };
    for (reads, writes) in [("a", "a:80"), ("a:80", "A"), ("a:8080", "a:08080")] {
        asked("GET", reads);
        assert!(asked("GET", reads), "{reads}");
        asked("PUT", writes);
        assert!(!asked("GET", reads), "{writes} was written");
    }
}

#[test]
fn a_query_without_a_path_is_the_target_that_the_server_gets() {
    let origin = Origin::start(|request| fresh(target(request)));
    let node = origin.behind_cache("{}", "");
    let whole_uri = |method: &str| {
        ask(node.gateway, format!("{method} http://a?x=1 HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"))
            .unwrap()
    };
    assert_eq!(whole_uri("GET").body, "/?x=1");
    assert!(is_hit(&get(&node, "/?x=1", "")));
    assert_eq!(whole_uri("POST").status, 200);
    assert!(!is_hit(&get(&node, "/?x=1", "")), "the write was to this target");
}

#[test]
fn schemes_do_not_share_answers() {
    let origin = Origin::start(|request| fresh(&field(request, "x-forwarded-proto").unwrap_or_default()));
    let node = origin.behind_cache("{}", "trusted_proxies = [\"127.0.0.1\"]");
    for (hit, scheme) in [(false, "https"), (false, "http"), (true, "https"), (true, "http")] {
        let answer = get(&node, "/", &format!("x-forwarded-proto: {scheme}\r\n"));
        assert_eq!((answer.body.as_str(), is_hit(&answer)), (scheme, hit));
    }
}

#[test]
fn errors_that_an_odd_request_provokes_are_not_stored() {
    let origin = Origin::start(|request| {
        let is_odd = field(request, "x-odd").is_some();
        if is_odd { whole(400, "", "refused") } else { fresh("good") }
    });
    let node = origin.behind_cache("{ default_ttl = \"1m\" }", "");
    let odd = format!("x-odd: {}\r\n", "x".repeat(8000));
    assert_eq!(get(&node, "/", &odd).status, 400);
    assert_eq!(get(&node, "/", "").body, "good");
    for status in [400, 405, 414, 431, 500, 501, 503] {
        let origin = Origin::start(move |_| whole(status, "", "error"));
        let node = origin.behind_cache("{ default_ttl = \"1m\" }", "upstream.up.retry.max_tries = 1");
        for _ in 0..2 {
            assert!(!is_hit(&get(&node, "/", "")), "{status}");
        }
    }
}

#[test]
fn what_one_odd_request_is_told_is_not_stored_though_it_says_that_it_is_fresh() {
    // A server that adds the same freshness to everything, errors among it.
    let table = [
        ("x-odd: 400", "a header that the server cannot read"),
        ("x-odd: 401", "no credential"),
        ("x-odd: 406", "nothing that the client would accept"),
        ("x-odd: 413", "too large"),
        ("x-odd: 429", "too many"),
        ("x-odd: 431", "header fields too large"),
    ];
    let origin = Origin::start(|request| {
        let status = field(request, "x-odd").map_or(200, |value| value[..3].parse().unwrap());
        whole(status, "cache-control: public, max-age=60\r\n", if status == 200 { "good" } else { "refused" })
    });
    let node = origin.behind_cache("{}", "");
    for (at, (fields, why)) in table.into_iter().enumerate() {
        let path = format!("/{at}");
        let oversized = format!("{fields}{}\r\n", "x".repeat(8000));
        assert_eq!(get(&node, &path, &oversized).body, "refused", "{why}");
        assert_eq!(get(&node, &path, "").body, "good", "{why}");
        assert!(is_hit(&get(&node, &path, "")), "{why}");
    }
}

#[test]
fn a_part_of_a_response_has_no_digest_of_all_of_it() {
    let fields =
        "cache-control: max-age=60\r\ncontent-digest: sha-256=:whole:\r\nrepr-digest: sha-256=:whole:\r\n";
    let origin = Origin::start(move |_| whole(200, fields, "0123456789"));
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    let all = get(&node, "/", "");
    assert_eq!((all.header("content-digest"), is_hit(&all)), (Some("sha-256=:whole:"), true));
    let part = get(&node, "/", "range: bytes=2-3\r\n");
    assert_eq!((part.status, part.header("content-digest")), (206, None));
    assert_eq!(part.header("repr-digest"), Some("sha-256=:whole:"));
}

#[test]
fn a_name_that_looks_static_makes_nothing_public() {
    let table = [
        ("", "no freshness"),
        ("cache-control: private, max-age=60\r\n", "private"),
        ("cache-control: no-store\r\n", "no-store"),
        ("cache-control: max-age=60\r\nset-cookie: session=1\r\n", "sets a cookie"),
        (
            "last-modified: Tue, 14 Nov 2000 22:13:20 GMT\r\nset-cookie: session=1\r\n",
            "sets a cookie, heuristic",
        ),
    ];
    for (fields, why) in table {
        let origin = Origin::start(move |_| whole(200, fields, "secret"));
        let node = origin.behind_cache("{}", "");
        for path in ["/account/x.css", "/account%2fx.js", "/account;x.png"] {
            get(&node, path, "cookie: session=victim\r\n");
            assert!(!is_hit(&get(&node, path, "")), "{why} {path}");
        }
    }
}

#[test]
fn what_is_cut_off_is_not_stored() {
    let cut = [
        "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 10\r\nconnection: close\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nconnection: close\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n4\r\nhalf\r\n",
    ];
    for answer in cut {
        let origin = Origin::start(move |request| {
            if target(request).ends_with("whole") { fresh("all of it") } else { answer.to_owned() }
        });
        let node = origin.behind_cache("{}", "upstream.up.breaker = { consecutive = 0, error_rate = 0 }");
        for _ in 0..2 {
            // Whether a length was promised decides how it ends for this client; it is never stored.
            let asked = ask(node.gateway, "GET /cut HTTP/1.1\r\nhost: a\r\n\r\n");
            assert!(!asked.is_ok_and(|answer| is_hit(&answer)), "{answer}");
        }
        get(&node, "/whole", "");
        assert!(is_hit(&get(&node, "/whole", "")));
    }
}

#[test]
fn the_answer_to_a_head_is_not_stored_as_that_of_a_get() {
    let origin = Origin::start(|request| {
        if request.starts_with("HEAD") {
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 4\r\n\r\n".to_owned()
        } else {
            fresh("body")
        }
    });
    let node = origin.behind_cache("{}", "");
    let head = "HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let mut client = crate::support::Client::connect(node.gateway).unwrap();
    client.send_raw(head).unwrap();
    assert_eq!(client.receive_head().unwrap().status, 200);
    let answer = get(&node, "/", "");
    assert_eq!((answer.body.as_str(), is_hit(&answer)), ("body", false));
}

#[test]
fn a_write_forgets_its_own_target_and_no_other_hosts() {
    let origin = Origin::start(|request| {
        if request.starts_with("POST") {
            whole(200, "location: http://b/x\r\ncontent-location: //b/x\r\n", "")
        } else {
            fresh("x")
        }
    });
    let node = origin.behind_cache("{}", "");
    let ask_host = |method: &str, host: &str| {
        ask(node.gateway, format!("{method} /x HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\n\r\n"))
            .unwrap()
    };
    for host in ["a", "b"] {
        ask_host("GET", host);
        assert!(is_hit(&ask_host("GET", host)), "{host}");
    }
    ask_host("POST", "a");
    assert!(!is_hit(&ask_host("GET", "a")));
    assert!(is_hit(&ask_host("GET", "b")));
}

//! What one client's requests change in what is stored for all: updates, removals, and who waits for whom.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    cache_origin::{Origin, field, fresh, get, is_hit, target, whole},
    support::{Answer, Client, Flag, Node, eventually},
};

const CREDENTIAL: &str = "authorization: Basic eA==\r\n";
const RELOAD: &str = "cache-control: no-cache\r\n";

/// A server whose answers to somebody with a cookie or a credential have these fields, and others are fresh for a minute.
fn server(personal: &'static str) -> Origin {
    Origin::start(move |request| {
        let who = field(request, "cookie").or_else(|| field(request, "authorization"));
        let fields = match &who {
            Some(who) => format!("etag: \"1\"\r\n{personal}x-account: {who}\r\n"),
            None => "etag: \"1\"\r\ncache-control: max-age=60\r\n".to_owned(),
        };
        match field(request, "if-none-match") {
            Some(_) => format!("HTTP/1.1 304 X\r\n{fields}\r\n"),
            None => whole(200, &fields, "page"),
        }
    })
}

/// The head of the answer to a request with this method and these fields.
fn head_of(node: &Node, method: &str, fields: &str) -> Answer {
    let mut client = Client::connect(node.gateway).unwrap();
    client.send_raw(format!("{method} / HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).unwrap();
    client.receive_head().unwrap()
}

#[test]
fn an_update_for_one_client_does_not_become_what_others_get() {
    let cookie = "cookie: sid=victim\r\n";
    for (personal, credential) in [
        ("cache-control: max-age=60\r\nset-cookie: sid=fresh\r\n", cookie),
        ("cache-control: private, max-age=60\r\nset-cookie: sid=fresh\r\n", cookie),
        ("cache-control: no-store\r\n", cookie),
        ("cache-control: max-age=60\r\n", CREDENTIAL),
    ] {
        for method in ["GET", "HEAD"] {
            let origin = server(personal);
            let node = origin.behind_cache("{}", "");
            assert_eq!(get(&node, "/", "").body, "page");
            let own = head_of(&node, method, &format!("{credential}{RELOAD}"));
            assert_eq!((own.status, own.header("x-account").is_some()), (200, true), "{method} {personal}");
            let stranger = get(&node, "/", "");
            assert_eq!((stranger.status, stranger.body.as_str()), (200, "page"));
            for name in ["set-cookie", "x-account"] {
                assert_eq!(stranger.header(name), None, "{method} {personal}: {name}");
            }
        }
    }
}

#[test]
fn an_update_for_everybody_is_stored() {
    let origin = Origin::start(|request| {
        let fields = "etag: \"1\"\r\ncache-control: max-age=60\r\nx-count: ";
        match field(request, "if-none-match") {
            Some(_) => format!("HTTP/1.1 304 X\r\n{fields}2\r\n\r\n"),
            None => whole(200, &format!("{fields}1\r\n"), "page"),
        }
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    get(&node, "/", RELOAD);
    let after = get(&node, "/", "");
    assert_eq!((is_hit(&after), after.header("x-count"), after.body.as_str()), (true, Some("2"), "page"));
}

#[test]
fn a_credential_of_no_worth_removes_nothing_that_is_fresh() {
    let origin = Origin::start(|_| fresh("page"));
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    for _ in 0..3 {
        assert_eq!(get(&node, "/", &format!("{CREDENTIAL}{RELOAD}")).status, 200);
        assert!(is_hit(&get(&node, "/", "")));
    }
}

/// How many requests a server gets of forty clients that ask for a page at once, after this request.
fn crowd_after(settings: &str, fields: &str, crowd: &'static str) -> usize {
    let origin = Origin::start(|request| {
        if field(request, "x-crowd").is_some() {
            // Long enough for all of the crowd to be there: it waits for the first one's answer.
            thread::sleep(Duration::from_millis(300));
        }
        fresh("page")
    });
    let node = origin.behind_cache("{}", settings);
    assert_eq!(get(&node, "/", fields).status, 200);
    let (before, barrier) = (origin.count(), Arc::new(Barrier::new(40)));
    thread::scope(|scope| {
        for _ in 0..40 {
            let (node, barrier) = (&node, Arc::clone(&barrier));
            scope.spawn(move || {
                barrier.wait();
                assert_eq!(get(node, "/", &format!("x-crowd: 1\r\n{crowd}")).body, "page");
            });
        }
    });
    origin.count() - before
}

#[test]
fn one_request_that_cannot_be_stored_does_not_send_a_crowd_to_the_server() {
    let tenants = "tenant_from = [\"header:x-tenant\", \"ip\"]";
    let evil = format!("x-tenant: evil\r\n{CREDENTIAL}");
    for asked in [
        crowd_after("", CREDENTIAL, ""),
        crowd_after("", "cache-control: no-store\r\n", ""),
        crowd_after(tenants, &evil, "x-tenant: acme\r\n"),
    ] {
        // One that comes after the first one's answer was read, and before it is stored, may ask again.
        assert!(asked <= 4, "{asked} requests of 40 clients");
    }
}

#[test]
fn validations_in_the_background_take_slots() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, highest) = (Arc::clone(&running), Arc::clone(&most));
    let origin = Origin::start(move |request| {
        if field(request, "if-none-match").is_some() {
            highest.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(200));
            now.fetch_sub(1, Ordering::SeqCst);
        }
        whole(200, "etag: \"1\"\r\ncache-control: max-age=0, stale-while-revalidate=600\r\n", "page")
    });
    let node = origin.behind_cache("{}", "fair_queue.max_inflight = 2");
    for page in 0..20 {
        get(&node, &format!("/{page}"), "");
    }
    let before = origin.count();
    for page in 0..20 {
        assert!(is_hit(&get(&node, &format!("/{page}"), "")), "page {page}");
    }
    eventually("all are validated", || (origin.count() == before + 20).then_some(()));
    let most = most.load(Ordering::SeqCst);
    assert!((1..=2).contains(&most), "{most} at once at a server with 2 slots");
}

#[test]
fn a_tenant_whose_pages_are_validated_slowly_leaves_others_their_share() {
    let over = Arc::new(Flag::default());
    let held = Arc::clone(&over);
    let origin = Origin::start(move |request| {
        if field(request, "if-none-match").is_some() && target(request).starts_with("/evil") {
            eventually("the test is over", || held.is_set().then_some(()));
        }
        whole(200, "etag: \"1\"\r\ncache-control: max-age=0, stale-while-revalidate=600\r\n", "page")
    });
    let settings = "tenant_from = [\"header:x-tenant\", \"ip\"]\nfair_queue.max_inflight = 400\n";
    let node = origin.behind_cache("{}", settings);
    let _end = over.set_at_the_end();
    let evil = |page: usize| get(&node, &format!("/evil/{page}"), "x-tenant: evil\r\n");
    (0..100).for_each(|page| drop(evil(page)));
    get(&node, "/page", "x-tenant: acme\r\n");
    let before = origin.count();
    (0..100).for_each(|page| assert!(is_hit(&evil(page)), "page {page}"));
    origin.wait_for(before + 16);
    assert!(is_hit(&get(&node, "/page", "x-tenant: acme\r\n")));
    eventually("the other tenant's page is validated", || {
        let is_validation =
            |asked: &String| target(asked) == "/page" && field(asked, "if-none-match").is_some();
        origin.asked().iter().any(is_validation).then_some(())
    });
}

#[test]
fn a_tenant_does_not_push_the_pages_of_others_out() {
    let origin = Origin::start(|request| {
        let variant = field(request, "x-variant").unwrap_or_default();
        whole(200, "cache-control: max-age=60\r\nvary: x-variant\r\n", &variant)
    });
    let node = origin.behind_cache("{}", "tenant_from = [\"header:x-tenant\", \"ip\"]");
    let of = |tenant: usize| format!("x-tenant: t{tenant}\r\n");
    (0..40).for_each(|tenant| drop(get(&node, "/", &of(tenant))));
    for variant in 0..40 {
        get(&node, "/", &format!("x-tenant: evil\r\nx-variant: {variant}\r\n"));
    }
    let hits = (0..40).filter(|tenant| is_hit(&get(&node, "/", &of(*tenant)))).count();
    assert_eq!(hits, 40);
    let of_evil = (0..40)
        .filter(|variant| is_hit(&get(&node, "/", &format!("x-tenant: evil\r\nx-variant: {variant}\r\n"))));
    assert!(of_evil.count() <= 32, "one tenant has its share");
}

#[test]
fn errors_that_one_client_provokes_are_not_stored_for_all() {
    let origin = Origin::start(|request| {
        let says = "cache-control: max-age=60\r\n";
        if field(request, "if-match").is_some() || field(request, "if-unmodified-since").is_some() {
            return whole(412, says, "condition");
        }
        if field(request, "x-request-timeout-ms")
            .is_some_and(|millis| millis.parse::<u64>().unwrap() <= 5_000)
        {
            return whole(500, says, "too little time");
        }
        if field(request, "cookie").as_deref() == Some("broken") {
            return whole(400, says, "no such session");
        }
        if field(request, "authorization").is_some() {
            return whole(403, "cache-control: public, max-age=60\r\n", "not for you");
        }
        match target(request) {
            "/absent" => whole(404, says, "nothing"),
            "/part" => whole(200, &format!("{says}content-range: bytes 0-3/100\r\n"), "part"),
            _ => whole(200, says, "page"),
        }
    });
    let node = origin.behind_cache("{}", "");
    for (at, (fields, status)) in [
        ("if-match: \"x\"\r\n", 412),
        ("if-unmodified-since: Mon, 01 Jan 2001 00:00:00 GMT\r\n", 412),
        // It is asked for everybody who may want it, and the server is not told of one client's hurry.
        ("x-request-timeout-ms: 4000\r\n", 200),
        ("x-request-timeout-ms: 4000\r\nif-none-match: \"x\"\r\n", 500),
        ("cookie: broken\r\n", 400),
        ("authorization: Basic eDp4\r\n", 403),
    ]
    .iter()
    .enumerate()
    {
        let path = format!("/{at}");
        assert_eq!(get(&node, &path, fields).status, *status, "{fields}");
        let other = get(&node, &path, "");
        assert_eq!((other.status, other.body.as_str()), (200, "page"), "{fields}");
    }
    get(&node, "/part", "range: bytes=0-3\r\n");
    assert!(!is_hit(&get(&node, "/part", "")), "no part is taken for the whole");
    get(&node, "/absent", "cookie: a=b\r\n");
    assert!(is_hit(&get(&node, "/absent", "")), "that there is nothing is about the resource");
}

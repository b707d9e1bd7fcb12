//! Responses that may be meant for one visitor, and what others do to get them: wait beside the visitor, put up with what is
//! stale, or be in a hurry.

use std::{
    io::{BufRead, BufReader, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    cache_origin::{Origin, field, fresh, get, is_hit, whole},
    cache_sharing::Door,
    scripted_server,
    support::{Client, Node, UNLIMITED, eventually},
};

const RELOAD: &str = "cache-control: no-cache\r\n";

/// Who a request is from: its cookie, its key, or nobody.
fn visitor(request: &str) -> String {
    let names = ["cookie", "x-api-key", "authorization"];
    names.into_iter().find_map(|name| field(request, name)).unwrap_or_else(|| "nobody".to_owned())
}

/// What servers say of pages that are to be validated before each reuse, and by what visitors are told apart.
const NEVER_FRESH: [(&str, &str); 7] = [
    ("cache-control: max-age=0\r\n", "cookie"),
    ("cache-control: no-cache\r\n", "cookie"),
    ("expires: 0\r\n", "cookie"),
    ("cache-control: max-age=0, must-revalidate\r\n", "authorization"),
    ("cache-control: public, no-cache\r\n", "authorization"),
    ("cache-control: max-age=0\r\n", "x-api-key"),
    ("", "x-api-key"),
];

#[test]
fn a_response_that_may_not_be_reused_is_not_given_to_those_who_wait() {
    for (fields, name) in NEVER_FRESH {
        let (head, rest) = (Arc::new(Door::default()), Arc::new(Door::default()));
        let asked = Arc::<AtomicUsize>::default();
        let server = {
            let (head, rest, asked) = (Arc::clone(&head), Arc::clone(&rest), Arc::clone(&asked));
            scripted_server::start(move |stream| {
                let (mut reader, mut request) = (BufReader::new(stream), String::new());
                while !request.ends_with("\r\n\r\n") {
                    reader.read_line(&mut request)?;
                }
                asked.fetch_add(1, Ordering::SeqCst);
                head.pass();
                let whole = whole(200, &format!("etag: \"1\"\r\n{fields}"), &visitor(&request));
                let (first, last) = whole.split_at(whole.len() - 1);
                reader.get_mut().write_all(first.as_bytes())?;
                rest.pass();
                reader.get_mut().write_all(last.as_bytes())
            })
        };
        let node = Node::start(&format!(
            "{UNLIMITED}\nroute = [{{ path = \"/\", upstream = \"up\", cache = {{}} }}]\n\
             upstream.up.endpoints = [\"http://{server}\"]\n"
        ));
        let asked_of_server = |count| {
            eventually("the server is asked", || (asked.load(Ordering::SeqCst) >= count).then_some(()));
        };
        let ask_as = |who: &str| {
            let mut client = Client::connect(node.gateway).unwrap();
            client.send_raw(format!("GET / HTTP/1.1\r\nhost: a\r\n{name}: {who}\r\n\r\n")).unwrap();
            client
        };
        let mut alice = ask_as("alice");
        asked_of_server(1);
        let mut bob = ask_as("bob");
        eventually("bob waits", || (node.metric("gateway_cache_waiting{") == 2.0).then_some(()));
        head.open();
        // The first response is on its way, and not for bob.
        asked_of_server(2);
        rest.open();
        assert_eq!(alice.receive().unwrap().body, "alice", "{fields}{name}");
        assert_eq!(bob.receive().unwrap().body, "bob", "{fields}{name}");
    }
}

#[test]
fn a_stranger_does_not_get_what_was_never_fresh() {
    for (fields, name) in NEVER_FRESH {
        let door = Arc::new(Door::default());
        let waits = Arc::clone(&door);
        let origin = Origin::start(move |request| {
            if field(request, "x-slow").is_some() {
                waits.pass();
            }
            whole(200, &format!("etag: \"1\"\r\n{fields}"), &visitor(request))
        });
        let node = origin.behind_cache("{ grace = \"1m\" }", "");
        assert_eq!(get(&node, "/", &format!("{name}: alice\r\n")).body, "alice");
        for lenient in [
            "cache-control: max-stale\r\n",
            "cache-control: max-stale=100000, only-if-cached\r\n",
            "cache-control: stale-if-error=100000\r\nx-request-timeout-ms: 100\r\nx-slow: 1\r\n",
            "x-request-timeout-ms: 100\r\nx-slow: 1\r\n",
        ] {
            let stranger = get(&node, "/", lenient);
            assert_ne!(stranger.body, "alice", "{fields}{name}, {lenient}");
        }
        door.open();
    }
}

#[test]
fn a_client_in_a_hurry_does_not_get_a_stale_page_for_it() {
    let door = Arc::new(Door::default());
    let waits = Arc::clone(&door);
    let origin = Origin::start(move |request| {
        if field(request, "if-none-match").is_some() {
            waits.pass();
        }
        whole(200, "etag: \"1\"\r\ncache-control: max-age=60\r\nage: 60\r\n", "old")
    });
    let node = origin.behind_cache("{ grace = \"1m\" }", "");
    assert_eq!(get(&node, "/", "").body, "old");
    assert_eq!(get(&node, "/", "x-request-timeout-ms: 100\r\n").status, 504);
    door.open();
}

#[test]
fn what_one_visitor_is_told_removes_nothing() {
    let origin = Origin::start(|request| match visitor(request).as_str() {
        "nobody" => whole(200, "etag: \"1\"\r\ncache-control: max-age=60\r\n", "page"),
        _ => whole(200, "etag: \"2\"\r\ncache-control: private, no-store\r\n", "account"),
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    for name in ["cookie", "authorization"] {
        for method in ["GET", "HEAD"] {
            let mut client = Client::connect(node.gateway).unwrap();
            client.send_raw(format!("{method} / HTTP/1.1\r\nhost: a\r\n{name}: x\r\n{RELOAD}\r\n")).unwrap();
            assert_eq!(client.receive_head().unwrap().status, 200);
            assert!(is_hit(&get(&node, "/", "")), "{method} with {name}");
        }
    }
}

#[test]
fn an_error_that_one_client_provokes_does_not_send_a_crowd_to_the_server() {
    let door = Arc::new(Door::default());
    let waits = Arc::clone(&door);
    let origin = Origin::start(move |request| match field(request, "accept").as_deref() {
        Some("odd") => whole(406, "cache-control: no-store\r\n", "no"),
        _ => {
            waits.pass();
            fresh("page")
        }
    });
    let node = origin.behind_cache("{}", "");
    assert_eq!(get(&node, "/", "accept: odd\r\n").status, 406);
    let mut crowd: Vec<_> = (0..20).map(|_| Client::connect(node.gateway).unwrap()).collect();
    crowd.iter_mut().for_each(|client| client.send_raw("GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap());
    eventually("all wait for one", || (node.metric("gateway_cache_waiting{") == 20.0).then_some(()));
    door.open();
    crowd.iter_mut().for_each(|client| assert_eq!(client.receive().unwrap().body, "page"));
    assert_eq!(origin.count(), 2);
}

/// The table of tenants is full of strangers' names, and two tenants are left without entries of their own.
#[test]
fn tenants_without_entries_of_their_own_keep_their_names_and_responses() {
    let origin = Origin::start(|request| fresh(&field(request, "x-omnigate-tenant").unwrap_or_default()));
    let node = Node::start(&format!(
        "tenant_from = [\"header:x-tenant\"]\nquotas = {{ per_ip_rps = 0, burst = 200.0 }}\ndrr.rate_limit_rps = 1\n\
         fair_queue.max_tenants = 8\nroute = [{{ path = \"/\", upstream = \"up\", cache = {{}} }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        origin.addr
    ));
    for nth in 0..60 {
        get(&node, &format!("/{nth}"), &format!("x-tenant: stranger-{nth}\r\n"));
    }
    for name in ["alice", "bob"] {
        assert_eq!(get(&node, "/invoice", &format!("x-tenant: {name}\r\n")).body, name);
    }
}

#[test]
fn nobody_waits_for_a_visitor_for_whom_the_server_takes_its_time() {
    for name in ["cookie", "authorization"] {
        let door = Arc::new(Door::default());
        let waits = Arc::clone(&door);
        let origin = Origin::start(move |request| {
            if visitor(request) != "nobody" {
                waits.pass();
            }
            fresh("page")
        });
        let node = origin.behind_cache("{}", "");
        let mut slow = Client::connect(node.gateway).unwrap();
        slow.send_raw(format!("GET / HTTP/1.1\r\nhost: a\r\n{name}: x\r\n\r\n")).unwrap();
        origin.wait_for(1);
        assert_eq!(get(&node, "/", "").body, "page");
        door.open();
        assert_eq!(slow.receive().unwrap().body, "page");
    }
}

//! Who may see what is stored, and what one client's wishes cost the others.

use std::{
    sync::{Arc, Barrier, Condvar, Mutex},
    thread,
};

use crate::{
    cache_node::Lives,
    cache_origin::{Origin, field, fresh, get, is_hit, target, whole},
    support::{Client, Node, UNLIMITED, ask, eventually},
};

#[test]
fn answers_to_authorized_requests_are_shared_only_if_the_server_says_so() {
    let table = [
        ("max-age=60", false),
        ("max-age=60, public", true),
        ("s-maxage=60", true),
        ("max-age=60, must-revalidate", true),
    ];
    for (said, shared) in table {
        let origin = Origin::start(move |request| {
            let who = field(request, "authorization").unwrap_or_default();
            whole(200, &format!("cache-control: {said}\r\n"), &who)
        });
        let node = origin.behind_cache("{}", "");
        assert_eq!(get(&node, "/", "authorization: Basic victim\r\n").body, "Basic victim");
        assert_eq!(is_hit(&get(&node, "/", "")), shared, "{said}");
    }
}

#[test]
fn tenants_do_not_share_answers() {
    let origin = Origin::start(|request| {
        fresh(&field(request, "x-omnigate-tenant").unwrap_or_else(|| "nobody".to_owned()))
    });
    let node = origin.behind_cache("{}", "tenant_from = [\"header:x-tenant\", \"ip\"]");
    for tenant in ["acme", "umbrella", "nobody"] {
        let fields = if tenant == "nobody" { String::new() } else { format!("x-tenant: {tenant}\r\n") };
        let first = get(&node, "/", &fields);
        assert_eq!((first.body.as_str(), is_hit(&first)), (tenant, false));
        let second = get(&node, "/", &fields);
        assert_eq!((second.body.as_str(), is_hit(&second)), (tenant, true));
    }
}

#[test]
fn routes_do_not_share_answers() {
    let origin = Origin::start(|request| fresh(&field(request, "x-from").unwrap_or_default()));
    let node = Node::start(&format!(
        "{UNLIMITED}route = [\
            {{ path = \"/\", upstream = \"up\", cache = {{}}, request_headers = {{ set = {{ x-from = \"one\" }} }} }}, \
            {{ path = \"/\", headers = {{ x-beta = true }}, upstream = \"up\", cache = {{}}, \
               request_headers = {{ set = {{ x-from = \"two\" }} }} }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        origin.addr
    ));
    for (fields, expected) in [("", "one"), ("x-beta: 1\r\n", "two")] {
        assert_eq!(get(&node, "/", fields).body, expected);
        let second = get(&node, "/", fields);
        assert_eq!((second.body.as_str(), is_hit(&second)), (expected, true));
    }
}

#[test]
fn what_is_stored_is_given_only_to_whom_the_route_is_for() {
    let origin = Origin::start(|_| whole(200, "cache-control: max-age=60, public\r\n", "x"));
    let node = Node::start(&format!(
        "{UNLIMITED}route = [\
            {{ path = \"/near\", upstream = \"up\", cache = {{}}, allow_from = [\"127.0.0.1\"] }}, \
            {{ path = \"/known\", upstream = \"up\", cache = {{}}, auth = \"always\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        origin.addr
    ));
    get(&node, "/near", "");
    assert!(is_hit(&get(&node, "/near", "")));
    let stranger = Client::connect_from(9, node.gateway).unwrap().get("/near").unwrap();
    assert_eq!((stranger.status, is_hit(&stranger)), (403, false));
    assert_eq!(get(&node, "/known", "").status, 401);
}

#[test]
fn hits_count_against_rates() {
    let origin = Origin::start(|_| fresh("x"));
    let node = Node::start(&format!(
        "quotas = {{ per_ip_rps = 1, burst = 3.0 }}\n\
         route = [{{ path = \"/\", upstream = \"up\", cache = {{}} }}]\nupstream.up.endpoints = [\"http://{}\"]\n",
        origin.addr
    ));
    let statuses: Vec<u16> = (0..20).map(|_| get(&node, "/", "").status).collect();
    assert_eq!(statuses[0], 200);
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(origin.count(), 1);
}

/// A door that answers wait behind.
#[derive(Default)]
pub(crate) struct Door(Mutex<bool>, Condvar);

impl Door {
    pub(crate) fn pass(&self) {
        let mut open = self.0.lock().unwrap();
        while !*open {
            open = self.1.wait(open).unwrap();
        }
    }

    pub(crate) fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

#[test]
fn hits_need_no_slot() {
    let door = Arc::new(Door::default());
    let waits = Arc::clone(&door);
    let origin = Origin::start(move |request| {
        if target(request) == "/slow" {
            waits.pass();
        }
        fresh("x")
    });
    let node = origin.behind_cache("{}", "fair_queue.max_inflight = 1\nupstream.up.timeout = \"60s\"");
    get(&node, "/stored", "");
    let mut slow = Client::connect(node.gateway).unwrap();
    slow.send("/slow").unwrap();
    origin.wait_for(2);
    for _ in 0..10 {
        assert!(is_hit(&get(&node, "/stored", "")));
    }
    door.open();
    assert_eq!(slow.receive().unwrap().body, "x");
}

#[test]
fn requests_for_the_same_ask_the_server_once() {
    let door = Arc::new(Door::default());
    let waits = Arc::clone(&door);
    let origin = Origin::start(move |_| {
        waits.pass();
        fresh("shared")
    });
    let node = origin.behind_cache("{}", "");
    let mut clients: Vec<_> = (0..30).map(|_| Client::connect(node.gateway).unwrap()).collect();
    clients.iter_mut().for_each(|client| client.send("/").unwrap());
    origin.wait_for(1);
    door.open();
    for client in &mut clients {
        assert_eq!(client.receive().unwrap().body, "shared");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn nobody_waits_behind_what_cannot_be_stored() {
    let both = Arc::new(Barrier::new(2));
    let meets = Arc::clone(&both);
    let origin = Origin::start(move |request| {
        if field(request, "x-meet").is_some() {
            // Neither is answered before both have come.
            meets.wait();
        }
        whole(200, "cache-control: no-store\r\n", "own")
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    let gateway = node.gateway;
    let meet = move || ask(gateway, "GET / HTTP/1.1\r\nhost: a\r\nx-meet: 1\r\n\r\n").unwrap();
    let other = thread::spawn(meet);
    assert_eq!(meet().body, "own");
    assert_eq!(other.join().unwrap().body, "own");
}

#[test]
fn a_client_that_does_not_read_keeps_nobody_waiting() {
    let body = "x".repeat(4 << 20);
    let len = body.len();
    let origin = Origin::start(move |_| fresh(&body));
    let node = origin.behind_cache("{}", "");
    let mut stalled = Client::connect(node.gateway).unwrap();
    stalled.send_raw("GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    origin.wait_for(1);
    for _ in 0..3 {
        let answer = get(&node, "/", "");
        assert_eq!((answer.bytes.len(), origin.count()), (len, 1), "{:?}", answer.headers);
    }
    assert_eq!(stalled.receive().unwrap().bytes.len(), len);
}

#[test]
fn one_tenant_has_its_share_of_the_store_and_no_more() {
    let origin = Origin::start(|_| fresh(&"x".repeat(100_000)));
    for disk_bytes in ["0B", "4MiB"] {
        let settings = format!(
            "tenant_from = [\"header:x-tenant\", \"ip\"]\ncache = {{ max_bytes = \"4MiB\", disk_bytes = \"{disk_bytes}\", \
             max_object_bytes = \"256KiB\", tenant_percent = 25 }}"
        );
        let node = origin.behind_cache("{}", &settings);
        let ask_as = |tenant: &str, path: &str| get(&node, path, &format!("x-tenant: {tenant}\r\n"));
        ask_as("quiet", "/mine");
        for number in 0..100 {
            ask_as("loud", &format!("/{number}?{number}"));
        }
        assert!(is_hit(&ask_as("quiet", "/mine")), "another tenant cannot push it out");
        assert!(is_hit(&ask_as("loud", "/99?99")), "its newest is stored");
        assert!(!is_hit(&ask_as("loud", "/0?0")), "its oldest has made room");
    }
}

#[test]
fn long_urls_count_for_a_tenants_share_of_the_index() {
    /// What one tenant may have of the index, and the length of a URL.
    const SHARE: usize = (4 << 20) / 8 / 4;
    const URL: usize = 3900;
    let origin = Origin::start(|_| fresh("x"));
    let settings = "tenant_from = [\"header:x-tenant\", \"ip\"]\n\
                    cache = { max_bytes = \"4MiB\", max_object_bytes = \"256KiB\", tenant_percent = 25 }\n";
    let mut node = Lives::of(&origin, "{}", settings);
    let ask = |node: &Lives, number: usize| {
        node.get(&format!("/{number}/{}", "x".repeat(URL)), "x-tenant: loud\r\n")
    };
    // Those that a restart finds on the disk count as well.
    for numbers in [0..100, 100..120] {
        node.start();
        eventually("what is on the disk is found", || (node.cache("")["store"] == "disk").then_some(()));
        node.get("/quiet", "x-tenant: quiet\r\n");
        numbers.clone().for_each(|number| drop(ask(&node, number)));
        let newest_first = (0..numbers.end).rev();
        let stored = newest_first.take_while(|number| is_hit(&ask(&node, *number))).count();
        assert!(stored > 0 && stored * URL <= SHARE, "{stored} URLs of {URL} bytes");
        assert!(is_hit(&node.get("/quiet", "x-tenant: quiet\r\n")));
        node.stop();
    }
}

#[test]
fn what_was_asked_for_before_a_write_is_no_answer_after_it() {
    // The first answer is held back until the write has been answered.
    let (written, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(Some(wait));
    let version = std::sync::atomic::AtomicU64::new(0);
    let origin = Origin::start(move |request| {
        if request.starts_with("PUT") {
            version.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            return whole(200, "", "");
        }
        let seen = version.load(std::sync::atomic::Ordering::SeqCst);
        let first = wait.lock().unwrap().take();
        if let Some(wait) = first {
            let _ = wait.recv();
        }
        fresh(&seen.to_string())
    });
    let node = origin.behind_cache("{}", "");
    std::thread::scope(|scope| {
        let early = scope.spawn(|| get(&node, "/", ""));
        origin.wait_for(1);
        let put = ask(node.gateway, "PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").unwrap();
        assert_eq!(put.status, 200);
        let late = scope.spawn(|| get(&node, "/", ""));
        // It asks for itself; waiting for the first it would never be asked.
        origin.wait_for(3);
        written.send(()).unwrap();
        assert_eq!(late.join().unwrap().body, "1");
        assert_eq!(early.join().unwrap().body, "0");
    });
    assert_eq!(get(&node, "/", "").body, "1", "and is what is stored");
}

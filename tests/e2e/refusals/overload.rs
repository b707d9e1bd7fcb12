//! Requests that are refused for now: rates used up, a full waiting room, a node that stops.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{assert_refused, assert_refused_for_now};
use crate::support::{Answer, Client, Flag, Node, UNLIMITED, Upstream, eventually, get};

fn node(upstream: &Upstream, settings: &str) -> Node {
    Node::start(&format!(
        "{settings}\nroute = [{{ path = \"/\", upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ))
}

/// A node with this many slots and places to wait, where a header names the tenant.
fn small(upstream: &Upstream, slots: u32, waiting: u32) -> Node {
    let settings = format!(
        "{UNLIMITED}tenant_from = [\"header:x-tenant\"]\n\
         fair_queue = {{ max_inflight = {slots}, max_waiting = {waiting} }}\nupstream.up.timeout = \"30s\""
    );
    node(upstream, &settings)
}

/// A connection of a tenant that has asked and not read the answer yet.
fn asking(node: &Node, tenant: &str, path: &str) -> Client {
    let mut client = Client::connect(node.gateway).unwrap();
    client.send_raw(format!("GET {path} HTTP/1.1\r\nhost: a\r\nx-tenant: {tenant}\r\n\r\n")).unwrap();
    client
}

fn wait_until_waiting(node: &Node, requests: f64) {
    eventually("they wait", || {
        let depth = node.metric("queue_depth{node=\"omnigate\",service=\"gateway\",queue=\"work\"}");
        (depth >= requests).then_some(())
    });
}

#[test]
fn a_rate_that_is_used_up_says_when_it_is_not_and_keeps_its_word() {
    let upstream = Upstream::start();
    let node = node(&upstream, "quotas = { per_ip_rps = 2, burst = 2.0 }\ndrr.rate_limit_rps = 0");
    let mut client = Client::connect(node.gateway).unwrap();
    let answers: Vec<Answer> = (0..6).map(|_| client.get("/x").unwrap()).collect();
    let refused = answers.iter().position(|answer| answer.status == 429).expect("2 a second, 4 at once");
    assert!(refused >= 4, "{refused}");
    let wait = assert_refused_for_now("used up", &answers[refused], 429, "quota");
    assert!((1..=500).contains(&wait), "{wait}");
    assert_eq!(answers[refused].header("ratelimit-policy"), Some("\"client\";q=4;w=2"));
    let left = answers[refused].header("ratelimit").unwrap();
    assert!(left.starts_with("\"client\";r=0"), "{left}");
    assert!(answers[3].header("ratelimit").is_some(), "whoever has little left is told: {:?}", answers[3]);
    assert!(node.rejected("quota") >= 1.0);
    // Another address has its own.
    assert_eq!(Client::connect_from(2, node.gateway).unwrap().get("/x").unwrap().status, 200);
    let last = answers.last().unwrap();
    let wait = if last.status == 429 { assert_refused_for_now("again", last, 429, "quota") } else { 0 };
    thread::sleep(Duration::from_millis(wait));
    assert_eq!(client.get("/x").unwrap().status, 200);
}

#[test]
fn what_has_no_route_or_is_sent_elsewhere_is_taken_out_of_the_clients_rate_too() {
    let upstream = Upstream::start();
    let redirecting = crate::support::free_addr();
    let node = Node::start(&format!(
        "quotas = {{ per_ip_rps = 1, burst = 4.0 }}\nredirect_http = \"{redirecting}\"\n\
         route = [{{ path = \"/old\", redirect = {{ to = \"https://new.example\" }} }}, \
                  {{ path = \"/get\", methods = [\"GET\"], upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    let request = |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    for (from, to, request, usual) in [
        (2, node.gateway, request("GET", "/nowhere"), 404),
        (3, node.gateway, request("DELETE", "/get"), 405),
        (4, node.gateway, request("GET", "/old/x"), 308),
        (5, redirecting, request("GET", "/x"), 308),
    ] {
        let mut client = Client::connect_from(from, to).unwrap();
        let answers: Vec<Answer> = (0..10).map(|_| client.ask(&request).unwrap()).collect();
        let passed = answers.iter().filter(|answer| answer.status == usual).count();
        assert!((4..10).contains(&passed), "{request}: {passed} of 10");
        let refused = answers.iter().find(|answer| answer.status != usual).unwrap();
        assert_eq!((refused.status, refused.json()["reason"].as_str()), (429, Some("quota")), "{request}");
        assert!(refused.header("retry-after").is_some() && refused.header("allow").is_none(), "{refused:?}");
    }
    assert_eq!(upstream.arrived(), 0);
}

#[test]
fn the_rate_of_a_tenant_is_its_own_wherever_it_comes_from() {
    let upstream = Upstream::start();
    let settings = "tenant_from = [\"header:x-tenant\"]\nquotas = { per_ip_rps = 0, burst = 1.0 }\ndrr.rate_limit_rps = 1";
    let node = node(&upstream, settings);
    let ask = |from: u8, tenant: &str| {
        let mut client = Client::connect_from(from, node.gateway).unwrap();
        client.ask(format!("GET /x HTTP/1.1\r\nhost: a\r\nx-tenant: {tenant}\r\n\r\n")).unwrap()
    };
    assert_eq!(ask(2, "greedy").status, 200);
    let answer = ask(3, "greedy");
    assert_refused_for_now("from elsewhere", &answer, 429, "quota");
    assert!(answer.header("ratelimit").unwrap().starts_with("\"tenant\""), "{answer:?}");
    assert_eq!(ask(3, "modest").status, 200);
}

#[test]
fn a_tenant_that_fills_the_room_is_busy_and_is_shed_for_one_below_its_share() {
    let upstream = Upstream::start();
    let node = small(&upstream, 1, 2);
    let mut running = asking(&node, "greedy", "/wait/1500");
    upstream.wait_for(1);
    let mut oldest = asking(&node, "greedy", "/first");
    wait_until_waiting(&node, 1.0);
    let mut next = asking(&node, "greedy", "/second");
    wait_until_waiting(&node, 2.0);
    // Its share of the room is used up, whoever else waits.
    let mut more = asking(&node, "greedy", "/third");
    assert_refused_for_now("the third", &more.receive().unwrap(), 429, "busy");
    // Somebody else is below their share, so the oldest of those above makes place.
    let mut modest = asking(&node, "modest", "/modest");
    assert_refused_for_now("the oldest", &oldest.receive().unwrap(), 429, "shed");
    for (client, what) in [(&mut running, "/wait/1500"), (&mut modest, "/modest"), (&mut next, "/second")] {
        let answer = client.receive().unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, what));
    }
    assert_eq!((node.rejected("busy"), node.rejected("shed")), (1.0, 1.0));
    for (queue, refused) in [("work", 1.0), ("sched", 1.0)] {
        let dropped =
            format!("queue_dropped_total{{node=\"omnigate\",service=\"gateway\",queue=\"{queue}\"}}");
        assert_eq!(node.metric(&dropped), refused, "{queue}");
    }
    // Refused or not, nobody's connection ended.
    assert_eq!(oldest.get("/again").unwrap().status, 200);
}

#[test]
fn whoever_cannot_wait_for_a_slot_is_told_busy_in_time() {
    let upstream = Upstream::start();
    let node = small(&upstream, 1, 8);
    let mut running = asking(&node, "greedy", "/wait/1500");
    upstream.wait_for(1);
    let mut client = Client::connect(node.gateway).unwrap();
    let began = Instant::now();
    let answer = client
        .ask("GET /x HTTP/1.1\r\nhost: a\r\nx-tenant: hurried\r\nx-request-timeout-ms: 100\r\n\r\n")
        .unwrap();
    assert_refused_for_now("in a hurry", &answer, 429, "busy");
    assert!(began.elapsed() < Duration::from_millis(1400), "{:?}", began.elapsed());
    assert_eq!(running.receive().unwrap().status, 200);
    assert_eq!(upstream.arrived(), 1, "nothing is asked of the server for somebody who is gone");
}

/// 64 come at once where 4 + 8 fit; those who are refused come back when they were told to.
#[test]
fn those_who_come_back_when_told_to_are_admitted() {
    let upstream = Upstream::start();
    let node = small(&upstream, 4, 8);
    // The node learns how long these take.
    for _ in 0..20 {
        assert_eq!(asking(&node, "crowd", "/wait/20").receive().unwrap().status, 200);
    }
    let (mut refused, mut admitted) = (0, 0);
    thread::scope(|scope| {
        // All of them at once.
        let mut clients = Vec::new();
        clients.extend((0..64).map(|_| {
            scope.spawn(|| {
                let answer = asking(&node, "crowd", "/wait/20").receive().unwrap();
                if answer.status == 200 {
                    return None;
                }
                let wait = assert_refused_for_now("crowd", &answer, 429, "busy");
                thread::sleep(Duration::from_millis(wait));
                Some(asking(&node, "crowd", "/wait/20").receive().unwrap().status == 200)
            })
        }));
        for outcome in clients.into_iter().filter_map(|client| client.join().unwrap()) {
            refused += 1;
            admitted += usize::from(outcome);
        }
    });
    assert!(refused >= 40, "{refused}");
    assert!(admitted * 100 >= refused * 95, "{admitted} of {refused} were admitted");
}

#[test]
fn requests_that_wait_when_the_node_stops_are_told_so_and_those_in_flight_are_answered() {
    let upstream = Upstream::start();
    let mut node = small(&upstream, 1, 8);
    let mut running = asking(&node, "a", "/wait/800");
    upstream.wait_for(1);
    let mut waiting: Vec<_> = ["a", "b", "c"].map(|tenant| asking(&node, tenant, "/never")).into();
    wait_until_waiting(&node, 3.0);
    node.signal("TERM");
    for client in &mut waiting {
        let answer = client.receive().unwrap();
        assert_refused("waiting", &answer, 503, "draining");
        assert!(answer.closes);
        assert_eq!(client.wait_for_end().expect("FIN, not RST"), b"");
    }
    let answer = running.receive().unwrap();
    assert_eq!((answer.status, answer.closes), (200, true));
    assert_eq!(node.exit_code(), 0);
    assert_eq!(upstream.arrived(), 1);
}

#[test]
fn a_flood_of_strangers_does_not_make_our_own_services_busy() {
    let upstream = Upstream::start();
    let settings = format!(
        "{UNLIMITED}internal_from = [\"127.0.0.9\"]\nfair_queue = {{ max_inflight = 2, max_waiting = 8 }}"
    );
    let node = node(&upstream, &settings);
    let done = Flag::default();
    thread::scope(|scope| {
        let _done = done.set_at_the_end();
        for from in 10..42 {
            let (node, done) = (&node, &done);
            scope.spawn(move || {
                let mut client = Client::connect_from(from, node.gateway).unwrap();
                while !done.is_set() {
                    let status = client.get("/wait/10").unwrap().status;
                    assert!(status == 200 || status == 429, "{status}");
                }
            });
        }
        eventually("strangers are refused", || {
            (node.rejected("busy") + node.rejected("shed") > 50.0).then_some(())
        });
        let mut ours = Client::connect_from(9, node.gateway).unwrap();
        for _ in 0..50 {
            assert_eq!(ours.get("/wait/1").unwrap().status, 200);
        }
    });
    assert_eq!(get(node.admin, "/readyz").unwrap().status, 200, "a flood does not degrade the node");
}

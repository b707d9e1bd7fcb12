//! Requests that are refused for now: rates used up, a full waiting room, a node that stops.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{assert_refused, assert_refused_for_now};
use crate::support::{Answer, Client, Flag, Node, PATIENCE, UNLIMITED, Upstream, eventually, get};

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
         fair_queue = {{ max_inflight = {slots}, max_waiting = {waiting} }}"
    );
    node(upstream, &settings)
}

/// A connection of a tenant that has asked and not read the answer yet.
fn asking(node: &Node, tenant: &str, path: &str) -> Client {
    let mut client = Client::connect(node.gateway).unwrap();
    client.send_raw(format!("GET {path} HTTP/1.1\r\nhost: a\r\nx-tenant: {tenant}\r\n\r\n")).unwrap();
    client
}

/// Asks until it is refused for having asked too often, and gives all answers. A rate comes back while a machine stalls, so
/// how many it takes is not certain.
fn ask_until_refused(mut ask: impl FnMut() -> Answer) -> Vec<Answer> {
    let mut answers = vec![ask()];
    while answers.last().is_some_and(|answer| answer.status != 429) {
        assert!(answers.len() < 10_000, "so many requests were not too many");
        answers.push(ask());
    }
    answers
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
    let answers = ask_until_refused(|| client.get("/x").unwrap());
    let [passed @ .., last_passed, refused] = &answers[..] else { panic!("{answers:?}") };
    assert!(passed.len() >= 3, "2 a second, 4 at once: {answers:?}");
    let wait = assert_refused_for_now("used up", refused, 429, "quota");
    assert!((1..=500).contains(&wait), "{wait}");
    assert_eq!(refused.header("ratelimit-policy"), Some("\"client\";q=4;w=2"));
    let left = refused.header("ratelimit").unwrap();
    assert!(left.starts_with("\"client\";r=0"), "{left}");
    assert!(last_passed.header("ratelimit").is_some(), "whoever has little left is told: {last_passed:?}");
    assert!(node.rejected("quota") >= 1.0);
    // Another address has its own.
    assert_eq!(Client::connect_from(2, node.gateway).unwrap().get("/x").unwrap().status, 200);
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
        let answers = ask_until_refused(|| client.ask(&request).unwrap());
        let (refused, passed) = answers.split_last().unwrap();
        assert!(passed.len() >= 4, "{request}: {answers:?}");
        assert!(passed.iter().all(|answer| answer.status == usual), "{request}: {answers:?}");
        assert_eq!((refused.status, refused.json()["reason"].as_str()), (429, Some("quota")), "{request}");
        assert!(refused.header("retry-after").is_some() && refused.header("allow").is_none(), "{refused:?}");
    }
    assert_eq!(upstream.arrived(), 0);
}

#[test]
fn the_rate_of_a_tenant_is_its_own_wherever_it_comes_from() {
    let upstream = Upstream::start();
    let settings = "tenant_from = [\"header:x-tenant\"]\nquotas = { per_ip_rps = 0, burst = 30.0 }\ndrr.rate_limit_rps = 1";
    let node = node(&upstream, settings);
    let ask = |from: u8, tenant: &str| {
        let mut client = Client::connect_from(from, node.gateway).unwrap();
        client.ask(format!("GET /x HTTP/1.1\r\nhost: a\r\nx-tenant: {tenant}\r\n\r\n")).unwrap()
    };
    let began = Instant::now();
    let here = ask_until_refused(|| ask(2, "greedy")).len() - 1;
    assert!(here >= 30, "{here}");
    let elsewhere = ask_until_refused(|| ask(3, "greedy"));
    // One a second comes back, however long all of this took; with a rate of its own another address had 30 more.
    let most = 31.0 + began.elapsed().as_secs_f64();
    assert!(
        (here + elsewhere.len() - 1) as f64 <= most,
        "{here}, and {} from elsewhere",
        elsewhere.len() - 1
    );
    let refused = elsewhere.last().unwrap();
    assert_refused_for_now("from elsewhere", refused, 429, "quota");
    assert!(refused.header("ratelimit").unwrap().starts_with("\"tenant\""), "{refused:?}");
    assert_eq!(ask(3, "modest").status, 200);
}

#[test]
fn a_tenant_that_fills_the_room_is_busy_and_is_shed_for_one_below_its_share() {
    let upstream = Upstream::start();
    let node = small(&upstream, 1, 2);
    let mut running = asking(&node, "greedy", "/hold");
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
    upstream.release();
    for (client, what) in [(&mut running, "/hold"), (&mut modest, "/modest"), (&mut next, "/second")] {
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
    let mut running = asking(&node, "greedy", "/hold");
    upstream.wait_for(1);
    let mut client = Client::connect(node.gateway).unwrap();
    // It has its answer while the only slot is taken.
    let answer = client
        .ask("GET /x HTTP/1.1\r\nhost: a\r\nx-tenant: hurried\r\nx-request-timeout-ms: 500\r\n\r\n")
        .unwrap();
    assert_refused_for_now("in a hurry", &answer, 429, "busy");
    upstream.release();
    assert_eq!(running.receive().unwrap().status, 200);
    assert_eq!(upstream.arrived(), 1, "nothing is asked of the server for somebody who is gone");
}

/// How often somebody may be refused before they are served. On a virtual clock 19 of 20 are served when they come back for the
/// first time (`core/fairq/tests/suite/retry.rs`); here the machine may stall, and all take longer than the node has learnt.
const REFUSALS: usize = 10;

/// Asks until it is served, and comes back when it is told to. Says how often it was refused.
fn obedient(node: &Node) -> usize {
    for refusals in 0..=REFUSALS {
        let answer = asking(node, "crowd", "/wait/20").receive().unwrap();
        if answer.status == 200 {
            return refusals;
        }
        let wait = assert_refused_for_now("crowd", &answer, 429, "busy");
        thread::sleep(Duration::from_millis(wait));
    }
    panic!("refused {REFUSALS} times, and always came back when told to");
}

#[test]
fn those_who_come_back_when_told_to_are_served() {
    let upstream = Upstream::start();
    let node = small(&upstream, 4, 8);
    // The node learns how long these take.
    for _ in 0..20 {
        assert_eq!(asking(&node, "crowd", "/wait/20").receive().unwrap().status, 200);
    }
    // 64 at once, until some did not fit among 4 + 8.
    let (mut refusals, end) = (0, Instant::now() + PATIENCE);
    while refusals == 0 {
        assert!(Instant::now() < end, "nobody was refused");
        let crowd = thread::scope(|scope| {
            let clients: Vec<_> = (0..64).map(|_| scope.spawn(|| obedient(&node))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        refusals = crowd.iter().sum();
    }
    assert_eq!(node.rejected("busy"), refusals as f64, "each refusal is counted, once");
}

#[test]
fn requests_that_wait_when_the_node_stops_are_told_so_and_those_in_flight_are_answered() {
    let upstream = Upstream::start();
    let mut node = small(&upstream, 1, 8);
    let mut running = asking(&node, "a", "/hold");
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
    upstream.release();
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
    assert_eq!(get(node.admin, "/readyz/gateway").unwrap().status, 200, "a flood does not degrade it");
}

//! What a reload keeps: rates that are used up, breakers that are open, who waits and who has had their share.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use crate::support::{Client, Flag, Node, UNLIMITED, Upstream, eventually, get, listener_pid};

#[test]
fn a_reload_gives_nobody_a_new_allowance() {
    let upstream = Upstream::start();
    let settings = |max_conns: u32| {
        format!(
            "max_conns = {max_conns}\nquotas = {{ per_ip_rps = 1, burst = 60.0 }}\ndrr.rate_limit_rps = 0\n\
             route = [{{ path = \"/\", upstream = \"up\" }}]\nupstream.up.endpoints = [\"http://{}\"]\n",
            upstream.addr
        )
    };
    let node = Node::start(&settings(1000));
    let mut client = Client::connect(node.gateway).unwrap();
    let began = Instant::now();
    let mut is_admitted = || client.get("/x").unwrap().status == 200;
    let admitted = (0..10_000).take_while(|_| is_admitted()).count();
    assert!(admitted >= 60, "{admitted}");
    node.reload(&settings(1001));
    let again = (0..60).filter(|_| is_admitted()).count();
    // One a second comes back, however long all of this took.
    let most = 61.0 + began.elapsed().as_secs_f64();
    assert!(
        (admitted + again) as f64 <= most,
        "{admitted} and {again}: a new allowance would let 60 more pass"
    );
}

#[test]
fn a_reload_does_not_close_an_open_breaker() {
    let upstream = Upstream::start();
    let settings = |max_conns: u32| {
        format!(
            "{UNLIMITED}max_conns = {max_conns}\nroute = [{{ path = \"/\", upstream = \"up\" }}]\n\
             upstream.up = {{ endpoints = [\"http://{}\"], retry = {{ max_tries = 1 }}, \
                              breaker = {{ consecutive = 3, open_for = \"10m\" }} }}\n",
            upstream.addr
        )
    };
    let node = Node::start(&settings(1000));
    for _ in 0..3 {
        assert_eq!(get(node.gateway, "/reset").unwrap().status, 502);
    }
    let asked = upstream.arrived();
    node.reload(&settings(1001));
    assert_eq!(get(node.gateway, "/fine").unwrap().status, 502);
    assert_eq!(upstream.arrived(), asked, "the server is still left alone");
}

#[test]
fn a_reload_keeps_who_waits_and_more_slots_let_them_in() {
    let upstream = Upstream::start();
    let settings = |slots: u32| {
        format!(
            "{UNLIMITED}fair_queue = {{ max_inflight = {slots}, max_waiting = 64 }}\n\
             route = [{{ path = \"/\", upstream = \"up\" }}]\nupstream.up.endpoints = [\"http://{}\"]\n",
            upstream.addr
        )
    };
    let node = Node::start(&settings(1));
    let mut clients: Vec<_> = (0..6).map(|_| Client::connect(node.gateway).unwrap()).collect();
    clients.iter_mut().for_each(|client| client.send("/hold").unwrap());
    upstream.wait_for(1);
    // One client of which nothing is known gets half of the slots.
    node.reload(&settings(12));
    // The first one still has its slot, so the others got in by the new ones.
    upstream.wait_for(6);
    upstream.release();
    for client in &mut clients {
        assert_eq!(client.receive().unwrap().status, 200);
    }
    // Fewer slots take nothing from those who have one.
    clients.iter_mut().for_each(|client| client.send("/hold").unwrap());
    upstream.wait_for(12);
    node.reload(&settings(1));
    upstream.release();
    for client in &mut clients {
        assert_eq!(client.receive().unwrap().status, 200);
    }
}

/// Routes, weights, limits and slots change twenty times while twelve clients ask.
#[test]
fn reloads_under_load_fail_and_reset_nobody() {
    let upstreams = [Upstream::start(), Upstream::start()];
    let settings = |n: usize| {
        let [one, two] = upstreams.each_ref().map(|upstream| upstream.addr);
        format!(
            "{UNLIMITED}max_conns = {}\nlimits = {{ max_body_bytes = {} }}\n\
             tenant_from = [\"header:x-tenant\", \"ip\"]\ndrr.tenant_quanta = {{ a = {}, b = 2 }}\n\
             fair_queue = {{ max_inflight = {}, max_waiting = {}, weights = {{ anon = {} }} }}\n\
             route = [{{ path = \"/\", split = [{{ upstream = \"one\", weight = {} }}, {{ upstream = \"two\" }}] }}, \
                      {{ path = \"/r{}\", upstream = \"one\", strip_prefix = true }}]\n\
             upstream.one.endpoints = [\"http://{one}\"]\nupstream.two.endpoints = [\"http://{two}\"]\n\
             upstream.two.max_conns = {}\n",
            1000 + n,
            1_000_000 + n,
            1 + n % 5,
            2 + n % 7,
            200 + n,
            1 + n % 3,
            1 + n % 4,
            n % 3,
            64 + n,
        )
    };
    let node = Node::start(&settings(0));
    let (done, answered) = (Flag::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _done = done.set_at_the_end();
        for client in 0..12 {
            let (node, done, answered) = (&node, &done, &answered);
            scope.spawn(move || {
                let tenant = ["a", "b", "c"][client % 3];
                let mut kept = Client::connect(node.gateway).unwrap();
                while !done.is_set() {
                    let request = format!("GET /wait/2 HTTP/1.1\r\nhost: a\r\nx-tenant: {tenant}\r\n\r\n");
                    let answer = kept.ask(request).expect("no connection ends");
                    assert_eq!(answer.status, 200, "{answer:?}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for n in 1..=20 {
            let before = answered.load(Ordering::Relaxed);
            node.reload(&settings(n));
            eventually("requests are answered", || {
                (answered.load(Ordering::Relaxed) >= before + 24).then_some(())
            });
        }
    });
    assert_eq!(node.metric("config_update_total"), 20.0);
}

/// Waiting and running requests of an old process are answered by it, new ones by its successor.
#[test]
fn a_hand_over_under_load_with_a_short_queue_fails_nobody() {
    let upstream = Upstream::start();
    let mut node = Node::start(&format!(
        "{UNLIMITED}tenant_from = [\"header:x-tenant\"]\nfair_queue = {{ max_inflight = 3, max_waiting = 200 }}\n\
         route = [{{ path = \"/\", upstream = \"up\" }}]\nupstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    let (done, answered, gateway) = (Flag::default(), AtomicUsize::new(0), node.gateway);
    let successor = thread::scope(|scope| {
        let _done = done.set_at_the_end();
        for client in 0..12 {
            let (done, answered) = (&done, &answered);
            scope.spawn(move || {
                while !done.is_set() {
                    let mut fresh = Client::connect(gateway).unwrap();
                    let request = format!(
                        "GET /wait/5 HTTP/1.1\r\nhost: a\r\nx-tenant: t{client}\r\nconnection: close\r\n\r\n"
                    );
                    let answer = fresh.ask(request).expect("always somebody to answer");
                    assert_eq!(answer.status, 200, "{answer:?}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        upstream.wait_for(50);
        node.signal("USR2");
        assert_eq!(node.exit_code(), 0);
        let successor = eventually("the successor tells who it is", || listener_pid(node.admin.port()));
        let so_far = answered.load(Ordering::Relaxed);
        eventually("the successor answers", || {
            (answered.load(Ordering::Relaxed) > so_far + 50).then_some(())
        });
        successor
    });
    crate::support::signal(successor, "TERM");
    eventually("the successor is gone", || listener_pid(node.admin.port()).is_none().then_some(()));
}

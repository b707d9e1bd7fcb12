//! What gateways let pass together while their store is well.

use std::time::Instant;

use ron_transport::tls::testkit::TestCa;

use super::{BURST, LIFETIME, RATE, World, go_on, redis::Redis, settings, under_load, wait_until_healed};
use crate::support::{Client, Node, Upstream, eventually};

#[test]
fn three_gateways_let_pass_together_what_one_limit_allows() {
    let mut world = World::new(3);
    let (served, seconds) = under_load(&mut world, |_, _| go_on(6));
    let allowed = world.allowed(seconds, None, 0);
    println!("{served} served in {seconds:.1} s; {allowed:.0} are allowed");
    assert!(served as f64 <= allowed, "{served} in {seconds:.1} s where {allowed:.0} are allowed");
    // With a limit of its own, each of them would have let as much pass.
    assert!(served >= u64::from(BURST + RATE), "only {served} in {seconds:.1} s");
    let cut_off: f64 = world.gateways.iter().map(|node| node.metric("gateway_quota_cut_off_total{")).sum();
    println!("{cut_off} requests were judged without the store");
}

#[test]
fn a_gateway_alone_lets_pass_its_whole_burst_at_once() {
    let (redis, upstream) = (Redis::start(), Upstream::start());
    let node = Node::start(&settings(upstream.addr, &redis.url()));
    wait_until_healed(&node);
    let mut client = Client::connect(node.gateway).unwrap();
    for request in 1..=BURST {
        assert_eq!(client.get("/x").unwrap().status, 200, "request {request}");
    }
    // What is used up at one gateway is used up at another that starts later, once it has asked.
    let began = Instant::now();
    let other = Node::start(&settings(upstream.addr, &redis.url()));
    wait_until_healed(&other);
    let mut client = Client::connect(other.gateway).unwrap();
    let served = (0..100).filter(|_| client.get("/x").unwrap().status == 200).count();
    let came_back = f64::from(RATE) * (began.elapsed().as_secs_f64() + LIFETIME);
    assert!(served as f64 <= came_back + f64::from(BURST), "{served} where {came_back:.0} came back");
}

#[test]
fn each_kind_of_limit_has_a_key_of_its_own_that_expires() {
    let (redis, upstream) = (Redis::start(), Upstream::start());
    let node = Node::start(&format!(
        "quotas.store = \"{}/0\"\ntenant_from = [\"header:x-tenant\"]\n\
         route = [{{ path = \"/\", name = \"all\", upstream = \"up\", rate = {{ requests = 9, by = \"client\" }} }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        redis.url(),
        upstream.addr
    ));
    wait_until_healed(&node);
    let request = "GET /x HTTP/1.1\r\nhost: a\r\nx-tenant: acme\r\n\r\n";
    for key in ["client:127.0.0.1", "tenant:authed:acme", "route_client:127.0.0.1 all"]
        .map(|key| format!("omnigate:quota:{key}"))
    {
        eventually(&format!("the store has {key}"), || {
            let mut client = Client::connect(node.gateway).ok()?;
            client.ask(request).ok()?;
            let time = redis.call(&["PTTL", &key]).strip_prefix(':')?.parse::<i64>().ok()?;
            (time > 0).then_some(())
        });
        eventually(&format!("the store has forgotten {key}"), || {
            (redis.call(&["EXISTS", &key]) == ":0").then_some(())
        });
    }
}

#[test]
fn a_store_over_tls_with_a_user_and_a_password_is_used_and_the_password_is_shown_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let ca = TestCa::new("the server of the store");
    let server = ca.server(&["localhost", "127.0.0.1"]).write(dir.path(), "server");
    let ca_path = ca.write(dir.path(), "ca");
    let tls_port = crate::support::free_port();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let redis = Redis::start_with(&[
        "--tls-port",
        &tls_port.to_string(),
        "--tls-cert-file",
        &path(&server.cert_path),
        "--tls-key-file",
        &path(&server.key_path),
        "--tls-auth-clients",
        "no",
        "--user",
        "gate",
        "on",
        ">hunter2/@",
        "~omnigate:*",
        "+@all",
    ]);
    let upstream = Upstream::start();
    let store = format!("rediss://gate:hunter2%2F%40@127.0.0.1:{tls_port}/3");
    let node = Node::start(&format!(
        "quotas.store_ca_path = \"{}\"\n{}",
        path(&ca_path),
        settings(upstream.addr, &store)
    ));
    wait_until_healed(&node);
    let mut client = Client::connect(node.gateway).unwrap();
    assert_eq!(client.get("/x").unwrap().status, 200);
    eventually("the store has the limit", || {
        redis.call(&["INFO", "keyspace"]).contains("db3:keys=").then_some(())
    });
    let config = crate::support::get(node.admin, "/config").map(|answer| answer.body).unwrap_or_default();
    for shown in [config, node.log(), node.scrape()] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

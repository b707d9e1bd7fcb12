//! Many tenants: what each costs, and what those get for whom there is no more room.

use std::thread;

use crate::support::{Client, Node, Upstream};

const MANY: usize = 50_000;
/// The most memory that a tenant may cost, its allowance and its part of the books included.
const PER_TENANT: u64 = 2 * 1024;

fn node(upstream: &Upstream, settings: &str) -> Node {
    Node::start(&format!(
        "{settings}tenant_from = [\"header:x-tenant\"]\nroute = [{{ path = \"/\", upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ))
}

fn ask(client: &mut Client, tenant: &str) -> u16 {
    client.ask(format!("GET /x HTTP/1.1\r\nhost: a\r\nx-tenant: {tenant}\r\n\r\n")).unwrap().status
}

/// One request of each of these tenants, over four connections.
fn meet(node: &Node, first: usize, last: usize) {
    thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || {
                let mut client = Client::connect(node.gateway).unwrap();
                for tenant in (first..last).filter(|tenant| tenant % 4 == part) {
                    assert_eq!(ask(&mut client, &format!("tenant-{tenant}")), 200);
                }
            });
        }
    });
}

/// Only tenants that still owe something are remembered, so each gets one request a minute here.
const REMEMBERED: &str = "quotas = { per_ip_rps = 0, burst = 3600.0 }\ndrr.rate_limit_rps = 1\n";

#[test]
fn fifty_thousand_tenants_cost_little_each() {
    let upstream = Upstream::start();
    let node = node(&upstream, REMEMBERED);
    // What the first requests cost once is no cost of a tenant.
    meet(&node, 0, 1000);
    let before = node.resident_memory();
    meet(&node, 1000, 1000 + MANY);
    let each = (node.resident_memory().saturating_sub(before)) / MANY as u64;
    println!("{each} bytes for each of {MANY} tenants");
    assert!(each <= PER_TENANT, "{each} bytes for each of {MANY} tenants");
}

#[test]
fn tenants_beyond_the_most_that_are_remembered_share_one_allowance() {
    let upstream = Upstream::start();
    let settings =
        "quotas = { per_ip_rps = 0, burst = 200.0 }\ndrr.rate_limit_rps = 1\nfair_queue.max_tenants = 8\n";
    let node = node(&upstream, settings);
    let mut client = Client::connect(node.gateway).unwrap();
    // Each has 200 and uses 120, which is not forgotten for two minutes; so there is no more room.
    for tenant in 0..8 {
        for _ in 0..120 {
            assert_eq!(ask(&mut client, &format!("tenant-{tenant}")), 200);
        }
    }
    // Newcomers find none, and use up the 200 that all of them have together.
    let refused = (0..400).filter(|n| ask(&mut client, &format!("newcomer-{n}")) == 429).count();
    assert!(refused > 50, "{refused}");
    assert_eq!(node.rejected("quota"), refused as f64);
    assert_eq!(ask(&mut client, "tenant-0"), 200, "whoever is remembered has its own");
}

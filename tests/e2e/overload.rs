//! When there is too much for everybody the node says so and makes writes wait; when one tenant asks for too much it does
//! not.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::support::{Client, Flag, Node, PATIENCE, UNLIMITED, Upstream, eventually, get};

/// Two slots and four places to wait, where a header names the tenant.
fn node(upstream: &Upstream) -> Node {
    Node::start(&format!(
        "{UNLIMITED}tenant_from = [\"header:x-tenant\"]\n\
         fair_queue = {{ max_inflight = 2, max_waiting = 4 }}\n\
         route = [{{ path = \"/\", upstream = \"up\" }}]\nupstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ))
}

fn ask(client: &mut Client, method: &str, tenant: &str) -> u16 {
    let request =
        format!("{method} /wait/20 HTTP/1.1\r\nhost: a\r\nx-tenant: {tenant}\r\ncontent-length: 0\r\n\r\n");
    client.ask(request).unwrap().status
}

/// Runs `work` while twelve clients ask again and again, the n-th for the tenant that `name` says.
fn under_load(node: &Node, name: impl Fn(usize) -> String + Sync, work: impl FnOnce()) {
    let done = Flag::default();
    thread::scope(|scope| {
        let _done = done.set_at_the_end();
        for client in 0..12 {
            let (done, tenant) = (&done, name(client));
            scope.spawn(move || {
                let mut client = Client::connect(node.gateway).unwrap();
                while !done.is_set() {
                    let status = ask(&mut client, "GET", &tenant);
                    assert!(status == 200 || status == 429, "{status}");
                }
            });
        }
        work();
    });
}

fn refused(node: &Node) -> f64 {
    node.rejected("busy") + node.rejected("shed")
}

#[test]
fn writes_make_way_when_tenants_inside_their_share_are_refused_and_not_for_a_flood() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    // Of the gateway: that the machine stalled is told of the node.
    let readyz = || eventually("the node tells", || get(node.admin, "/readyz/gateway").ok());
    // Longer than it takes to notice an overload.
    under_load(
        &node,
        |_| "flood".to_owned(),
        || {
            let mut mouse = Client::connect(node.gateway).unwrap();
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(5) || refused(&node) <= 100.0 {
                assert_eq!(ask(&mut mouse, "POST", "mouse"), 200, "a flood is nobody else's concern");
                assert_eq!(readyz().status, 200);
                assert!(began.elapsed() < PATIENCE, "the flood was refused {} times", refused(&node));
            }
        },
    );
    under_load(
        &node,
        |client| format!("tenant-{client}"),
        || {
            let answer =
                eventually("the node says so", || Some(readyz()).filter(|answer| answer.status == 503));
            assert!(answer.body.contains("overload") && answer.body.contains("shed_writes"), "{answer:?}");
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
            let mut writer = Client::connect(node.gateway).unwrap();
            eventually("writes make way", || (ask(&mut writer, "POST", "writer") == 503).then_some(()));
            eventually("reads still work", || (ask(&mut writer, "GET", "writer") == 200).then_some(()));
        },
    );
    eventually("it is over", || (readyz().status == 200).then_some(()));
    assert_eq!(ask(&mut Client::connect(node.gateway).unwrap(), "POST", "writer"), 200);
}

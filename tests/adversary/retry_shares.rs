//! Retries are shared among tenants: one whose requests fail does not use up those of others.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use crate::{
    cache_origin::{field, target, whole},
    scripted_server::head_server,
    support::{Flag, Node, UNLIMITED, ask},
};

#[test]
fn a_tenant_whose_requests_fail_leaves_others_their_retries() {
    let seen = Arc::<Mutex<HashSet<String>>>::default();
    // Fails for the one always, and for the other the first time that it is asked for something.
    let server = head_server(move |request| {
        let is_evil = field(request, "x-omnigate-tenant").as_deref() == Some("evil");
        let is_known = !seen.lock().unwrap().insert(target(request).to_owned());
        if is_known && !is_evil { whole(200, "", "ok") } else { whole(503, "", "") }
    });
    let node = Node::start(&format!(
        "{UNLIMITED}tenant_from = [\"header:x-tenant\", \"ip\"]\nroute = [{{ path = \"/\", upstream = \"up\" }}]\n\
         upstream.up = {{ endpoints = [\"http://{server}\"], breaker = {{ consecutive = 0, error_rate = 0.0 }}, \
         eject = {{ consecutive = 0 }}, retry = {{ budget = 0.0, base = \"1ms\", cap = \"1ms\" }} }}\n"
    ));
    let get = |tenant: &str, path: &str| {
        ask(node.gateway, format!("GET {path} HTTP/1.1\r\nhost: a\r\nx-tenant: {tenant}\r\n\r\n")).unwrap()
    };
    let over = Flag::default();
    thread::scope(|s| {
        let _end = over.set_at_the_end();
        s.spawn(|| {
            while !over.is_set() {
                assert_eq!(get("evil", "/").status, 503);
            }
        });
        for nth in 0..6 {
            // Three retries a second are free.
            thread::park_timeout(Duration::from_millis(400));
            assert_eq!(get("acme", &format!("/{nth}")).status, 200, "request {nth}");
        }
    });
}

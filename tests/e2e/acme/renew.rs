//! Certificates are renewed ahead of their end, and put into force while the node serves.

use super::{Habits, World, fetch, kept, serial, told};
use crate::support::eventually;

#[test]
fn a_short_lived_certificate_is_renewed_while_it_serves_and_serves_on_without_the_ca() {
    let mut world = World::new(Habits { validity: 30, ..Habits::default() });
    let node = world.start(&world.settings(&["one.test"], "acme.challenge = \"tls-alpn-01\"\n"));
    world.wait_for("one.test");
    let first = serial(world.tls, "one.test").unwrap();
    let reloads = node.metric("config_update_total");
    let second =
        eventually("another certificate is shown", || serial(world.tls, "one.test").filter(|s| *s != first));
    assert_eq!(node.metric("config_update_total"), reloads, "nobody reloaded anything");
    let root = world.ca.root();
    world.ca.stop();
    let failed = super::wait_for_failure(&node, "one.test");
    assert_eq!(
        fetch(world.tls, "one.test", &root).as_deref(),
        Ok("/x"),
        "an outage of the CA changes nothing"
    );
    assert_eq!(serial(world.tls, "one.test"), Some(second));
    assert!(failed["next_attempt"].as_u64() > failed["expires"].as_u64().map(|_| 0));
    assert!(told(&node, "one.test")["last_error"].as_str().is_some_and(|error| error.contains("refused")));
}

#[test]
fn a_kept_certificate_that_is_damaged_is_replaced_and_the_others_are_served() {
    let world = World::new(Habits::default());
    let settings = |hosts: &[&str]| world.settings(hosts, "acme.challenge = \"tls-alpn-01\"\n");
    let node = world.start(&settings(&["one.test"]));
    world.wait_for("one.test");
    let first = serial(world.tls, "one.test").unwrap();
    std::fs::write(kept(&node).join("one.test.pem"), "damaged").unwrap();
    node.reload(&settings(&["one.test", "two.test"]));
    world.wait_for("two.test");
    world.wait_for("one.test");
    assert_ne!(serial(world.tls, "one.test"), Some(first));
}

//! The store goes away under load and comes back: requests are served, within what the formula allows.

use std::time::Instant;

use super::{Tally, World, go_on, under_load, wait_for_complaint, wait_until_healed};
use crate::support::eventually;

/// Has the store go away and come back under load, and holds what passed against the formula.
fn outage(
    complaint: &str,
    losses: u32,
    go_away: impl FnOnce(&mut World),
    come_back: impl FnOnce(&mut World),
) {
    let mut world = World::new(3);
    let mut cut_off = 0.0;
    let (served, seconds) = under_load(&mut world, |world, tallies| {
        go_on(3);
        let began = Instant::now();
        go_away(world);
        for gateway in &world.gateways {
            let said = wait_for_complaint(gateway, complaint);
            assert!(said.contains(&world.redis.url()), "{said}");
        }
        for tally in tallies {
            is_served(tally);
        }
        go_on(2);
        come_back(world);
        for gateway in &world.gateways {
            wait_until_healed(gateway);
        }
        cut_off = began.elapsed().as_secs_f64();
        go_on(2);
        for tally in tallies {
            is_served(tally);
        }
    });
    let allowed = world.allowed(seconds, Some(cut_off), losses);
    println!("{served} served in {seconds:.1} s, {cut_off:.1} s without the store; {allowed:.0} are allowed");
    assert!(served as f64 <= allowed, "{served} in {seconds:.1} s where {allowed:.0} are allowed");
    // It was all counted: how often the store was asked, and that requests went on without it.
    for gateway in &world.gateways {
        assert!(gateway.metric("gateway_quota_cut_off_total{") > 0.0);
        let asks = |result: &str| {
            gateway.metric(&format!(
                "gateway_quota_asks_total{{node=\"omnigate\",service=\"gateway\",result=\"{result}\"}}"
            ))
        };
        assert!(asks("granted") + asks("short") > 0.0);
    }
}

/// Waits until more requests of this gateway were served.
fn is_served(tally: &Tally) {
    let before = tally.served();
    eventually("requests are served", || (tally.served() > before + 3).then_some(()));
}

#[test]
fn a_store_that_is_killed_and_comes_back_empty_costs_no_request() {
    outage("refuses the connection", 1, |world| world.redis.kill(), |world| world.redis.start_again());
}

#[test]
fn a_store_that_is_stopped_and_goes_on_costs_no_request() {
    outage("did not answer", 0, |world| world.redis.signal("STOP"), |world| world.redis.signal("CONT"));
}

#[test]
fn a_store_whose_memory_is_full_costs_no_request() {
    outage(
        "OOM",
        0,
        |world| {
            world.redis.call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
            assert_eq!(world.redis.call(&["CONFIG", "SET", "maxmemory", "1"]), "+OK");
        },
        |world| {
            assert_eq!(world.redis.call(&["CONFIG", "SET", "maxmemory", "0"]), "+OK");
        },
    );
}

#[test]
fn a_store_that_forgets_everything_gives_out_one_more_burst() {
    let mut world = World::new(2);
    let (served, seconds) = under_load(&mut world, |world, _| {
        go_on(3);
        assert_eq!(world.redis.call(&["FLUSHALL"]), "+OK");
        // The scripts too: they are loaded again.
        assert_eq!(world.redis.call(&["SCRIPT", "FLUSH"]), "+OK");
        go_on(3);
        world.gateways.iter().for_each(wait_until_healed);
    });
    // Until the scripts are loaded again, the store does not answer.
    let allowed = world.allowed(seconds, Some(1.0), 1);
    assert!(served as f64 <= allowed, "{served} in {seconds:.1} s where {allowed:.0} are allowed");
}

#[test]
fn a_gateway_that_joins_and_is_killed_leaves_the_others_within_the_limit() {
    let mut world = World::new(2);
    let (served, seconds) = under_load(&mut world, |world, tallies| {
        go_on(2);
        let mut third =
            crate::support::Node::start(&super::settings(world.upstream.addr, &world.redis.url()));
        let mut client = crate::support::Client::connect(third.gateway).unwrap();
        assert!((0..5).any(|_| client.get("/x").unwrap().status == 200));
        third.kill();
        go_on(2);
        tallies.iter().for_each(is_served);
    });
    let allowed = world.allowed(seconds, None, 0);
    assert!(served as f64 <= allowed, "{served} in {seconds:.1} s where {allowed:.0} are allowed");
}

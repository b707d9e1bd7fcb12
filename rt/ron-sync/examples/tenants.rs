//! Speed and size of the fair queue with many tenants: `cargo run -p ron-sync --release --example tenants`.
//!
//! It stands here because pure crates read no clock.

use fairq::{Arrival, FairQueue, Settings};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};
use types::Moment;

const DISPATCHES: u32 = 2_000_000;
const SLOTS: u32 = 512;

fn main() {
    println!("{:>8} {:>8} {:>14} {:>16}", "tenants", "waiting", "dispatches/s", "bytes per tenant");
    for tenants in [10, 100, 1_000, 10_000, 50_000] {
        let before = resident();
        let mut queue = fill(tenants);
        let bytes = resident().saturating_sub(before) / tenants;
        let rate = f64::from(DISPATCHES) / dispatch(&mut queue, tenants).as_secs_f64();
        println!("{tenants:>8} {:>8} {rate:>14.0} {bytes:>16}", queue.depth());
    }
}

/// Two tickets of each tenant wait.
fn fill(tenants: usize) -> FairQueue<u64, usize> {
    let settings = Settings { slots: SLOTS, room: 4 * tenants, ..Settings::default() };
    let mut queue = FairQueue::new(settings, Moment::ORIGIN).expect("sound settings");
    for ticket in 0..2 * tenants {
        queue.push(arrival(ticket % tenants), ticket, ticket, Moment::ORIGIN);
    }
    queue
}

/// Each slot that is granted is returned 512 grants later, and its ticket waits again.
fn dispatch(queue: &mut FairQueue<u64, usize>, tenants: usize) -> Duration {
    let (mut running, mut now) = (VecDeque::new(), Moment::ORIGIN);
    let slots = (SLOTS as usize).min(tenants);
    let start = Instant::now();
    for _ in 0..DISPATCHES {
        now = now.after(Duration::from_micros(20));
        let grant = queue.pop(now).expect("somebody waits");
        running.push_back(grant);
        if running.len() >= slots {
            let grant = running.pop_front().expect("just pushed");
            queue.settle(grant.pass, now);
            queue.push(arrival(grant.ticket % tenants), grant.ticket, grant.ticket, now);
        }
    }
    start.elapsed()
}

fn arrival(tenant: usize) -> Arrival<u64> {
    let estimate = Duration::from_micros(5_000 + 100 * (tenant as u64 % 100));
    let weight = [1, 2, 3, 4][tenant % 4];
    Arrival {
        class: 0,
        tenant: tenant as u64,
        weight,
        slot_time: estimate.into(),
        extra_units: 0,
        slow: false,
        slots_held: 0,
    }
}

/// Resident bytes of this process.
#[expect(clippy::disallowed_methods, reason = "a program that measures itself, on no runtime")]
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

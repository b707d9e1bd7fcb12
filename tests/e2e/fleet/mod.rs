//! Gateways that share limits through Redis: what they let pass together, and what becomes of requests when the store is
//! killed, stopped, full, empty or wrong.

mod outages;
mod redis;
mod sharing;
mod wrong;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::support::{Client, Flag, Node, Upstream, eventually, get};
use redis::Redis;

/// The rate of the limit that is shared, a second, and its burst.
const RATE: u32 = 20;
const BURST: u32 = 20;
/// For how long leased requests may be used, in seconds.
const LIFETIME: f64 = 0.5;

/// `[gateway]` settings with one limit, of all clients together, that is counted at `store`.
fn settings(upstream: SocketAddr, store: &str) -> String {
    format!(
        "quotas.per_ip_rps = 0\ndrr.rate_limit_rps = 0\nquotas.store = \"{store}\"\n\
         route = [{{ path = \"/\", upstream = \"up\", \
         rate = {{ requests = {RATE}, per = \"1s\", burst = {BURST}, by = \"all\" }} }}]\n\
         upstream.up.endpoints = [\"http://{upstream}\"]\n"
    )
}

/// Several gateways in front of one server, with one store.
struct World {
    redis: Redis,
    gateways: Vec<Node>,
    upstream: Upstream,
}

impl World {
    fn new(gateways: usize) -> Self {
        let (redis, upstream) = (Redis::start(), Upstream::start());
        let settings = settings(upstream.addr, &redis.url());
        let gateways: Vec<_> = (0..gateways).map(|_| Node::start(&settings)).collect();
        let world = Self { redis, gateways, upstream };
        world.wait_until_all_know_all();
        world
    }

    fn wait_until_all_know_all(&self) {
        for gateway in &self.gateways {
            eventually("all gateways know each other", || {
                let known = gateway.metric("gateway_quota_gateways{");
                (known >= self.gateways.len() as f64 && is_up(gateway)).then_some(())
            });
        }
    }

    /// What the formula allows in so many seconds, of which the store did not answer for `cut_off`. Gateways that lose the
    /// store at the same time have shares that add up to about twice the rate.
    fn allowed(&self, seconds: f64, cut_off: Option<f64>, losses: u32) -> f64 {
        let (rate, burst) = (f64::from(RATE), f64::from(BURST));
        let credit = f64::from(BURST.div_ceil(u32::try_from(self.gateways.len()).unwrap()))
            * self.gateways.len() as f64;
        let without_store = cut_off.map_or(0.0, |seconds| credit + 2.2 * rate * seconds);
        burst + rate * (seconds + LIFETIME) + credit + without_store + burst * f64::from(losses)
    }
}

fn is_up(gateway: &Node) -> bool {
    gateway.metric("gateway_quota_store_up{") == 1.0
}

/// What a gateway says of the store; `None` if all is well.
fn complaint(gateway: &Node) -> Option<String> {
    let answer = get(gateway.admin, "/readyz/gateway").ok()?;
    assert_eq!(answer.status, 200, "a report takes nobody out of service");
    let conditions = answer.json()["conditions"].as_array()?.clone();
    let found = conditions.iter().find(|condition| condition["name"] == "quota_store")?;
    assert_eq!(found["effect"], "report");
    Some(found["reason"].as_str()?.to_owned())
}

#[track_caller]
fn wait_for_complaint(gateway: &Node, about: &str) -> String {
    eventually(&format!("the gateway says: {about}"), || {
        complaint(gateway).filter(|text| text.contains(about))
    })
}

#[track_caller]
fn wait_until_healed(gateway: &Node) {
    eventually("the store is used again", || (complaint(gateway).is_none() && is_up(gateway)).then_some(()));
}

/// What became of requests.
#[derive(Default)]
struct Tally {
    served: AtomicU64,
    refused: AtomicU64,
}

impl Tally {
    fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    #[track_caller]
    fn note(&self, status: u16) {
        match status {
            200 => self.served.fetch_add(1, Ordering::Relaxed),
            429 => self.refused.fetch_add(1, Ordering::Relaxed),
            other => panic!("a request was answered {other}"),
        };
    }
}

/// Sends requests far beyond the limit to each gateway while `meanwhile` runs, and says what became of them, by gateway,
/// and how many seconds it took.
fn under_load(world: &mut World, meanwhile: impl FnOnce(&mut World, &[Tally])) -> (u64, f64) {
    let addresses: Vec<_> = world.gateways.iter().map(|gateway| gateway.gateway).collect();
    let tallies: Vec<_> = addresses.iter().map(|_| Tally::default()).collect();
    let (over, began) = (Flag::default(), Instant::now());
    thread::scope(|scope| {
        let end = over.set_at_the_end();
        for (address, tally) in addresses.iter().zip(&tallies) {
            let over = &over;
            scope.spawn(move || {
                let mut client = Client::connect(*address).unwrap();
                while !over.is_set() {
                    tally.note(client.get("/x").unwrap().status);
                    // The pace of the load: some hundred requests a second, many times the limit.
                    thread::park_timeout(Duration::from_millis(3));
                }
            });
        }
        meanwhile(world, &tallies);
        drop(end);
    });
    (tallies.iter().map(Tally::served).sum(), began.elapsed().as_secs_f64())
}

/// Lets the load go on for a while.
fn go_on(seconds: u64) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        thread::park_timeout(Duration::from_millis(50));
    }
}

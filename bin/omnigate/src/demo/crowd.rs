//! The guests: who asks for what and how often, and how they fare.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ron_kernel::{Clock, Scope};
use types::{Deadline, Moment};

use super::{
    GUEST,
    script::{Node, ZOOM},
};
use crate::rig::{Answer, LoadConn, Pace};

/// How long a guest leaves a node alone that does not answer; it may just be starting, or ending.
const LEFT_ALONE: Duration = Duration::from_millis(200);
/// Timings that are kept between two looks; the guests who are timed are modest.
const TIMINGS: usize = 1000;
/// When the flood begins: first one sees how it is without.
const FLOOD_AFTER: Duration = Duration::from_secs(5);

/// Everybody who asks something.
#[derive(Debug)]
pub(super) struct Crowd {
    pub(super) guests: Vec<Arc<Guest>>,
    elsewhere: Vec<Arc<Guest>>,
}

/// One who asks, over several connections.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) name: &'static str,
    to: SocketAddr,
    /// The path of the `n`th request.
    path: fn(u64) -> String,
    rate: u32,
    conns: usize,
    begins_after: Duration,
    next: AtomicU64,
    seen: Mutex<Seen>,
}

/// What a guest saw since somebody looked.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) served: u64,
    pub(super) refused: u64,
    timings: Vec<Duration>,
}

impl Crowd {
    pub(super) fn new(nodes: &[Node; 3]) -> Self {
        let [places, north, south] = nodes.each_ref().map(|node| node.places);
        let modest = |name| Guest::new(name, places.gateway, |_| "/".to_owned(), 20, 8);
        let viewer = Guest::new("viewer", places.gateway, tile, 20, 4);
        let flood = Guest {
            begins_after: FLOOD_AFTER,
            ..Guest::new("flood", places.gateway, |_| "/".to_owned(), 1000, 700)
        };
        // They look at maps elsewhere, so that other nodes earn something; nobody has to watch them.
        let elsewhere = [Guest::new("n", north.edge, tile, 40, 2), Guest::new("s", south.edge, tile, 20, 2)];
        let guests = [modest("ada"), modest("bo"), modest("cy"), viewer, flood];
        Self { guests: guests.map(Arc::new).into(), elsewhere: elsewhere.map(Arc::new).into() }
    }

    /// Lets everybody in.
    pub(super) fn enter(&self, scope: &Scope) {
        let (clock, children) = (scope.clock(), scope.children(&GUEST));
        let Some(core) = scope.planes().cores().first() else { return };
        for guest in self.guests.iter().chain(&self.elsewhere) {
            let from = clock.now().after(guest.begins_after);
            for _ in 0..guest.conns {
                children.spawn_on(core, ask(Arc::clone(guest), clock, from));
            }
        }
    }
}

impl Guest {
    fn new(name: &'static str, to: SocketAddr, path: fn(u64) -> String, rate: u32, conns: usize) -> Self {
        let begins_after = Duration::ZERO;
        Self { name, to, path, rate, conns, begins_after, next: AtomicU64::new(0), seen: Mutex::default() }
    }

    /// Takes what was seen since the last look.
    pub(super) fn look(&self) -> Seen {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, took: Duration, answer: Answer) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match answer.status {
            200..=399 => {
                seen.served += 1;
                if seen.timings.len() < TIMINGS {
                    seen.timings.push(took);
                }
            }
            _ => seen.refused += 1,
        }
    }

    /// When the next request is due, and its bytes.
    fn next_request(&self, from: Moment) -> (Moment, String) {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let due = from.after(Duration::from_secs(1) / self.rate * u32::try_from(count).unwrap_or(u32::MAX));
        let (path, name) = ((self.path)(count), self.name);
        (due, format!("GET {path} HTTP/1.1\r\nhost: demo\r\nx-tenant: {name}\r\n\r\n"))
    }
}

impl Seen {
    /// What 99 of 100 were served within.
    pub(super) fn p99(&mut self) -> Option<Duration> {
        self.timings.sort_unstable();
        self.timings.get(self.timings.len().saturating_sub(1) * 99 / 100).copied()
    }
}

/// A tile somewhere in the demo's world.
fn tile(count: u64) -> String {
    let across = 1 << ZOOM;
    format!("/edge/tiles/world/{ZOOM}/{}/{}", count * 7 % across, count * 3 % across)
}

/// One connection's part of what a guest asks.
async fn ask(guest: Arc<Guest>, clock: Clock, from: Moment) {
    let mut conn = None;
    loop {
        let (due, request) = guest.next_request(from);
        pause(clock, Deadline::at(due)).await;
        let sent = clock.now();
        match exchange(&mut conn, guest.to, &request).await {
            Ok(answer) => guest.note(clock.now().since(sent), answer),
            Err(_) => {
                conn = None;
                pause(clock, clock.within(LEFT_ALONE)).await;
            }
        }
    }
}

async fn exchange(conn: &mut Option<LoadConn>, to: SocketAddr, request: &str) -> io::Result<Answer> {
    let mut open = match conn.take() {
        Some(open) => open,
        None => LoadConn::open(IpAddr::V4(Ipv4Addr::LOCALHOST), to).await?,
    };
    let answer = open.exchange(request.as_bytes(), Pace::Fast).await?;
    *conn = Some(open);
    Ok(answer)
}

pub(super) async fn pause(clock: Clock, until: Deadline) {
    let _ = clock.by(until, std::future::pending::<()>()).await;
}

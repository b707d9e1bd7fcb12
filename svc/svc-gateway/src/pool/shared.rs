//! Connections of one core to one server that carry many requests at once.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use ron_kernel::lock::{Ranked, RankedGuard};
use ron_transport::client::H2Conn;
use tokio::sync::Semaphore;
use types::Moment;

use super::{Link, places::Places};
use crate::locks;

/// Requests at once that the connections of one core to a server have room for: four connections of a hundred requests, more
/// connections if the server takes fewer requests on each. When all are full, requests wait for a place on one of them.
const MAX_PLACES: usize = 400;

/// Connections per core to a server that takes so many requests at once on each.
pub(crate) const fn most_shared(places: usize) -> usize {
    MAX_PLACES.div_ceil(if places == 0 { 1 } else { places })
}

/// What the server speaks, once that is known.
const UNKNOWN: u8 = 0;
const ONE_AT_A_TIME: u8 = 1;
const MANY_AT_ONCE: u8 = 2;

/// The shared HTTP/2 connections of a core.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Nothing is locked under it.
    conns: Ranked<Vec<Lent>>,
    speaks: AtomicU8,
    /// One connection is opened at a time: the others who need one find room on it.
    opening: Semaphore,
}

/// A connection in use by any number of requests.
#[derive(Clone, Debug)]
pub(crate) struct Lent {
    pub(crate) conn: H2Conn,
    pub(crate) link: Arc<Link>,
    pub(crate) places: Arc<Places>,
    used: Moment,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            conns: Ranked::new(&locks::POOL_SHARED, Vec::new()),
            speaks: AtomicU8::new(UNKNOWN),
            opening: Semaphore::new(1),
        }
    }
}

impl Shared {
    /// Whether the server is known to take one request at a time.
    pub(crate) fn is_ruled_out(&self) -> bool {
        self.speaks.load(Ordering::Relaxed) == ONE_AT_A_TIME
    }

    /// Learns what the server speaks.
    pub(crate) fn learn(&self, many_at_once: bool) {
        let speaks = if many_at_once { MANY_AT_ONCE } else { ONE_AT_A_TIME };
        self.speaks.store(speaks, Ordering::Relaxed);
    }

    /// Waits for the right to open a connection.
    ///
    /// Cancel safe.
    pub(crate) async fn opening(&self) -> impl Drop {
        self.opening.acquire().await.expect("it is never closed")
    }

    /// A connection with room for a request; when there may be no more of them, the one with the fewest requests.
    pub(crate) fn find(&self, now: Moment) -> Option<Lent> {
        let mut conns = self.conns();
        let dead: Vec<Lent> = conns.extract_if(.., |held| !held.conn.is_alive()).collect();
        // A new connection has yet to hear what its server takes, which the others know.
        let places = conns.iter().map(|held| held.conn.most_in_flight()).min().unwrap_or(0);
        let roomy = conns.iter_mut().find(|held| held.conn.in_flight() < places);
        let found = roomy.map(|held| held.lend(now));
        let found = found.or_else(|| {
            let fullest_allowed = conns.len() >= most_shared(places);
            conns.iter_mut().filter(|_| fullest_allowed).min_by_key(|held| held.load()).map(|h| h.lend(now))
        });
        drop(conns);
        close(dead);
        found
    }

    /// How many requests one of the connections takes at once, by our limit and the server's; `None` without a connection.
    pub(crate) fn places_per_conn(&self) -> Option<usize> {
        self.conns().iter().map(|held| held.conn.most_in_flight()).min()
    }

    /// Requests that wait for a place on one of the connections.
    pub(crate) fn waiting(&self) -> usize {
        self.conns().iter().map(|held| held.places.waiting()).sum()
    }

    /// Any connection that is alive, for another core that may open none.
    pub(crate) fn any(&self, now: Moment) -> Option<Lent> {
        let mut conns = self.conns();
        let alive = conns.iter_mut().filter(|held| held.conn.is_alive());
        alive.min_by_key(|held| held.load()).map(|held| held.lend(now))
    }

    /// Takes in a new connection.
    pub(crate) fn add(&self, conn: H2Conn, link: Arc<Link>, now: Moment) -> Lent {
        let held = Lent { conn, link, places: Places::new(), used: now };
        self.conns().push(held.clone());
        held.link.rests();
        held
    }

    /// Closes those that nobody has used for `max_age`, and those that the server has closed.
    pub(super) fn sweep(&self, now: Moment, max_age: std::time::Duration) {
        let is_over = |held: &mut Lent| {
            !held.conn.is_alive() || held.conn.in_flight() == 0 && now.since(held.used) >= max_age
        };
        let over: Vec<Lent> = self.conns().extract_if(.., is_over).collect();
        close(over);
    }

    fn conns(&self) -> RankedGuard<'_, Vec<Lent>> {
        self.conns.lock()
    }
}

impl Lent {
    /// Requests on the connection, and those that wait for a place there.
    fn load(&self) -> usize {
        self.conn.in_flight() + self.places.waiting()
    }

    fn lend(&mut self, now: Moment) -> Self {
        self.used = now;
        self.clone()
    }
}

/// Their seats come free with the last request on them.
fn close(conns: Vec<Lent>) {
    conns.iter().for_each(|held| held.link.works());
    drop(conns);
}

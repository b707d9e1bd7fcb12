//! How many connections may be open: in all, and per client, and whose idle one goes when all places are taken.
//!
//! The bookkeeping is bounded by construction: a client has an entry only while it holds a permit, and there are
//! about `max_total` permits.

mod held;

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ron_kernel::lock::{Ranked, RankedGuard};
use tokio::sync::Notify;

use crate::{locks, stream::Peer};
use held::Held;

/// The key by which the connections of one client are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClientKey {
    /// A client with an IPv4 address.
    V4(Ipv4Addr),
    /// The upper 64 bits of an IPv6 address: a /64 is what one customer gets.
    V6Net(u64),
    /// Everybody who comes over a Unix socket; no cap per client, since a local proxy speaks for many.
    Unix,
    /// A trusted proxy, whose PROXY header has not yet said who the client is, or who names a client with each request; no cap
    /// per client. See [`ConnPermit::rekey`].
    TrustedProxy,
    /// A client the system did not name; all such are one.
    Unknown,
}

impl ClientKey {
    /// The client behind an accepted connection.
    #[must_use]
    pub fn of(peer: &Peer) -> Self {
        match peer.addr {
            Some(addr) => addr.ip().into(),
            None if peer.unix => Self::Unix,
            None => Self::Unknown,
        }
    }

    fn is_capped(self) -> bool {
        !matches!(self, Self::Unix | Self::TrustedProxy)
    }
}

impl From<IpAddr> for ClientKey {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip),
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, h, ..] = ip.octets();
                Self::V6Net(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
            }
        }
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(ip) => ip.fmt(f),
            Self::V6Net(net) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*net) << 64)),
            Self::Unix => f.write_str("unix"),
            Self::TrustedProxy => f.write_str("trusted proxy"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Why a connection was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CapError {
    /// The total limit of connections is reached.
    #[error("all {limit} connections are taken")]
    Total {
        /// The cap that was met.
        limit: usize,
    },
    /// This client holds its share. Reported before [`Total`](Self::Total), so that nobody else's connection is
    /// given up for a client that may not have more.
    #[error("this client already holds {limit} connections")]
    PerClient {
        /// The cap that was met.
        limit: usize,
    },
}

/// The caps and who holds what; clones share them.
#[derive(Clone, Debug)]
pub struct ConnCaps {
    shared: Arc<Shared>,
}

/// The right to one open connection, given back on drop.
#[derive(Debug)]
#[must_use = "dropping the permit gives the connection's place away"]
pub struct ConnPermit {
    shared: Arc<Shared>,
    client: ClientKey,
    /// Whether a newcomer has the place already.
    given_away: bool,
    /// By which number it gives way to newcomers, and how it is told; `None` if it does not.
    gives_way: Option<(u64, Arc<Notify>)>,
}

/// A connection that only waits for its client's next request. Its place may go to a newcomer: it is told so by
/// [`evicted`](Self::evicted), and answers with [`give_up`](Self::give_up).
///
/// Dropped otherwise, it is no longer parked. If its place is gone by then it has one nevertheless, because a request has
/// come in that will not be refused; so for a moment there may be more connections than the cap allows.
#[derive(Debug)]
pub struct Parked<'a> {
    permit: &'a mut ConnPermit,
    id: u64,
    told: Arc<Notify>,
}

/// The state of the connection limits, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapStats {
    /// Number of permits that are held now.
    pub open: usize,
    /// Clients that hold at least one.
    pub clients: usize,
    /// Number of permits that were ever granted.
    pub admitted_total: u64,
    /// Refusals because all connections were taken.
    pub refused_total_cap: u64,
    /// Refusals because the client held its share.
    pub refused_client_cap: u64,
    /// Parked connections that made room for a newcomer.
    pub evicted_total: u64,
}

#[derive(Debug)]
struct Shared {
    held: Ranked<Held>,
    admitted: AtomicU64,
    refused_total_cap: AtomicU64,
    refused_client_cap: AtomicU64,
    evicted: AtomicU64,
}

impl ConnCaps {
    /// Caps of `max_total` connections, `max_per_client` of them for one client.
    #[must_use]
    pub fn new(max_total: usize, max_per_client: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                held: Ranked::new(&locks::CONNECTION_CAPS, Held::new(max_total, max_per_client)),
                admitted: AtomicU64::new(0),
                refused_total_cap: AtomicU64::new(0),
                refused_client_cap: AtomicU64::new(0),
                evicted: AtomicU64::new(0),
            }),
        }
    }

    /// Caps of `max_total` connections, [a quarter](Self::default_per_client) of them for one client.
    #[must_use]
    pub fn with_default_share(max_total: usize) -> Self {
        Self::new(max_total, Self::default_per_client(max_total))
    }

    /// A quarter of the total, at least 1: three greedy clients leave room for the others.
    #[must_use]
    pub const fn default_per_client(max_total: usize) -> usize {
        if max_total < 4 { 1 } else { max_total / 4 }
    }

    /// Admits one more connection of `client`, or says which cap forbids it. Never waits for a connection to end.
    ///
    /// When all places are taken, a [parked](ConnPermit::park) connection gives up its place: of the clients that have
    /// one, the client that holds the most connections loses the one that has been parked the longest. A client that
    /// holds its share loses one of its own. If none is parked, or only those of clients with few connections are, the client
    /// that holds the most loses the one it opened last, if that [gives way](ConnPermit::give_way) and the newcomer's client
    /// has fewer.
    ///
    /// # Errors
    /// [`CapError`], counted.
    pub fn try_admit(&self, client: ClientKey) -> Result<ConnPermit, CapError> {
        let mut held = self.shared.held();
        let room = held.make_room_for(client);
        let evicted = self.shared.counted(room)?;
        held.add(client);
        drop(held);
        self.shared.admitted.fetch_add(1, Ordering::Relaxed);
        if let Some(evicted) = evicted {
            self.shared.evicted.fetch_add(1, Ordering::Relaxed);
            evicted.notify_one();
        }
        Ok(ConnPermit { shared: Arc::clone(&self.shared), client, given_away: false, gives_way: None })
    }

    /// Changes the caps at once. Permits already given stay valid; a lower cap refuses newcomers until enough
    /// have ended.
    pub fn set_limits(&self, max_total: usize, max_per_client: usize) {
        let mut held = self.shared.held();
        held.set_limits(max_total, max_per_client);
    }

    /// Returns the number of permits that are held now.
    #[must_use]
    pub fn total(&self) -> usize {
        self.shared.held().open()
    }

    /// The client with the most permits and their number; among equals any one.
    #[must_use]
    pub fn largest_holder(&self) -> Option<(ClientKey, usize)> {
        self.shared.held().largest()
    }

    /// Permits held by one client.
    #[must_use]
    pub fn held_by(&self, client: ClientKey) -> usize {
        self.shared.held().count(client)
    }

    /// Returns the state of the limits, for metrics.
    #[must_use]
    pub fn stats(&self) -> CapStats {
        let held = self.shared.held();
        CapStats {
            open: held.open(),
            clients: held.clients(),
            admitted_total: self.shared.admitted.load(Ordering::Relaxed),
            refused_total_cap: self.shared.refused_total_cap.load(Ordering::Relaxed),
            refused_client_cap: self.shared.refused_client_cap.load(Ordering::Relaxed),
            evicted_total: self.shared.evicted.load(Ordering::Relaxed),
        }
    }
}

impl ConnPermit {
    /// On whose account the connection is.
    #[must_use]
    pub fn client(&self) -> ClientKey {
        self.client
    }

    /// Books the connection on another account, once a trusted proxy has told who the client is.
    ///
    /// # Errors
    /// [`CapError::PerClient`], counted, if that client holds its share; the permit then stays as it was.
    pub fn rekey(&mut self, client: ClientKey) -> Result<(), CapError> {
        if client == self.client {
            return Ok(());
        }
        let mut held = self.shared.held();
        self.shared.counted(held.check_client(client))?;
        held.remove(self.client);
        held.add(client);
        // Nobody takes the place of a connection without a client.
        if let Some((id, told)) = &self.gives_way
            && held.give_way_no_more(self.client, *id)
        {
            held.give_way(client, *id, Arc::clone(told));
        }
        drop(held);
        self.client = client;
        Ok(())
    }
}

impl ConnPermit {
    /// Lets a newcomer have the connection's place, whatever it is doing, if all places are taken and its client holds the
    /// most. The connection has to end when the returned signal comes.
    pub fn give_way(&mut self) -> Arc<Notify> {
        let told = Arc::new(Notify::new());
        let mut held = self.shared.held();
        let id = held.next_id();
        held.give_way(self.client, id, Arc::clone(&told));
        drop(held);
        self.gives_way = Some((id, Arc::clone(&told)));
        told
    }

    /// Marks the connection as one that only waits, until the returned guard goes.
    #[must_use = "dropping the guard ends the parking"]
    pub fn park(&mut self) -> Parked<'_> {
        let told = Arc::new(Notify::new());
        let mut held = self.shared.held();
        // While it is parked, it is not among those that give way otherwise.
        if let Some((id, _)) = &self.gives_way {
            self.given_away = !held.give_way_no_more(self.client, *id);
        }
        let id = if self.given_away { u64::MAX } else { held.park(self.client, Arc::clone(&told)) };
        drop(held);
        Parked { permit: self, id, told }
    }
}

impl Drop for ConnPermit {
    fn drop(&mut self) {
        if self.given_away {
            return;
        }
        let mut held = self.shared.held();
        let has_place = self.gives_way.as_ref().is_none_or(|(id, _)| held.give_way_no_more(self.client, *id));
        if has_place {
            held.remove(self.client);
        }
    }
}

impl Parked<'_> {
    /// Resolves when a newcomer has taken the place.
    ///
    /// Cancel safe.
    pub async fn evicted(&self) {
        self.told.notified().await;
    }

    /// Leaves the place to the newcomer.
    pub fn give_up(self) {
        self.permit.given_away = !self.permit.shared.held().is_parked(self.permit.client, self.id);
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        if self.permit.given_away {
            return;
        }
        let mut held = self.permit.shared.held();
        if !held.unpark(self.permit.client, self.id) {
            held.add(self.permit.client);
        }
        if let Some((id, told)) = &self.permit.gives_way {
            held.give_way(self.permit.client, *id, Arc::clone(told));
        }
    }
}

impl Shared {
    /// The counts are consistent after each statement that can panic, so a poisoned lock is still sound.
    fn held(&self) -> RankedGuard<'_, Held> {
        self.held.lock()
    }

    fn counted<T>(&self, verdict: Result<T, CapError>) -> Result<T, CapError> {
        match verdict {
            Ok(_) => return verdict,
            Err(CapError::Total { .. }) => &self.refused_total_cap,
            Err(CapError::PerClient { .. }) => &self.refused_client_cap,
        }
        .fetch_add(1, Ordering::Relaxed);
        verdict
    }
}

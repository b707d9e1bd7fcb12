//! Streams: what occupies a connection to a server and holds no slot. A tunnel, the answer of a route with `stream = true`,
//! a transfer that lost its slot.
//!
//! A server's streams have shares of its connections, see [`StreamShares`]. So that a stream is refused before anything of
//! it is sent, its [`Occupancy`] goes with the request and takes a place at the server that was chosen.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fairq::{StreamLimit, StreamLimits, StreamOwner, StreamShares};
use ron_kernel::{
    lock::{Ranked, RankedGuard},
    metrics::Counter,
};
use ron_transport::{caps::ClientKey, client::H2Options};
use types::{Reason, Refusal};

use super::server::Server;
use crate::{
    config::Protocol,
    locks,
    pool::{Pool, most_shared},
    tenant::{Tenant, TenantKey},
};

/// When a refused stream may be tried again. A constant, because nobody knows when a stream ends.
pub(crate) const STREAMS_RETRY: Duration = Duration::from_secs(5);

/// The tenant and the client address that a stream belongs to.
pub(crate) type Owner = StreamOwner<TenantKey, ClientKey>;

/// The limits by their names in metrics.
pub(super) const LIMITS: [(StreamLimit, &str); 3] =
    [(StreamLimit::Tenant, "tenant"), (StreamLimit::Address, "address"), (StreamLimit::All, "all")];

/// Counts refused streams, by the limit that refused them.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamRefusals(pub(super) [Counter; LIMITS.len()]);

impl StreamRefusals {
    fn count(&self, limit: StreamLimit) {
        let mut counters = LIMITS.iter().zip(&self.0);
        if let Some((_, counter)) = counters.find(|((known, _), _)| *known == limit) {
            counter.inc();
        }
    }

    /// Counts a refused stream to the upstream called `upstream`, and tells its client why.
    pub(super) fn refusal(&self, limit: StreamLimit, upstream: &str) -> Refusal {
        self.count(limit);
        let whose = match limit {
            StreamLimit::Tenant => "this tenant has",
            StreamLimit::Address => "this address has",
            StreamLimit::All => "all clients together have",
        };
        let what = format!("{whose} as many streams to upstream `{upstream}` as allowed");
        Refusal::new(Reason::Busy, what).retry_after(STREAMS_RETRY)
    }
}

/// The streams of one server, over all cores.
#[derive(Debug)]
pub(crate) struct ServerStreams {
    /// Nothing is locked under it.
    shares: Ranked<StreamShares<TenantKey, ClientKey>>,
    /// Requests at once on a connection that is shared; 0 where each connection takes one request at a time.
    shared_places: AtomicUsize,
    refusals: StreamRefusals,
}

impl ServerStreams {
    pub(super) fn new(protocol: Protocol, refusals: StreamRefusals) -> Self {
        let shares = Ranked::new(&locks::STREAM_SHARES, StreamShares::default());
        let streams = Self { shares, shared_places: AtomicUsize::new(0), refusals };
        streams.learn(protocol == Protocol::H2);
        streams
    }

    /// Learns whether the server takes many requests at once on one connection.
    pub(crate) fn learn(&self, many_at_once: bool) {
        self.learn_places(if many_at_once { H2Options::default().streams as usize } else { 0 });
    }

    /// Learns how many requests one shared connection takes.
    fn learn_places(&self, places: usize) {
        self.shared_places.store(places, Ordering::Relaxed);
    }

    /// Streams that are open.
    pub(crate) fn open(&self) -> usize {
        self.shares().open()
    }

    /// The limits with `max_conns` connections. Of shared connections, those count that one core may have: a core's
    /// requests wait for these alone.
    fn limits(&self, max_conns: usize) -> StreamLimits {
        StreamLimits::of(match self.shared_places.load(Ordering::Relaxed) {
            0 => max_conns,
            places => places.saturating_mul(max_conns.min(most_shared(places))),
        })
    }

    fn shares(&self) -> RankedGuard<'_, StreamShares<TenantKey, ClientKey>> {
        self.shares.lock()
    }
}

impl Pool {
    /// The limits of the server's streams.
    fn stream_limits(&self) -> StreamLimits {
        let server = &self.server;
        if let Some(places) = self.shared.places_per_conn() {
            server.streams.learn_places(places);
        }
        server.streams.limits(server.seats.max_open())
    }

    fn has_room_for(&self, owner: &Owner) -> Result<(), StreamLimit> {
        let limits = self.stream_limits();
        self.server.streams.shares().check(owner, limits)
    }

    fn open_stream(&self, owner: &Owner) -> Result<ServerPlace, StreamLimit> {
        let limits = self.stream_limits();
        self.server.streams.shares().open_one(owner, limits)?;
        Ok(ServerPlace { server: Arc::clone(&self.server), owner: owner.clone() })
    }
}

/// A stream's place at a server, given back when dropped.
#[derive(Debug)]
struct ServerPlace {
    server: Arc<Server>,
    owner: Owner,
}

impl Drop for ServerPlace {
    fn drop(&mut self) {
        self.server.streams.shares().close_one(&self.owner);
    }
}

/// Which server's connection a request occupies, and whether it does so as a stream. Shared by the request and whoever may
/// take its slot.
#[derive(Debug)]
pub(crate) struct Occupancy {
    owner: Owner,
    /// Locked before the shares of a server.
    state: Ranked<Occupied>,
}

#[derive(Debug, Default)]
struct Occupied {
    is_stream: bool,
    /// The pool of the connection; dangling before a server is chosen.
    pool: Weak<Pool>,
    /// `None` unless it is a stream and a server is chosen.
    place: Option<ServerPlace>,
}

impl Occupancy {
    /// That of a request which holds a slot.
    pub(crate) fn of_request(tenant: &Tenant, address: Option<ClientKey>) -> Self {
        Self { owner: owner(tenant, address), state: Ranked::new(&locks::OCCUPANCY, Occupied::default()) }
    }

    /// That of a stream.
    pub(crate) fn of_stream(tenant: &Tenant, address: Option<ClientKey>) -> Self {
        let state = Ranked::new(&locks::OCCUPANCY, Occupied { is_stream: true, ..Occupied::default() });
        Self { owner: owner(tenant, address), state }
    }

    /// Whether the server has room for it.
    pub(super) fn fits(&self, pool: &Pool) -> Result<(), StreamLimit> {
        let is_stream = self.state().is_stream;
        if is_stream { pool.has_room_for(&self.owner) } else { Ok(()) }
    }

    /// It goes to this server, and to no other from now on.
    ///
    /// # Errors
    /// The limit of the server's streams that is reached.
    pub(crate) fn moves_to(&self, pool: &Arc<Pool>) -> Result<(), StreamLimit> {
        let mut state = self.state();
        state.place = None;
        state.pool = Arc::downgrade(pool);
        if state.is_stream {
            state.place = Some(pool.open_stream(&self.owner)?);
        }
        Ok(())
    }

    /// The same with a pool that may be gone; its server's streams matter to nobody then.
    pub(crate) fn is_at(&self, pool: Weak<Pool>) {
        self.state().pool = pool;
    }

    /// It is a stream from now on if there is room for one more at its server; says whether there was.
    pub(crate) fn becomes_stream_if_it_fits(&self) -> bool {
        let pool = self.state().pool.upgrade();
        pool.is_none_or(|pool| pool.has_room_for(&self.owner).is_ok()) && self.becomes_stream().is_ok()
    }

    /// It lost its slot, and is a stream from now on.
    ///
    /// # Errors
    /// The limit of the server's streams that is reached.
    pub(crate) fn becomes_stream(&self) -> Result<(), StreamLimit> {
        let mut state = self.state();
        state.is_stream = true;
        let (None, Some(pool)) = (&state.place, state.pool.upgrade()) else { return Ok(()) };
        let opened = pool.open_stream(&self.owner);
        state.place = Some(opened.inspect_err(|limit| pool.server.streams.refusals.count(*limit))?);
        Ok(())
    }

    /// It occupies no connection any more.
    pub(crate) fn ends(&self) {
        *self.state() = Occupied::default();
    }

    fn state(&self) -> RankedGuard<'_, Occupied> {
        self.state.lock()
    }
}

fn owner(tenant: &Tenant, address: Option<ClientKey>) -> Owner {
    StreamOwner { tenant: tenant.key.clone(), address }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        UpstreamConfig,
        tenant::{Class, TenantName},
    };
    use ron_kernel::Clock;

    fn pool(max_conns: usize, protocol: Protocol) -> Arc<Pool> {
        let config = UpstreamConfig { max_conns, protocol, ..UpstreamConfig::default() };
        let server = Arc::new(Server::example(1, &config));
        Arc::new(Pool::new(server, &config, Clock::start(), Counter::default()))
    }

    fn occupancy(tenant: &str, is_stream: bool) -> Occupancy {
        let tenant = TenantKey { class: Class::Authed, name: TenantName::Named(tenant.into()) };
        let state = Ranked::new(&locks::OCCUPANCY, Occupied { is_stream, ..Occupied::default() });
        Occupancy { owner: StreamOwner { tenant, address: None }, state }
    }

    #[test]
    fn a_stream_holds_a_place_at_one_server_until_it_ends() {
        let (first, second) = (pool(4, Protocol::Http1), pool(4, Protocol::Http1));
        let open = || [&first, &second].map(|pool| pool.server.streams.open());
        let stream = occupancy("a", true);
        assert_eq!((stream.moves_to(&first), open()), (Ok(()), [1, 0]));
        assert_eq!((stream.moves_to(&second), open()), (Ok(()), [0, 1]));
        let another = occupancy("a", true);
        assert_eq!(another.fits(&second), Err(StreamLimit::Tenant));
        assert_eq!(another.moves_to(&second), Err(StreamLimit::Tenant));
        assert_eq!(occupancy("b", true).fits(&second), Ok(()));
        stream.ends();
        assert_eq!(open(), [0, 0]);
        assert_eq!(another.moves_to(&second), Ok(()));
        drop(another);
        assert_eq!(open(), [0, 0]);
    }

    #[test]
    fn a_request_takes_a_place_only_once_it_has_lost_its_slot() {
        let pool = pool(4, Protocol::Http1);
        let requests = ["a", "a"].map(|tenant| occupancy(tenant, false));
        for request in &requests {
            assert_eq!(request.moves_to(&pool), Ok(()));
        }
        assert_eq!(pool.server.streams.open(), 0);
        assert_eq!(requests[0].becomes_stream(), Ok(()));
        assert_eq!(requests[0].becomes_stream(), Ok(()), "once is enough");
        assert_eq!(requests[1].becomes_stream(), Err(StreamLimit::Tenant));
        assert_eq!(pool.server.streams.open(), 1);
        let unsent = occupancy("a", false);
        assert_eq!(unsent.becomes_stream(), Ok(()), "it is at no server yet");
        assert_eq!(unsent.moves_to(&pool), Err(StreamLimit::Tenant));
    }

    #[test]
    fn shares_of_shared_connections_are_of_what_one_core_can_send_at_once() {
        let of = |max_conns, protocol| pool(max_conns, protocol).stream_limits();
        assert_eq!(of(512, Protocol::H2), StreamLimits::of(400));
        assert_eq!(of(1, Protocol::H2), StreamLimits::of(100));
        assert_eq!(of(512, Protocol::Auto), StreamLimits::of(512));
        let pool = pool(512, Protocol::Auto);
        pool.learn(true);
        assert_eq!(pool.stream_limits(), StreamLimits::of(400));
        pool.learn(false);
        assert_eq!(pool.stream_limits(), StreamLimits::of(512));
    }
}

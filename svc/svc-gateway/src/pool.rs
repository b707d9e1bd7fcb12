//! Connections of one core to one server: idle ones, newest first, bounded in number and in age, and shared ones.

mod places;
mod shared;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ron_kernel::{
    Clock,
    blame::ClientId,
    lock::{Ranked, RankedGuard},
    metrics::Counter,
};
use ron_transport::{
    BodyError,
    client::{Home, HttpConn},
};
use types::Moment;

use crate::{
    UpstreamConfig, locks,
    upstream::{Seat, Server},
};

pub(crate) use places::{NoPlace, Place, Placed};
pub(crate) use shared::{Lent, Shared, most_shared};

/// Why a server failed that stopped in the middle of a response.
const STALLED: &str = "it stopped in the middle of a response: nothing came within the upstream's `timeout`";

/// Connections of one core to one server. On a per-core data plane its lock is hardly ever contended: other cores look in only when the server
/// may have no more connections.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) server: Arc<Server>,
    /// In the order in which they fell idle.
    idle: Ranked<Vec<Idle>>,
    /// Those that carry many requests at once.
    pub(crate) shared: Shared,
    max_idle: AtomicUsize,
    /// What the process's limit of open files leaves for it, if that is less.
    idle_share: AtomicUsize,
    max_age_nanos: AtomicU64,
    clock: Clock,
    /// Bodies that the server left unfinished.
    stalls: Counter,
}

/// A connection at rest.
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) conn: HttpConn,
    pub(crate) link: Arc<Link>,
    since: Moment,
}

/// What belongs to one connection for as long as it is open: the way back to its pool, and its place among the server's
/// connections.
#[derive(Debug)]
pub(crate) struct Link {
    me: Weak<Self>,
    pool: Weak<Pool>,
    /// Whose request the connection has; of a connection with several requests at once see [`SharedLink`].
    client: AtomicU64,
    _seat: Seat,
}

/// The way back of one of several requests on a connection.
#[derive(Debug)]
pub(crate) struct SharedLink {
    link: Arc<Link>,
    client: ClientId,
}

impl Pool {
    pub(crate) fn new(server: Arc<Server>, config: &UpstreamConfig, clock: Clock, stalls: Counter) -> Self {
        let pool = Self {
            server,
            idle: Ranked::new(&locks::POOL_IDLE, Vec::new()),
            shared: Shared::default(),
            max_idle: AtomicUsize::new(0),
            idle_share: AtomicUsize::new(usize::MAX),
            max_age_nanos: AtomicU64::new(0),
            clock,
            stalls,
        };
        pool.set_config(config);
        pool
    }

    /// Other limits from now on.
    pub(crate) fn set_config(&self, config: &UpstreamConfig) {
        let max_age = Moment::ORIGIN.after(config.idle_timeout.as_duration()).as_nanos();
        self.max_idle.store(config.max_idle, Ordering::Relaxed);
        self.max_age_nanos.store(max_age, Ordering::Relaxed);
    }

    /// Keeps so many idle connections at most from now on; the next sweep closes those beyond it.
    pub(crate) fn set_idle_share(&self, most: usize) {
        self.idle_share.store(most, Ordering::Relaxed);
    }

    /// Idle connections that are kept.
    fn most_idle(&self) -> usize {
        self.max_idle.load(Ordering::Relaxed).min(self.idle_share.load(Ordering::Relaxed))
    }

    /// Learns whether the server takes many requests at once on one connection.
    pub(crate) fn learn(&self, many_at_once: bool) {
        self.shared.learn(many_at_once);
        self.server.streams.learn(many_at_once);
    }

    /// The way back for a new connection that has this seat.
    pub(crate) fn link(self: &Arc<Self>, seat: Seat) -> Arc<Link> {
        Arc::new_cyclic(|me| {
            let client = AtomicU64::new(0);
            Link { me: me.clone(), pool: Arc::downgrade(self), client, _seat: seat }
        })
    }

    /// The connection used last. Aged ones met on the way are dropped. Whether the server has closed it meanwhile is not
    /// looked at: sending finds that out first thing, and then gives the request back.
    pub(crate) fn take(&self, now: Moment) -> Option<Idle> {
        loop {
            let idle = self.take_unchecked()?;
            if self.is_young(&idle, now) {
                return Some(idle);
            }
        }
    }

    /// The connection used last, whether it is alive or not.
    pub(crate) fn take_unchecked(&self) -> Option<Idle> {
        let idle = self.idle().pop()?;
        self.server.began();
        Some(idle)
    }

    /// Closes the connections that are too many or too old, and those that the server has closed: until we close them too,
    /// the system keeps their sockets.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        let mut idle = self.idle();
        let beyond = idle.len().saturating_sub(self.most_idle());
        let mut swept: Vec<Idle> = idle.drain(..beyond).collect();
        swept.extend(idle.extract_if(.., |idle| !self.is_young(idle, now) || !idle.conn.is_alive()));
        drop(idle);
        swept.iter().for_each(|_| self.server.began());
        // Closed only here, after the lock was let go.
        drop(swept);
        self.shared.sweep(now, self.max_age());
    }

    fn max_age(&self) -> Duration {
        Duration::from_nanos(self.max_age_nanos.load(Ordering::Relaxed))
    }

    fn is_young(&self, idle: &Idle, now: Moment) -> bool {
        now.since(idle.since) < self.max_age()
    }

    /// Takes a connection in; gives it back if there is no room.
    fn put(&self, idle: Idle) -> Option<Idle> {
        let mut all = self.idle();
        if all.len() >= self.most_idle() {
            return Some(idle);
        }
        all.push(idle);
        drop(all);
        self.server.ended();
        if self.server.seats.is_crowded() {
            self.server.serve_waiters();
        }
        None
    }

    fn idle(&self) -> RankedGuard<'_, Vec<Idle>> {
        self.idle.lock()
    }
}

impl Idle {
    /// Goes back to its pool, or is closed if that is full or gone.
    pub(crate) fn go_home(self) {
        if let Some(pool) = self.link.pool.upgrade() {
            drop(pool.put(self));
        }
    }
}

impl Link {
    /// The connection has no request of its own from now on.
    fn rests(&self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.server.ended();
        }
    }

    /// The connection is about to be closed, which ends it as one that is in use.
    fn works(&self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.server.began();
        }
    }
}

impl Link {
    /// The connection has a request of this client from now on.
    pub(crate) fn serves(&self, client: ClientId) {
        self.client.store(client, Ordering::Relaxed);
    }

    /// The way back of a request of this client, beside others.
    pub(crate) fn shared(self: &Arc<Self>, client: ClientId) -> Arc<SharedLink> {
        Arc::new(SharedLink { link: Arc::clone(self), client })
    }

    fn stalled_for(&self, client: ClientId) {
        if let Some(pool) = self.pool.upgrade() {
            pool.stalls.inc();
            pool.server.broke_off(client, STALLED, pool.clock.now());
        }
    }

    fn broke_off_for(&self, client: ClientId, why: &BodyError) {
        if let Some(pool) = self.pool.upgrade() {
            pool.server.broke_off(client, &why.to_string(), pool.clock.now());
        }
    }
}

impl Home for SharedLink {
    /// A connection with several requests never leaves.
    fn put_back(&self, _conn: HttpConn) {}

    fn stalled(&self) {
        self.link.stalled_for(self.client);
    }

    fn broke_off(&self, why: &BodyError) {
        self.link.broke_off_for(self.client, why);
    }
}

impl Home for Link {
    fn put_back(&self, conn: HttpConn) {
        // With room for nobody, whoever waits for a connection gets the seat.
        if let (Some(pool), Some(link)) = (self.pool.upgrade(), self.me.upgrade()) {
            let since = pool.clock.now();
            drop(pool.put(Idle { conn, link, since }));
        }
    }

    fn stalled(&self) {
        self.stalled_for(self.client.load(Ordering::Relaxed));
    }

    fn broke_off(&self, why: &BodyError) {
        self.broke_off_for(self.client.load(Ordering::Relaxed), why);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_transport::stream::Stream;
    use std::{
        io::{ErrorKind, Read},
        os::unix::net::UnixStream,
    };

    const MAX_AGE: Duration = Duration::from_secs(60);

    fn pool(max_idle: usize) -> Arc<Pool> {
        let config = UpstreamConfig { max_idle, idle_timeout: MAX_AGE.into(), ..UpstreamConfig::default() };
        let server = Arc::new(Server::example(1, &config));
        Arc::new(Pool::new(server, &config, Clock::start(), Counter::default()))
    }

    /// Puts a connection into the pool; gives the server's end of it.
    fn put_one(pool: &Arc<Pool>) -> UnixStream {
        let (ours, servers) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        servers.set_nonblocking(true).unwrap();
        let stream = Stream::Unix(tokio::net::UnixStream::from_std(ours).unwrap());
        let link = pool.link(pool.server.seat().unwrap());
        link.put_back(HttpConn::open(stream));
        servers
    }

    fn take(pool: &Pool) -> Option<Idle> {
        pool.take(pool.clock.now())
    }

    fn is_open(mut servers_end: &UnixStream) -> bool {
        servers_end.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_closes_what_is_too_old_and_keeps_what_is_not() {
        let pool = pool(8);
        let old = put_one(&pool);
        tokio::time::advance(Duration::from_secs(1)).await;
        let young = put_one(&pool);
        tokio::time::advance(MAX_AGE - Duration::from_secs(1) - Duration::from_millis(1)).await;
        pool.sweep();
        assert!(is_open(&old) && is_open(&young));
        tokio::time::advance(Duration::from_millis(1)).await;
        pool.sweep();
        assert!(!is_open(&old) && is_open(&young));
        assert!(take(&pool).is_some());
        assert!(take(&pool).is_none());
    }

    #[tokio::test]
    async fn a_sweep_closes_what_the_server_has_closed() {
        let pool = pool(8);
        let (closing, staying) = (put_one(&pool), put_one(&pool));
        closing.shutdown(std::net::Shutdown::Write).unwrap();
        while is_open(&closing) {
            // Lets the runtime look at its sockets.
            tokio::task::yield_now().await;
            pool.sweep();
        }
        assert!(is_open(&staying));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_too_old_is_not_used_again_even_before_the_sweep() {
        let pool = pool(8);
        let old = put_one(&pool);
        tokio::time::advance(MAX_AGE).await;
        assert!(take(&pool).is_none());
        assert!(!is_open(&old));
    }

    #[tokio::test]
    async fn one_connection_too_many_is_closed() {
        let pool = pool(1);
        let (first, second) = (put_one(&pool), put_one(&pool));
        assert!(is_open(&first) && !is_open(&second));
    }

    #[tokio::test]
    async fn a_smaller_share_of_the_open_files_closes_those_that_have_been_idle_longest() {
        let pool = pool(8);
        let (first, second) = (put_one(&pool), put_one(&pool));
        pool.set_idle_share(1);
        assert!(is_open(&first));
        pool.sweep();
        assert!(!is_open(&first) && is_open(&second));
        assert!(!is_open(&put_one(&pool)));
    }

    #[tokio::test]
    async fn every_connection_has_a_seat_until_it_is_closed_and_is_busy_until_it_is_put_back() {
        let pool = pool(1);
        let count = || (pool.server.seats.open(), pool.server.busy());
        let _kept = put_one(&pool);
        assert_eq!(count(), (1, 0));
        let _one_too_many = put_one(&pool);
        assert_eq!(count(), (1, 0));
        let taken = take(&pool).unwrap();
        assert_eq!(count(), (1, 1));
        taken.go_home();
        assert_eq!(count(), (1, 0));
        drop(take(&pool));
        assert_eq!(count(), (0, 0));
    }
}

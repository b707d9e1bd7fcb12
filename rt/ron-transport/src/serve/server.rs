//! An HTTP server: a listener, its limits and certificates, and one service per core. All but the service can change
//! while it runs.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use ron_kernel::{
    InFlight, Scope, Shutdown,
    lock::{Ranked, RankedGuard},
    metrics::Counter,
    supervisor::Children,
    topology::{ChildSpec, TaskSpec},
};
use tokio::sync::Notify;

use super::{CONNECTION, H2_STREAM, HttpLimits, LISTENER, listener, spare::Spare, workers::Workers};
use crate::{
    addr::ListenAddr,
    caps::{CapError, ClientKey, ConnCaps},
    descriptors,
    listen::{BindError, BindOptions, Listener},
    locks,
    proxy_protocol::TrustedSources,
    service::Service,
    stream::Peer,
    tls::{ServedCertificate, ServerTls},
};

/// What a server listens with: everything that can be wrong before it is put into force.
#[derive(Debug)]
pub struct ListenPlan {
    /// The socket; `None` to keep the present one.
    pub listener: Option<Listener>,
    /// Certificates; `None` without TLS.
    pub tls: Option<ServerTls>,
    /// From whom a PROXY header is expected.
    pub proxy_protocol: TrustedSources,
    /// The limits of connections and requests.
    pub limits: HttpLimits,
}

/// The declared roles a server's tasks play in its service's topology; they say when each stops.
#[derive(Clone, Copy, Debug)]
pub struct Roles {
    /// The task that accepts connections.
    pub listener: &'static TaskSpec,
    /// Who answers for the connections of a core; `None` where they are on their own.
    pub worker: Option<&'static TaskSpec>,
    /// A connection; it closes at that stage if it is idle then.
    pub connection: &'static ChildSpec,
    /// The task of an HTTP/2 stream.
    pub stream: &'static ChildSpec,
    /// Whether a drain waits for requests in flight before it closes connections.
    pub drains_requests: bool,
}

impl Default for Roles {
    /// A service on the data plane: intake stops first, requests in flight finish, then connections close.
    fn default() -> Self {
        Self {
            listener: &LISTENER,
            worker: None,
            connection: &CONNECTION,
            stream: &H2_STREAM,
            drains_requests: true,
        }
    }
}

/// A running HTTP server.
pub struct HttpServer<S>(Arc<Shared<S>>);

pub(super) struct Shared<S> {
    pub(super) scope: Scope,
    pub(super) services: Vec<Arc<S>>,
    pub(super) limits: ArcSwap<HttpLimits>,
    pub(super) tls: ArcSwapOption<ServerTls>,
    pub(super) proxy_protocol: ArcSwap<TrustedSources>,
    pub(super) caps: ConnCaps,
    pub(super) spare: Spare,
    pub(super) changed: Notify,
    pub(super) connections: Children,
    pub(super) workers: Workers,
    pub(super) streams: Children,
    pub(super) work: InFlight,
    pub(super) roles: Roles,
    refused: Refused,
    sockets: Ranked<Sockets>,
}

/// How many connections each cap refused; found once, because refusals come in floods.
struct Refused {
    total: Counter,
    per_client: Counter,
    flood: Counter,
}

/// The listening sockets of a server.
struct Sockets {
    /// The present one; `None` once the node no longer takes in work.
    listening: Option<Arc<Listener>>,
    /// Where that listens, or last did.
    addr: ListenAddr,
    /// By what that was asked for.
    asked_for: ListenAddr,
    /// Those that were replaced and not yet closed: their backlogs are still to be served.
    replaced: Vec<Arc<Listener>>,
}

impl<S: Service> HttpServer<S> {
    /// Starts serving `listener` as `plan` says, with one service per core made by `service`.
    ///
    /// # Panics
    /// If the plan has no listener, or the scope's topology lacks the tasks of a server.
    pub fn start(scope: &Scope, roles: Roles, plan: ListenPlan, service: impl Fn(usize) -> S) -> Self {
        let services = scope.planes().cores().iter().map(|core| Arc::new(service(core.index()))).collect();
        let listener = plan.listener.expect("a server starts with a listener");
        let connections = scope.children(roles.connection);
        let (max_conns, max_per_client) = fitting(scope, &plan.limits);
        let shared = Arc::new(Shared {
            services,
            caps: ConnCaps::new(max_conns, max_per_client),
            spare: Spare::new(plan.limits.spare_conns),
            limits: ArcSwap::from_pointee(plan.limits),
            tls: ArcSwapOption::from(plan.tls.map(Arc::new)),
            proxy_protocol: ArcSwap::from_pointee(plan.proxy_protocol),
            changed: Notify::new(),
            workers: Workers::start(scope, roles.worker, &connections),
            connections,
            streams: scope.children(roles.stream),
            work: if roles.drains_requests { scope.work() } else { InFlight::new() },
            roles,
            refused: Refused {
                total: scope.metrics().connections_refused(scope.service(), "total"),
                per_client: scope.metrics().connections_refused(scope.service(), "per_client"),
                flood: scope.metrics().connections_refused(scope.service(), "flood"),
            },
            sockets: Ranked::new(
                &locks::LISTENER_SOCKETS,
                Sockets {
                    addr: listener.local_addr().clone(),
                    asked_for: listener.asked_for().clone(),
                    listening: Some(Arc::new(listener)),
                    replaced: Vec::new(),
                },
            ),
            scope: scope.clone(),
        });
        shared.sample_connections();
        let server = Arc::clone(&shared);
        scope.task(roles.listener, move |ctx| listener::run(Arc::clone(&server), ctx));
        Self(shared)
    }

    /// Where it listens, with the port the system chose; where it last did, once the node drains.
    #[must_use]
    pub fn local_addr(&self) -> ListenAddr {
        self.0.sockets().addr.clone()
    }

    /// The certificates that it shows to clients; none without TLS.
    #[must_use]
    pub fn certificates(&self) -> Vec<ServedCertificate> {
        self.0.tls.load().as_ref().map_or_else(Vec::new, |tls| tls.certificates())
    }

    /// The listening socket, to hand it to a successor; `None` once the node drains.
    #[must_use]
    pub fn listener(&self) -> Option<Arc<Listener>> {
        self.0.listening()
    }

    /// Binds the socket that `addr` asks for, unless it is the present one.
    ///
    /// # Errors
    /// [`BindError`], with what to do about it.
    pub fn bind(&self, addr: &ListenAddr, options: BindOptions) -> Result<Option<Listener>, BindError> {
        let (present, asked_for) = {
            let sockets = self.0.sockets();
            (sockets.addr.clone(), sockets.asked_for.clone())
        };
        if *addr == asked_for || same_address(addr, &present) {
            return Ok(None);
        }
        match (Listener::bind(addr, options), present) {
            (Err(BindError::InUse { addr }), ListenAddr::Tcp(present)) if overlap(addr, present) => {
                Err(BindError::OwnPort { addr, present })
            }
            (bound, _) => bound.map(Some),
        }
    }

    /// Puts a plan into force: new connections meet it, open ones keep what they began with. If there is a new
    /// socket, it is accepting before the old one stops.
    pub fn commit(&self, plan: ListenPlan) {
        let shared = &self.0;
        let (max_conns, max_per_client) = fitting(&shared.scope, &plan.limits);
        shared.caps.set_limits(max_conns, max_per_client);
        shared.spare.set_limit(plan.limits.spare_conns);
        shared.limits.store(Arc::new(plan.limits));
        shared.tls.store(plan.tls.map(Arc::new));
        shared.proxy_protocol.store(Arc::new(plan.proxy_protocol));
        if let Some(listener) = plan.listener {
            shared.replace_listener(listener);
        }
    }
}

/// Whether a wanted address is the one a listener has; port 0 asks for any and is content with what it got.
fn same_address(wanted: &ListenAddr, have: &ListenAddr) -> bool {
    match (wanted, have) {
        (ListenAddr::Tcp(wanted), ListenAddr::Tcp(have)) => {
            wanted.ip() == have.ip() && (wanted.port() == 0 || wanted.port() == have.port())
        }
        _ => wanted == have,
    }
}

/// Whether two addresses cannot be listened on at once.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |all: IpAddr, ip: IpAddr| all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4());
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port() && (a == b || covers(a, b) || covers(b, a))
}

impl<S> Shared<S> {
    pub(super) fn shutdown(&self) -> &Shutdown {
        self.scope.shutdown()
    }

    /// The present listening socket; `None` once the node no longer takes in work.
    pub(super) fn listening(&self) -> Option<Arc<Listener>> {
        self.sockets().listening.clone()
    }

    /// Takes every socket away, to be closed.
    pub(super) fn stop_listening(&self) -> Vec<Arc<Listener>> {
        let mut sockets = self.sockets();
        let mut all = std::mem::take(&mut sockets.replaced);
        all.extend(sockets.listening.take());
        all
    }

    /// Takes the sockets that were replaced, to be closed.
    pub(super) fn take_replaced(&self) -> Vec<Arc<Listener>> {
        std::mem::take(&mut self.sockets().replaced)
    }

    fn replace_listener(&self, listener: Listener) {
        let mut sockets = self.sockets();
        if sockets.listening.is_none() {
            // Too late: the node drains, and nobody would accept.
            listener.discard();
            return;
        }
        sockets.addr = listener.local_addr().clone();
        sockets.asked_for = listener.asked_for().clone();
        let before = sockets.listening.replace(Arc::new(listener));
        sockets.replaced.extend(before);
        drop(sockets);
        self.changed.notify_one();
    }

    /// Counts a connection that there is no room for, in all or for its client.
    pub(super) fn count_refused(&self, cap: &CapError) {
        match cap {
            CapError::Total { .. } => self.refused.total.inc(),
            CapError::PerClient { .. } => self.refused.per_client.inc(),
        };
    }

    fn sockets(&self) -> RankedGuard<'_, Sockets> {
        self.sockets.lock()
    }
}

impl<S: Service> Shared<S> {
    /// On whose account a connection of this peer is.
    pub(super) fn account_of(&self, peer: &Peer) -> ClientKey {
        let speaks_for_many = self.services.first().is_some_and(|service| service.speaks_for_many(peer));
        if speaks_for_many { ClientKey::TrustedProxy } else { ClientKey::of(peer) }
    }

    /// Whether the service wants nothing of this client now. Counted.
    pub(super) fn turns_away(&self, peer: &Peer) -> bool {
        let is_turned_away = self.services.first().is_some_and(|service| service.turns_away(peer));
        if is_turned_away {
            self.refused.flood.inc();
        }
        is_turned_away
    }

    fn sample_connections(self: &Arc<Self>) {
        let gauge = self.scope.metrics().connections(self.scope.service());
        let watched = Arc::downgrade(self);
        self.scope.sampled(move || {
            let open = watched.upgrade().map_or(0, |server| server.caps.total());
            gauge.set(i64::try_from(open).unwrap_or(i64::MAX));
        });
    }
}

impl<S> Clone for HttpServer<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> std::fmt::Debug for HttpServer<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpServer({})", self.0.scope.service())
    }
}

/// The most connections in all and of one client, as far as the process may open files.
fn fitting(scope: &Scope, limits: &HttpLimits) -> (usize, usize) {
    descriptors::fitting(scope.service(), limits.max_conns, limits.max_conns_per_client)
}

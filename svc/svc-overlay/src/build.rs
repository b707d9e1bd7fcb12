//! From configuration to a running overlay, and from one configuration to the next.

use std::{
    collections::HashSet,
    fmt,
    net::SocketAddr,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use captoken::{KeyRing, RevocationList};
use cas::Cas;
use oap::Topic;
use ron_kernel::{
    Scope,
    blocking::BlockingError,
    config::Snapshot,
    reload::{Commit, Preparing, Reconfigure},
};
use ron_transport::{
    addr::ListenAddr,
    caps::ConnCaps,
    descriptors,
    inherit::Inherited,
    listen::{BindError, BindOptions, Listener},
    tls::{
        TlsError,
        raw_key::{NodeKey, PeerKey, RawClientTls, RawKeyOptions, RawServerTls},
    },
};
use types::NodeId;

#[cfg(feature = "quic")]
use crate::quic::QuicDoor;
use crate::{
    OverlayConfig,
    arrivals::Arrivals,
    conditions::{Conditions, Sight, Supplies},
    config::{Security, is_reachable},
    dialer::Dialers,
    error::OverlayError,
    gossip::{By, EventId, GOSSIP_EGRESS, Gossip, Published},
    handshakes::Handshakes,
    info::{PeerInfo, TopicInfo},
    listener::Door,
    lives::Lives,
    losses::{Loss, LossReport, LossSums, NamedGap},
    metrics::OverlayMetrics,
    node_key::{self, NodeKeyError},
    objects::{self, ObjectStore, Objects},
    peers::Peers,
    session::{CloseReason, READER, WRITER},
    shared::{HANDSHAKES, Settings, Shared, Tls, TokenKeys},
    subscription::Subscription,
};

/// Why an overlay could not be built, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The socket cannot be had.
    #[error("overlay: {0}")]
    Bind(#[from] BindError),
    /// The socket could be reached by other machines, without TLS.
    #[error(
        "overlay: {0} can be reached from other machines, in the clear: use security = \"mtls\" or \"token\""
    )]
    Open(ListenAddr),
    /// The node has no key.
    #[error("overlay: {0}")]
    Key(#[from] NodeKeyError),
    /// TLS cannot be set up.
    #[error("overlay: {0}")]
    Tls(#[from] TlsError),
    /// What tokens are checked with cannot be loaded.
    #[error("overlay: {0}")]
    Tokens(String),
    /// The store of objects cannot be opened.
    #[error("overlay: {0}")]
    Store(#[from] cas::OpenError),
    /// The blocking pool did not load them.
    #[error("overlay: {0}")]
    Blocking(#[from] BlockingError),
}

/// Loads what tokens are checked with, as a configuration says. Blocking; the error says what to do about it.
pub type LoadTokens = Arc<dyn Fn(&Snapshot) -> Result<(KeyRing, RevocationList), String> + Send + Sync>;

/// Whether another process still has this node's sessions: the one that handed its sockets over, until it has ended.
pub type IsHeldElsewhere = Arc<dyn Fn() -> bool + Send + Sync>;

/// What an overlay is made from.
pub struct OverlaySettings<'a> {
    /// The configuration it starts with.
    pub config: &'a Snapshot,
    /// Where the node keeps its data; `None` if it must not write anything.
    pub data_dir: Option<&'a Path>,
    /// How long peers may be silent if the configuration does not say.
    pub idle: Duration,
    /// Loads what tokens are checked with.
    pub tokens: LoadTokens,
    /// Nobody is dialled while this holds, because peers would give up the other process's sessions for those of this one,
    /// and what is on its way there with them. Absent if there is no such process.
    pub held_elsewhere: Option<IsHeldElsewhere>,
}

impl fmt::Debug for OverlaySettings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverlaySettings").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

/// A running overlay service.
pub struct Overlay {
    scope: Scope,
    shared: Arc<Shared>,
    door: Arc<Door>,
    #[cfg(feature = "quic")]
    quic: Option<Arc<QuicDoor>>,
    dialers: Arc<Dialers>,
    idle: Duration,
    tokens: LoadTokens,
}

impl Overlay {
    /// Builds and starts an overlay as configured.
    ///
    /// Cancel safe: what was opened closes when the future is dropped.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build(
        scope: &Scope,
        from: OverlaySettings<'_>,
        inherited: &mut Inherited,
    ) -> Result<Arc<Self>, BuildError> {
        let config = from.config.get::<OverlayConfig>();
        let data_dir = from.data_dir.map(ToOwned::to_owned);
        let unix = scope.clock().unix();
        let load_key = move || {
            let key = node_key::load_or_make(data_dir.as_deref())?;
            Ok::<_, NodeKeyError>((key, Lives::load(data_dir.as_deref(), unix)))
        };
        let identity = scope.blocking().run("load the node's key", load_key).await??;
        let tokens = load_tokens(scope, &from.tokens, from.config).await?;
        let capacity =
            if from.data_dir.is_some() { config.objects.max_bytes } else { config.objects.ram_bytes };
        let store = (open_store(scope, &config, from.data_dir).await?, capacity.as_u64());
        let listener = inherited.listen(&config.listen, BindOptions::default())?;
        refuse_open(&config, listener.local_addr())?;
        let tls = make_tls(&config, &identity.0)?;
        let settings = Settings::new(&config, from.idle, tls, tokens);
        let shared = share(scope, &config, identity, settings, store);
        Gossip::start(&shared);
        let door = Door::open(scope, &shared, listener);
        #[cfg(feature = "quic")]
        let quic = open_quic(scope, &config, &door, &shared, from.held_elsewhere.clone())?;
        let dialers = Arc::new(Dialers::new(scope, &shared, from.held_elsewhere));
        dialers.follow(&config.peers);
        Ok(Arc::new(Self {
            scope: scope.clone(),
            shared,
            door,
            #[cfg(feature = "quic")]
            quic,
            dialers,
            idle: from.idle,
            tokens: from.tokens,
        }))
    }

    /// What all parts of it share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the id of this node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.shared.me
    }

    /// Where it listens, with the port the system chose.
    #[must_use]
    pub fn local_addr(&self) -> ListenAddr {
        self.door.local_addr()
    }

    /// Where it listens for QUIC, with the port the system chose; `None` if it does not.
    #[must_use]
    pub fn quic_addr(&self) -> Option<SocketAddr> {
        #[cfg(feature = "quic")]
        return self.quic.as_ref().map(|quic| quic.local_addr());
        #[cfg(not(feature = "quic"))]
        None
    }

    /// The listening socket, to hand it to a successor; `None` once the node drains.
    #[must_use]
    pub fn listener(&self) -> Option<Arc<Listener>> {
        self.door.listener()
    }

    /// Publishes, and tells whether a neighbour has taken it on.
    ///
    /// Cancel safe in that the publication goes its way; nobody hears what became of it.
    ///
    /// # Errors
    /// [`OverlayError`]; nothing was published then.
    pub async fn publish(&self, topic: Topic, body: Bytes) -> Result<Published, OverlayError> {
        if body.len() > oap::PUBLICATION_MAX {
            self.shared.metrics.rejected("size");
            return Err(OverlayError::FrameTooLarge);
        }
        self.shared.admit_publication()?;
        self.shared.gossip.publish(topic, body, By::Node).await
    }

    /// What is published in a topic from now on.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`OverlayError`] if too much is being asked, or the node stops.
    pub async fn subscribe(&self, topic: Topic) -> Result<Subscription, OverlayError> {
        Subscription::open(&self.shared, topic, By::Node, None, usize::MAX).await
    }

    /// The same for a subscriber that comes back: what came after the event it heard last, as far as that is kept, and then
    /// what is published from now on. What is gone is told as [`Delivery::Lagging`](crate::Delivery::Lagging) or
    /// [`Delivery::NotResumed`](crate::Delivery::NotResumed).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`OverlayError`] if too much is being asked, or the node stops.
    pub async fn resume(&self, topic: Topic, after: EventId) -> Result<Subscription, OverlayError> {
        Subscription::open(&self.shared, topic, By::Node, Some(after), usize::MAX).await
    }

    /// Returns the connected peers.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerInfo> {
        PeerInfo::all(&self.shared)
    }

    /// How many publications were ever given up, and those entries of the report that are kept and have a higher number than
    /// `after`.
    #[must_use]
    pub fn losses(&self, after: u64) -> (u64, Vec<Loss>) {
        self.shared.losses.since(after)
    }

    /// The topics that this node takes part in, with what came and what is missing.
    #[must_use]
    pub fn topics(&self) -> Vec<TopicInfo> {
        TopicInfo::all(&self.shared)
    }

    /// The latest gaps that subscribers here were told of, oldest first.
    #[must_use]
    pub fn gaps(&self) -> Vec<NamedGap> {
        self.shared.losses.gaps()
    }

    /// How many publications were ever given up, by peer, topic and reason.
    #[must_use]
    pub fn loss_sums(&self) -> LossSums {
        self.shared.losses.sums()
    }

    /// The objects of this node and its peers.
    #[must_use]
    pub fn objects(&self) -> ObjectStore {
        ObjectStore(Arc::clone(&self.shared))
    }

    async fn follow(&self, new: Arc<Snapshot>) -> Result<Commit, BuildError> {
        let config = new.get::<OverlayConfig>();
        let tokens = load_tokens(&self.scope, &self.tokens, &new).await?;
        let listener = self.door.bind(&config.listen)?;
        if let Some(listener) = &listener {
            refuse_open(&config, listener.local_addr())?;
        }
        let tls = make_tls(&config, &self.shared.key)?;
        let mut settings = Settings::new(&config, self.idle, tls, tokens);
        // Sessions of both kinds side by side would be a hole; a restart changes it.
        settings.security = self.shared.settings.load().security;
        let (shared, door, dialers) =
            (Arc::clone(&self.shared), Arc::clone(&self.door), Arc::clone(&self.dialers));
        Ok(Box::new(move || {
            let (max_conns, per_client) = fitting(&shared.scope, &config);
            shared.caps.set_limits(max_conns, per_client);
            shared.handshakes.set_most(handshake_places(max_conns));
            shared.gossip.follow(&settings.topics);
            shared.settings.store(Arc::new(settings));
            if let Some(listener) = listener {
                door.replace(listener);
            }
            dialers.follow(&config.peers);
            dismiss_unlisted(&shared);
        }))
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay").field("node", &self.shared.me).finish_non_exhaustive()
    }
}

impl Reconfigure for Overlay {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        Box::pin(async move { self.follow(new).await.map_err(|error| error.to_string()) })
    }
}

/// Ends sessions with those who are not listed any more, where that is what let them in, and those whose token is revoked.
fn dismiss_unlisted(shared: &Shared) {
    for (_, conn) in shared.peers.all() {
        if conn.expired().is_some() {
            conn.close(CloseReason::Removed);
        }
    }
}

fn share(
    scope: &Scope,
    config: &OverlayConfig,
    (key, lives): (NodeKey, Lives),
    settings: Settings,
    store: (Cas, u64),
) -> Arc<Shared> {
    let me = NodeId::of_key(key.public_key().ed25519());
    let metrics = OverlayMetrics::new(scope);
    let (max_conns, per_client) = fitting(scope, config);
    let shared = Arc::new(Shared {
        scope: scope.clone(),
        clock: scope.clock(),
        me,
        key,
        settings: ArcSwap::from_pointee(settings),
        peers: Peers::new(scope, me),
        caps: ConnCaps::new(max_conns, per_client),
        handshakes: Handshakes::new(handshake_places(max_conns)),
        arrivals: Arrivals::default(),
        losses: LossReport::new(scope, metrics.clone()),
        metrics,
        gossip: Gossip::new(scope, config),
        objects: Objects::new(scope, &config.objects, store.0, store.1),
        readers: scope.children(&READER),
        writers: scope.children(&WRITER),
        #[cfg(feature = "quic")]
        quic_drivers: ron_transport::quic::Drivers::new(scope, &crate::quic::QUIC_DRIVER),
        numbers: AtomicU64::new(1),
        readiness: scope.readiness().service(scope.service()),
        lives,
        supplies: Arc::<Supplies>::default(),
    });
    sample(scope, &shared);
    shared
}

/// How many handshakes there may be at a time: connections that say nothing leave room for those that do.
fn handshake_places(max_conns: usize) -> usize {
    HANDSHAKES.min(max_conns / 2)
}

/// The most connections in all and from one address, as far as the process may open files.
fn fitting(scope: &Scope, config: &OverlayConfig) -> (usize, usize) {
    descriptors::fitting(scope.service(), config.transport.max_conns, config.transport.per_client())
}

/// Publishes what is counted elsewhere, four times a second.
fn sample(scope: &Scope, shared: &Arc<Shared>) {
    let depth = scope.metrics().queue(GOSSIP_EGRESS.name, "gossip").depth;
    let connections = scope.metrics().connections(scope.service());
    let (watched, conditions) = (Arc::downgrade(shared), Conditions::new(scope));
    scope.sampled(move || {
        let Some(shared) = watched.upgrade() else { return };
        let gauge = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        shared.metrics.peers.set(gauge(shared.peers.count()));
        depth.set(gauge(shared.peers.queued()));
        connections.set(gauge(shared.caps.total()));
        let sight = Sight {
            wait: shared.gossip.wait(),
            min_peers: shared.settings.load().min_peers,
            peers: shared.peers.count(),
            displaced: shared.handshakes.displaced(),
            behind: shared.lives.ahead_of(shared.clock.unix()),
        };
        conditions.look(&sight, &shared.supplies, shared.clock.now());
    });
}

async fn open_store(
    scope: &Scope,
    config: &OverlayConfig,
    data_dir: Option<&Path>,
) -> Result<Cas, BuildError> {
    let (config, data_dir) = (config.objects.clone(), data_dir.map(ToOwned::to_owned));
    let open = move || objects::open(&config, data_dir.as_deref());
    Ok(scope.blocking().run("open the store of objects", open).await??)
}

async fn load_tokens(
    scope: &Scope,
    load: &LoadTokens,
    config: &Snapshot,
) -> Result<Arc<TokenKeys>, BuildError> {
    let (load, snapshot) = (Arc::clone(load), config.clone());
    let loaded = scope.blocking().run("load the keys of tokens", move || load(&snapshot)).await?;
    let (ring, revoked) = loaded.map_err(BuildError::Tokens)?;
    Ok(Arc::new(TokenKeys { ring, revoked }))
}

fn make_tls(config: &OverlayConfig, key: &NodeKey) -> Result<Option<Tls>, TlsError> {
    if config.security == Security::Plaintext {
        return Ok(None);
    }
    let peers = config.peers.iter().filter_map(|peer| peer.id);
    let allowed = config.allow.iter().filter_map(|id| id.parse().ok());
    let listed: Arc<HashSet<NodeId>> = Arc::new(peers.chain(allowed).collect());
    let by_token = config.security == Security::Token;
    let accepts = move |key: &PeerKey| by_token || listed.contains(&NodeId::of_key(key.ed25519()));
    let options = RawKeyOptions { alpn: vec![b"oap/1".to_vec()], pq: config.pq.groups() };
    let server = RawServerTls::new(key, &options, accepts.clone())?;
    let client = RawClientTls::new(key, &options, accepts)?;
    Ok(Some(Tls {
        #[cfg(feature = "quic")]
        quic: crate::quic::QuicTls::new(&server, &client),
        server,
        client,
    }))
}

/// Listens for QUIC, if that is configured.
#[cfg(feature = "quic")]
fn open_quic(
    scope: &Scope,
    config: &OverlayConfig,
    door: &Arc<Door>,
    shared: &Arc<Shared>,
    held_elsewhere: Option<IsHeldElsewhere>,
) -> Result<Option<Arc<QuicDoor>>, BuildError> {
    let Some(ListenAddr::Tcp(addr)) = &config.quic_listen else { return Ok(None) };
    Ok(Some(QuicDoor::open(scope, door, shared, *addr, held_elsewhere)?))
}

fn refuse_open(config: &OverlayConfig, addr: &ListenAddr) -> Result<(), BuildError> {
    if config.security == Security::Plaintext && is_reachable(addr) {
        return Err(BuildError::Open(addr.clone()));
    }
    Ok(())
}

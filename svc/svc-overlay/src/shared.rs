//! What all sessions of a node share.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use captoken::{Caveat, KeyRing, NodeSession, RevocationList};
use oap::{Features, Hello, Topic};
use quota::Rate;
use ron_kernel::{Clock, Scope, readiness::ServiceReadiness, supervisor::Children};
use ron_transport::{
    caps::ConnCaps,
    socks5::Socks5Proxy,
    tls::raw_key::{NodeKey, PeerKey, RawClientTls, RawServerTls},
};
use types::NodeId;

use crate::{
    GossipConfig, ObjectsConfig, OverlayConfig, TimeoutsConfig,
    arrivals::Arrivals,
    conditions::Supplies,
    config::{EgressPolicy, Security, public_key},
    error::OverlayError,
    gossip::Gossip,
    handshakes::Handshakes,
    lives::Lives,
    losses::LossReport,
    metrics::OverlayMetrics,
    objects::Objects,
    outbox,
    peers::Peers,
    session::Waits,
};

/// Frames that wait for a peer.
pub(crate) const EGRESS_FRAMES: usize = 512;
/// The maximum size of a peer's send queue in bytes.
pub(crate) const EGRESS_BYTES: usize = 8 * 1024 * 1024;
/// Answers that wait for a peer; one that does not take so many does not read.
pub(crate) const CONTROL_FRAMES: usize = 1024;
/// Handshakes at a time; a newcomer beyond them takes the place of another.
pub(crate) const HANDSHAKES: usize = 256;
/// Streams that a peer may have open at a time.
const MAX_STREAMS: u16 = 64;
/// Bytes that a peer may send on a stream before it is told that they were taken.
const CREDIT: u32 = 512 * 1024;

/// What all sessions of a node share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) scope: Scope,
    pub(crate) clock: Clock,
    pub(crate) me: NodeId,
    pub(crate) key: NodeKey,
    pub(crate) settings: ArcSwap<Settings>,
    pub(crate) peers: Peers,
    pub(crate) caps: ConnCaps,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) arrivals: Arrivals,
    pub(crate) metrics: OverlayMetrics,
    pub(crate) losses: LossReport,
    pub(crate) gossip: Gossip,
    pub(crate) objects: Objects,
    pub(crate) readers: Children,
    pub(crate) writers: Children,
    /// What moves the packets of connections over QUIC.
    #[cfg(feature = "quic")]
    pub(crate) quic_drivers: ron_transport::quic::Drivers,
    pub(crate) numbers: AtomicU64,
    /// Whether publications are refused for now.
    pub(crate) readiness: ServiceReadiness,
    pub(crate) lives: Lives,
    /// How well the topics of subscribers here are supplied.
    pub(crate) supplies: Arc<Supplies>,
}

impl Shared {
    /// A number that no other session of this node's life has.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// Whether new publications are refused, from here and from peers: the node has more to do than it can. One that drains
    /// says so itself, and finishes what was begun.
    pub(crate) fn sheds_publications(&self) -> bool {
        self.readiness.sheds_writes() && !self.scope.shutdown().is_draining()
    }

    /// Lets a publication of this node pass, unless they are refused for now.
    pub(crate) fn admit_publication(&self) -> Result<(), OverlayError> {
        if self.sheds_publications() {
            self.metrics.published("refused");
            return Err(OverlayError::Degraded);
        }
        Ok(())
    }
}

/// What a configuration says, ready for use.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) security: Security,
    /// Who may come, or answer, without a token.
    pub(crate) listed: HashSet<NodeId>,
    /// What this node shows, bound to each connection first. Nobody is ever shown it as it is.
    token: Option<captoken::Token>,
    pub(crate) tls: Option<Tls>,
    pub(crate) tokens: Arc<TokenKeys>,
    pub(crate) handshake: Duration,
    /// Peers are dialled through it.
    pub(crate) proxy: Option<Socks5Proxy>,
    pub(crate) waits: Waits,
    pub(crate) inflight_frames: usize,
    pub(crate) rate: Option<Rate>,
    max_rps: u32,
    pub(crate) max_frame: u32,
    /// Fewer connected peers than this are too few; 0 if there are none to dial.
    pub(crate) min_peers: usize,
    features: Features,
    pub(crate) chunk: usize,
    pub(crate) drop_oldest: bool,
    pub(crate) topics: Vec<Topic>,
    pub(crate) signed: HashSet<Topic>,
    pub(crate) objects: ObjectsConfig,
    /// Keys of nodes that are no neighbours.
    pub(crate) publishers: HashMap<NodeId, PeerKey>,
}

/// Both ends of a handshake between nodes.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) server: RawServerTls,
    pub(crate) client: RawClientTls,
    /// The TLS settings for QUIC.
    #[cfg(feature = "quic")]
    pub(crate) quic: crate::quic::QuicTls,
}

/// The keys that verify tokens.
#[derive(Debug, Default)]
pub(crate) struct TokenKeys {
    pub(crate) ring: KeyRing,
    pub(crate) revoked: RevocationList,
}

impl Settings {
    /// What `config` says. `idle` is how long peers may be silent if it says nothing of that.
    pub(crate) fn new(
        config: &OverlayConfig,
        idle: Duration,
        tls: Option<Tls>,
        tokens: Arc<TokenKeys>,
    ) -> Self {
        let listed_peers = config.peers.iter().filter_map(|peer| peer.id);
        let allowed = config.allow.iter().filter_map(|id| id.parse().ok());
        let topics = |names: &[String]| -> Vec<Topic> {
            names.iter().filter_map(|name| Topic::new(name).ok()).collect()
        };
        let max_rps = config.peer.max_rps;
        Self {
            security: config.security,
            listed: listed_peers.chain(allowed).collect(),
            token: config
                .token
                .as_ref()
                .filter(|_| config.security == Security::Token)
                .and_then(|token| captoken::Token::parse(token.expose().as_bytes()).ok()),
            tls,
            tokens,
            handshake: config.handshake_timeout.as_duration(),
            proxy: config.proxy.clone(),
            waits: waits(&config.timeouts, idle),
            inflight_frames: config.peer.inflight_frames,
            max_rps,
            rate: Rate::per_second(max_rps, max_rps.saturating_mul(2)).ok(),
            max_frame: u32::try_from(config.gossip.max_frame_bytes.as_u64()).unwrap_or(oap::FRAME_MAX),
            min_peers: if config.peers.is_empty() { 0 } else { config.min_peers },
            features: features(&config.gossip),
            chunk: config.gossip.chunk_bytes.as_usize(),
            drop_oldest: config.gossip.egress_policy == EgressPolicy::DropOldest,
            topics: topics(&config.topics),
            signed: topics(&config.signed_topics).into_iter().collect(),
            objects: config.objects.clone(),
            publishers: publishers(&config.publishers),
        }
    }

    /// The bounds of what waits for one peer.
    pub(crate) fn egress(&self) -> outbox::Limits {
        outbox::Limits {
            permits: self.inflight_frames,
            queued: EGRESS_FRAMES,
            queued_bytes: EGRESS_BYTES,
            control: CONTROL_FRAMES,
            drop_oldest: self.drop_oldest,
        }
    }

    /// How this node introduces itself. `channel` is what the connection has in common for tokens of this node; without it,
    /// none is shown.
    pub(crate) fn hello(&self, me: NodeId, channel: Option<[u8; captoken::CHANNEL_LEN]>) -> Hello {
        Hello {
            version: oap::VERSION,
            node: me,
            features: self.features,
            max_frame: self.max_frame,
            credit: CREDIT,
            max_streams: MAX_STREAMS,
            rate: self.max_rps,
            token: channel.and_then(|channel| self.bound_token(&channel)),
            topics: self.topics.clone(),
        }
    }

    /// This node's token for one connection: its receiver cannot use it anywhere else.
    fn bound_token(&self, channel: &[u8; captoken::CHANNEL_LEN]) -> Option<oap::Token> {
        let token = self.token.clone()?.attenuate(&Caveat::Channel(channel)).ok()?;
        oap::Token::new(Bytes::copy_from_slice(token.encode().as_bytes()))
    }

    /// Whether a node may come, or answer, without a token.
    pub(crate) fn lists(&self, node: NodeId) -> bool {
        self.security == Security::Plaintext || self.listed.contains(&node)
    }

    /// Whether a node has to show a token.
    pub(crate) fn needs_token(&self, node: NodeId) -> bool {
        self.security == Security::Token && !self.listed.contains(&node)
    }

    /// Whether a peer that has introduced itself may stay: it is listed, or shows a token that says so and is bound to its
    /// connection, whose `channel` this is.
    pub(crate) fn admits(
        &self,
        hello: &Hello,
        channel: Option<[u8; captoken::CHANNEL_LEN]>,
        ip: Option<IpAddr>,
        unix: Duration,
    ) -> Result<(), &'static str> {
        if self.lists(hello.node) {
            return Ok(());
        }
        let Some(token) = hello.token.as_ref().filter(|_| self.security == Security::Token) else {
            return Err("the node is not listed, and shows no token");
        };
        let request = captoken::Request {
            path: "",
            method: "",
            ip,
            now: unix.as_secs(),
            tenant: None,
            scope: Some(JOIN_SCOPE),
            session: Some(NodeSession { node: hello.node, channel }),
        };
        let shown = captoken::verify(token.reveal(), &self.tokens.ring, &self.tokens.revoked, &request);
        match shown {
            Ok(bearer) if bearer.is_bound() => Ok(()),
            Ok(_) => Err("the token is not bound to the connection"),
            Err(captoken::TokenError::WrongNode) => Err("the token is for other nodes"),
            Err(captoken::TokenError::WrongChannel) => Err("the token is bound to another connection"),
            // A stranger learns no more of why its token is not good.
            Err(_) => Err("the node is not listed, and its token does not let it join"),
        }
    }
}

fn features(config: &GossipConfig) -> Features {
    let mut features = Features::OBJECTS;
    for (feature, is_wanted) in
        [(Features::CRC32C, config.checksums), (Features::PATTERNS, config.pattern_hops > 0)]
    {
        features = if is_wanted { features.with(feature) } else { features };
    }
    features
}

fn waits(config: &TimeoutsConfig, idle: Duration) -> Waits {
    let configured_idle = config.idle.as_duration();
    Waits {
        read: config.read.as_duration(),
        write: config.write.as_duration(),
        idle: if configured_idle.is_zero() { idle } else { configured_idle },
    }
}

fn publishers(keys: &[String]) -> HashMap<NodeId, PeerKey> {
    let keys = keys.iter().filter_map(|key| public_key(key));
    keys.map(|key| (NodeId::of_key(key.ed25519()), key)).collect()
}

/// The right that a token must carry.
const JOIN_SCOPE: &str = "overlay.join";

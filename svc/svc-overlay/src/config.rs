//! The `[overlay]` table of the configuration file.

mod api;
mod limits;
mod objects;
mod peer;
mod security;

use std::{collections::BTreeSet, time::Duration};

use ron_kernel::config::{Checks, HumanDuration, Problems, Secret, Table};
use ron_transport::{addr::ListenAddr, socks5::Socks5Proxy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use api::{ApiAuth, ApiConfig};
pub use limits::{EgressPolicy, GossipConfig, PeerLimits, TimeoutsConfig, TransportConfig};
pub use objects::ObjectsConfig;
pub use peer::{PeerAddr, PeerAddrError, Transport};
pub use security::{PqConfig, Security};
pub(crate) use security::{is_reachable, public_key};

use crate::quic;

/// Longer handshakes than this need `danger_ok`: each holds one of few places.
const SAFE_MAX_HANDSHAKE: Duration = Duration::from_secs(30);
/// More peers to dial than this need another kind of network.
const MAX_PEERS: usize = 4096;
/// More topics than this do not fit a greeting.
const MAX_TOPICS: usize = oap::HELLO_TOPICS_MAX;

/// The gossip overlay between nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OverlayConfig {
    /// Whether the overlay runs.
    pub enabled: bool,
    /// The listening address: `127.0.0.1:9500`, `[::]:9500`, `unix:/run/overlay.sock` or `inherit:name`.
    pub listen: ListenAddr,
    /// The UDP address for QUIC, in addition to `listen`: `0.0.0.0:9500`. If absent, QUIC is off. Needs a build
    /// with `--features quic`.
    pub quic_listen: Option<ListenAddr>,
    /// Nodes that this node dials, and that may dial it: `"b3:<node id>@node-b.example:9500"`, or
    /// `"b3:<node id>@quic://node-b.example:9500"` over QUIC. Without `b3:<node id>@`, any node that answers there
    /// is accepted, which needs `security = "token"` or `"plaintext"`.
    pub peers: Vec<PeerAddr>,
    /// A SOCKS5 proxy, such as Tor's, through which `peers` are dialled, except those at Unix sockets:
    /// `socks5://127.0.0.1:9050`. It resolves their names, including those that end in `.onion`. If absent, peers are
    /// dialled directly.
    pub proxy: Option<Socks5Proxy>,
    /// The minimum number of connected peers: with fewer for ten seconds, the node reports `isolated`. Applies only
    /// if `peers` is not empty; 0 for never.
    pub min_peers: usize,
    /// Ids of nodes that may dial this node and are not dialled by it.
    pub allow: Vec<String>,
    /// Topics that this node participates in, and relays, from its start: `"omnigate/accounting"`.
    pub topics: Vec<String>,
    /// Topics in which only publications signed by their publisher are accepted, and this node signs its own.
    pub signed_topics: Vec<String>,
    /// Ed25519 keys of nodes that are not neighbours and whose signatures are verified: 64 hexadecimal digits each,
    /// as `omnigate node key` prints them on that node.
    pub publishers: Vec<String>,
    /// `mtls`: nodes prove their keys, and only listed nodes are accepted. `token`: nodes prove their keys, and
    /// nodes that are not listed present a token with the scope `overlay.join`. `plaintext`: no TLS, between
    /// addresses of this machine only.
    pub security: Security,
    /// The token that this node presents to peers that do not list its id.
    pub token: Option<Secret>,
    /// Settings of the post-quantum key exchange.
    pub pq: PqConfig,
    /// Timeout from the connection to the end of both HELLOs; then the connection closes.
    pub handshake_timeout: HumanDuration,
    /// Timeouts of peers.
    pub timeouts: TimeoutsConfig,
    /// Limits of one peer.
    pub peer: PeerLimits,
    /// Distribution of publications (gossip).
    pub gossip: GossipConfig,
    /// Limits of connections.
    pub transport: TransportConfig,
    /// Objects that peers may request and offer.
    pub objects: ObjectsConfig,
    /// The listener for applications that publish and subscribe.
    pub api: ApiConfig,
}

impl Default for OverlayConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            listen: ListenAddr::Tcp(([127, 0, 0, 1], 9500).into()),
            quic_listen: None,
            peers: Vec::new(),
            proxy: None,
            min_peers: 1,
            allow: Vec::new(),
            topics: Vec::new(),
            signed_topics: Vec::new(),
            publishers: Vec::new(),
            security: Security::default(),
            token: None,
            pq: PqConfig::default(),
            handshake_timeout: HumanDuration::from_secs(3),
            timeouts: TimeoutsConfig::default(),
            peer: PeerLimits::default(),
            gossip: GossipConfig::default(),
            transport: TransportConfig::default(),
            objects: ObjectsConfig::default(),
            api: ApiConfig::default(),
        }
    }
}

impl Table for OverlayConfig {
    const NAME: &'static str = "overlay";
    const RESTART: &'static [&'static str] = &[
        "enabled",
        "security",
        "quic_listen",
        "api.enabled",
        "api.max_publishing",
        "gossip.relay_fanout",
        "gossip.burst_budget_frames",
        "gossip.history",
        "gossip.window",
        "gossip.pattern_hops",
        "gossip.cache_messages",
        "gossip.cache_bytes",
        "gossip.max_topics",
        "gossip.max_publishers",
        "gossip.retain_events",
        "gossip.retain_bytes",
        "gossip.retain_all_bytes",
        "objects.max_bytes",
        "objects.ram_bytes",
        "objects.streams",
    ];

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        let danger_ok = checks.danger_ok();
        self.check_security(problems);
        self.check_quic(problems);
        self.check_proxy(problems);
        self.check_peers(problems);
        self.check_topics(problems);
        self.check_publishers(problems);
        if self.handshake_timeout.as_duration().is_zero() {
            problems.at("handshake_timeout", "must be longer than nothing");
        }
        problems.guard("handshake_timeout", self.handshake_timeout, SAFE_MAX_HANDSHAKE.into(), danger_ok);
        self.pq.check(problems);
        self.timeouts.check(danger_ok, problems);
        self.peer.check(danger_ok, problems);
        self.gossip.check(danger_ok, problems);
        self.transport.check(danger_ok, problems);
        self.objects.check(danger_ok, problems);
        if self.api.enabled {
            problems.under("api", |problems| self.api.check(danger_ok, problems));
        }
    }
}

/// Why a token cannot be shown to a peer: it has to have room for the caveat that binds it to a connection.
fn unusable(token: &str) -> Option<String> {
    let token = captoken::Token::parse(token.as_bytes());
    let bound =
        token.and_then(|token| token.attenuate(&captoken::Caveat::Channel(&[0; captoken::CHANNEL_LEN])));
    bound.err().map(|error| format!("cannot be shown to peers: {error}"))
}

impl OverlayConfig {
    fn check_security(&self, problems: &mut Problems) {
        if self.security == Security::Plaintext && security::is_reachable(&self.listen) {
            problems
                .at("listen", format!("{} can be reached from other machines, in the clear", self.listen))
                .help("use security = \"mtls\" or \"token\", or listen on 127.0.0.1");
        }
        if let Some(problem) = self.token.as_ref().and_then(|token| unusable(token.expose())) {
            problems.at("token", problem).help("make one with `omnigate token mint --scope overlay.join`");
        }
    }

    /// QUIC has to be compiled in, is never without TLS, and listens on an address and a port.
    fn check_quic(&self, problems: &mut Problems) {
        let listens = self.quic_listen.iter().map(|_| "quic_listen".to_owned());
        let dialled = self.peers.iter().enumerate().filter(|(_, peer)| peer.transport == Transport::Quic);
        for at in listens.chain(dialled.map(|(index, _)| format!("peers.{index}"))) {
            if !quic::QUIC_AVAILABLE {
                problems
                    .at(at, "QUIC is not part of this program")
                    .help("build it with `cargo build --features quic`, or use TCP");
            } else if self.security == Security::Plaintext {
                problems
                    .at(at, "QUIC is always encrypted, and this node speaks in the clear")
                    .help("use security = \"mtls\" or \"token\"");
            }
        }
        if let Some(addr) = self.quic_listen.as_ref().filter(|addr| !matches!(addr, ListenAddr::Tcp(_))) {
            problems.at("quic_listen", format!("{addr} is no address and port, which QUIC needs"));
        }
    }

    /// What a proxy is for must go through it, and nothing beside it.
    fn check_proxy(&self, problems: &mut Problems) {
        for (index, peer) in self.peers.iter().enumerate() {
            let at = format!("peers.{index}");
            match &self.proxy {
                None if peer.is_onion() => problems
                    .at(at, "names that end in `.onion` are known to Tor alone")
                    .help("set overlay.proxy = \"socks5://127.0.0.1:9050\", where Tor listens"),
                Some(_) if peer.transport == Transport::Quic => problems
                    .at(at, "QUIC would go around `overlay.proxy`, which carries TCP alone")
                    .help("dial the peer over TCP, or remove overlay.proxy"),
                _ => continue,
            };
        }
        if self.proxy.is_some() && self.security == Security::Plaintext {
            problems
                .at("proxy", "would be shown everything, because this node speaks in the clear")
                .help("use security = \"mtls\" or \"token\"");
        }
    }

    fn check_peers(&self, problems: &mut Problems) {
        if self.peers.len() > MAX_PEERS {
            problems.at("peers", format!("names {} peers, more than {MAX_PEERS}", self.peers.len()));
        }
        let known = self.peers.len() + self.allow.len();
        if self.security == Security::Mtls && !self.peers.is_empty() && self.min_peers > known {
            problems
                .at("min_peers", format!("is more than the {known} nodes in `peers` and `allow`"))
                .help("no other node can connect with security = \"mtls\"");
        }
        let mut seen = BTreeSet::new();
        for (index, peer) in self.peers.iter().enumerate() {
            let at = format!("peers.{index}");
            if !seen.insert(peer.to_string()) {
                problems.at(at.clone(), format!("{peer} is listed twice"));
            }
            if peer.id.is_none() && self.security == Security::Mtls {
                problems
                    .at(at.clone(), "says nothing of who is to answer there")
                    .help("write b3:<node id>@host:port; `omnigate node id` there prints the id");
            }
            if self.security == Security::Plaintext && !peer.is_local() {
                problems
                    .at(at, format!("{peer} would be spoken to in the clear"))
                    .help("use security = \"mtls\" or \"token\"; plaintext is for addresses of this machine");
            }
        }
        for (index, id) in self.allow.iter().enumerate() {
            if let Err(error) = id.parse::<types::NodeId>() {
                problems.at(format!("allow.{index}"), error.to_string());
            }
        }
    }

    fn check_publishers(&self, problems: &mut Problems) {
        for (index, key) in self.publishers.iter().enumerate() {
            if security::public_key(key).is_none() {
                problems.at(format!("publishers.{index}"), "is not a key: write 64 hexadecimal digits");
            }
        }
    }

    fn check_topics(&self, problems: &mut Problems) {
        for (key, topics) in [("topics", &self.topics), ("signed_topics", &self.signed_topics)] {
            if topics.len() > MAX_TOPICS {
                problems.at(key, format!("names {} topics, more than {MAX_TOPICS}", topics.len()));
            }
            let mut names = BTreeSet::new();
            for (index, topic) in topics.iter().enumerate() {
                let at = format!("{key}.{index}");
                if let Err(error) = oap::Topic::new(topic) {
                    problems.at(at, error.to_string());
                } else if !names.insert(topic) {
                    problems.at(at, format!("`{topic}` is listed twice"));
                }
            }
        }
    }
}

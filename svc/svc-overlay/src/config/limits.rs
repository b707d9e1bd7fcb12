//! What peers may cost: waits, frames, rates, connections.

use std::time::Duration;

use ron_kernel::config::{ByteSize, HumanDuration, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longer waits for a peer than this need `danger_ok`.
const SAFE_MAX_WAIT: Duration = Duration::from_secs(60);
/// Longer silence than this needs `danger_ok`: a dead peer would be believed alive for as long.
const SAFE_MAX_IDLE: Duration = Duration::from_secs(600);
/// More frames on their way to one peer than this need `danger_ok`.
const SAFE_MAX_INFLIGHT: usize = 512;
/// More connections than this need `danger_ok`: each takes some 30 KiB over TLS.
const SAFE_MAX_CONNS: usize = 65_536;
/// The smallest frame cap that still carries every message.
const MIN_FRAME: ByteSize = ByteSize::kib(128);
/// The protocol's largest frame.
const MAX_FRAME: ByteSize = ByteSize::mib(1);
/// The protocol's largest chunk.
const MAX_CHUNK: ByteSize = ByteSize::kib(64);
/// More neighbours that everything is pushed to need `danger_ok`.
const SAFE_MAX_FANOUT: usize = 64;
/// More than a peer's queue holds would only be refused there.
const SAFE_MAX_BURST: u32 = 512;

/// The smallest window: publishers prove their heads once in 256 publications.
const MIN_WINDOW: usize = 1024;
/// The maximum of `gossip.window`.
const MAX_WINDOW: usize = 1 << 20;
/// With one that says what is gone, as many as a new subscriber's queue takes.
const MAX_RETAINED: usize = crate::gossip::SUBSCRIBER.capacity - 1;
/// More publications in one cache than this need `danger_ok`.
const SAFE_MAX_CACHED: usize = 1 << 20;
/// Larger caches than this need `danger_ok`: each core has one.
const SAFE_MAX_CACHE: ByteSize = ByteSize::gib(1);
/// More topics than this need `danger_ok`.
const SAFE_MAX_TOPICS: usize = 65_536;
/// More publishers of a topic than this need `danger_ok`.
const SAFE_MAX_PUBLISHERS: usize = 65_536;
/// More bytes of events of a topic than this need `danger_ok`.
const SAFE_MAX_RETAINED: ByteSize = ByteSize::mib(64);

/// Timeouts of peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutsConfig {
    /// Timeout from the first byte of a frame to its last; then the connection closes.
    pub read: HumanDuration,
    /// Timeout for each wait for the peer to read more; then the connection closes.
    pub write: HumanDuration,
    /// How long a peer may be silent; it gets a PING after half of this time. Then the connection closes. `0s`
    /// means 15s on a micronode and 30s on a macronode.
    pub idle: HumanDuration,
}

impl Default for TimeoutsConfig {
    fn default() -> Self {
        Self {
            read: HumanDuration::from_secs(5),
            write: HumanDuration::from_secs(5),
            idle: HumanDuration::from_secs(0),
        }
    }
}

impl TimeoutsConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, wait) in [("timeouts.read", self.read), ("timeouts.write", self.write)] {
            if wait.as_duration().is_zero() {
                problems.at(key, "must be longer than nothing");
            }
            problems.guard(key, wait, SAFE_MAX_WAIT.into(), danger_ok);
        }
        problems.guard("timeouts.idle", self.idle, SAFE_MAX_IDLE.into(), danger_ok);
    }
}

/// Limits of one peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PeerLimits {
    /// Frames in flight to a peer, or from it to the gossip engine; further frames wait.
    pub inflight_frames: usize,
    /// Frames per second of one peer, not counting pieces of objects, with a burst of one second. More are refused
    /// with `quota`; 0 for no limit.
    pub max_rps: u32,
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self { inflight_frames: 128, max_rps: 500 }
    }
}

impl PeerLimits {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        if self.inflight_frames == 0 {
            problems.at("peer.inflight_frames", "must be at least 1");
        }
        problems.guard("peer.inflight_frames", self.inflight_frames, SAFE_MAX_INFLIGHT, danger_ok);
    }
}

/// What a full queue to a peer does with one more publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EgressPolicy {
    /// Refuses it, which keeps what is sent fresh.
    #[default]
    RejectNew,
    /// Takes it and gives the oldest up.
    DropOldest,
}

/// Distribution of publications (gossip).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GossipConfig {
    /// Number of neighbours that a publication is pushed to (eager push); the others get an announcement and
    /// request it.
    pub relay_fanout: usize,
    /// Publications of one topic in flight to one peer; beyond it they are announced instead of pushed.
    pub burst_budget_frames: u32,
    /// The maximum number of bytes of an object in one frame; at most 64KiB.
    pub chunk_bytes: ByteSize,
    /// The longest frame that is accepted; 128KiB to 1MiB. Two peers use the smaller of their limits.
    pub max_frame_bytes: ByteSize,
    /// Whether frames have checksums, if the peer has this setting too; TLS protects its connections anyway.
    pub checksums: bool,
    /// What a full queue to a peer does with one more publication: `reject_new` or `drop_oldest`.
    pub egress_policy: EgressPolicy,
    /// Publications before the first one received from a publisher that are requested; older ones are reported as a
    /// gap.
    pub history: u64,
    /// The sequence numbers of a publisher that are tracked below its highest one, and how far a number may be
    /// beyond what its publisher has signed: a power of two from 1024 to 1048576. A missing publication is reported
    /// once it is this far behind. Takes an eighth of this in bytes for each publisher of each topic, 4 KiB by
    /// default.
    pub window: usize,
    /// Number of links that the patterns of local subscribers are announced over, so that topics are found at nodes
    /// that are not neighbours: at most 8. With 0, patterns match topics of neighbours only, and this node relays
    /// none.
    pub pattern_hops: u8,
    /// Publications kept for peers that request them, on each core.
    pub cache_messages: usize,
    /// Bytes of publications kept for peers, on each core: the overlay's caches take at most this times
    /// `node.cores`.
    pub cache_bytes: ByteSize,
    /// Topics that this node or its peers participate in, on each core; a quarter is reserved for this node's own,
    /// and the rest is shared by applications and peers. About 1 KiB each, besides what their publishers take.
    pub max_topics: usize,
    /// Publishers remembered per topic, each incarnation counted separately; about 300 bytes each, and the window.
    pub max_publishers: usize,
    /// Events of a topic that are kept for subscribers that resume: at most 1023.
    pub retain_events: usize,
    /// Bytes of kept events, for each topic that has a local subscriber or that `topics` lists.
    pub retain_bytes: ByteSize,
    /// Bytes of kept events, for all topics on each core; beyond it, the oldest events of the topic that keeps the
    /// most are dropped.
    pub retain_all_bytes: ByteSize,
}

impl Default for GossipConfig {
    fn default() -> Self {
        Self {
            relay_fanout: 8,
            burst_budget_frames: 256,
            chunk_bytes: ByteSize::kib(64),
            max_frame_bytes: ByteSize::mib(1),
            checksums: false,
            egress_policy: EgressPolicy::default(),
            history: 32,
            window: 32_768,
            pattern_hops: 4,
            cache_messages: 32_768,
            cache_bytes: ByteSize::mib(64),
            max_topics: 1024,
            max_publishers: 4096,
            retain_events: MAX_RETAINED,
            retain_bytes: ByteSize::mib(4),
            retain_all_bytes: ByteSize::mib(64),
        }
    }
}

impl GossipConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        if self.relay_fanout == 0 {
            problems.at("gossip.relay_fanout", "must be at least 1");
        }
        problems.guard("gossip.relay_fanout", self.relay_fanout, SAFE_MAX_FANOUT, danger_ok);
        if self.burst_budget_frames == 0 {
            problems.at("gossip.burst_budget_frames", "must be at least 1");
        }
        problems.guard("gossip.burst_budget_frames", self.burst_budget_frames, SAFE_MAX_BURST, danger_ok);
        if !(MIN_FRAME..=MAX_FRAME).contains(&self.max_frame_bytes) {
            problems.at("gossip.max_frame_bytes", format!("must be {MIN_FRAME} to {MAX_FRAME}"));
        }
        if self.chunk_bytes == ByteSize::bytes(0) || self.chunk_bytes > MAX_CHUNK {
            problems.at("gossip.chunk_bytes", format!("must be at most {MAX_CHUNK}, and greater than zero"));
        }
        if self.pattern_hops > oap::PATTERN_HOPS_MAX {
            problems.at("gossip.pattern_hops", format!("must be at most {}", oap::PATTERN_HOPS_MAX));
        }
        self.check_memory(danger_ok, problems);
    }

    fn check_memory(&self, danger_ok: bool, problems: &mut Problems) {
        if !(MIN_WINDOW..=MAX_WINDOW).contains(&self.window) || !self.window.is_power_of_two() {
            problems.at("gossip.window", format!("must be a power of two from {MIN_WINDOW} to {MAX_WINDOW}"));
        } else if self.history >= self.window as u64 {
            problems.at("gossip.history", "must be less than gossip.window");
        }
        for (key, value) in [
            ("gossip.cache_messages", self.cache_messages),
            ("gossip.cache_bytes", self.cache_bytes.as_usize()),
            ("gossip.max_topics", self.max_topics),
            ("gossip.max_publishers", self.max_publishers),
        ] {
            if value == 0 {
                problems.at(key, "must be at least 1");
            }
        }
        if self.retain_events > MAX_RETAINED {
            problems.at("gossip.retain_events", format!("must be at most {MAX_RETAINED}"));
        }
        problems.guard("gossip.cache_messages", self.cache_messages, SAFE_MAX_CACHED, danger_ok);
        problems.guard("gossip.cache_bytes", self.cache_bytes, SAFE_MAX_CACHE, danger_ok);
        problems.guard("gossip.max_topics", self.max_topics, SAFE_MAX_TOPICS, danger_ok);
        problems.guard("gossip.max_publishers", self.max_publishers, SAFE_MAX_PUBLISHERS, danger_ok);
        problems.guard("gossip.retain_bytes", self.retain_bytes, SAFE_MAX_RETAINED, danger_ok);
        problems.guard("gossip.retain_all_bytes", self.retain_all_bytes, SAFE_MAX_CACHE, danger_ok);
    }

    /// Returns the settings of the gossip engine.
    pub(crate) fn engine(&self) -> gossip::Settings {
        gossip::Settings {
            relay_fanout: self.relay_fanout,
            burst_budget: self.burst_budget_frames,
            history: self.history,
            dedupe_window: self.window,
            cache_messages: self.cache_messages,
            cache_bytes: self.cache_bytes.as_usize(),
            max_topics: self.max_topics,
            max_publishers: self.max_publishers,
            ..gossip::Settings::default()
        }
    }
}

/// Limits of connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TransportConfig {
    /// The maximum number of connections; further ones are refused. At most a quarter of the files that the process
    /// may open is used.
    pub max_conns: usize,
    /// The maximum number of connections from one address; 0 means a quarter of `max_conns`. An IPv6 /64 counts as
    /// one address.
    pub max_conns_per_client: usize,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self { max_conns: 5000, max_conns_per_client: 0 }
    }
}

impl TransportConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        if self.max_conns == 0 {
            problems.at("transport.max_conns", "must be at least 1");
        }
        problems.guard("transport.max_conns", self.max_conns, SAFE_MAX_CONNS, danger_ok);
    }

    /// Connections from one address.
    #[must_use]
    pub const fn per_client(&self) -> usize {
        match self.max_conns_per_client {
            0 => self.max_conns.div_ceil(4),
            n => n,
        }
    }
}

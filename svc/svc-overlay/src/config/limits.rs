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

/// How long peers may keep us waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutsConfig {
    /// From the first byte of a frame to its last; then the connection closes.
    pub read: HumanDuration,
    /// Each wait for the peer to take more; then the connection closes.
    pub write: HumanDuration,
    /// Silence of a peer, though it was asked half-way whether it is there; then the connection closes. `0s` stands for 15s
    /// on a micronode and 30s on a macronode.
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

/// What one peer may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PeerLimits {
    /// Frames on their way to a peer, or from it to the gossip engine, at a time; the others wait.
    pub inflight_frames: usize,
    /// Frames a second of one peer, beside pieces of objects; as many again may come at once. More are refused with `quota`;
    /// 0 for no limit.
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

/// How publications travel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GossipConfig {
    /// Neighbours that a publication is pushed to; the others are told of it and ask.
    pub relay_fanout: usize,
    /// Publications of one topic on their way to one peer at a time; beyond it they are announced instead of pushed.
    pub burst_budget_frames: u32,
    /// The most bytes of an object in one frame; at most 64KiB.
    pub chunk_bytes: ByteSize,
    /// The longest frame that is read; 128KiB to 1MiB. The smaller of both sides' is agreed.
    pub max_frame_bytes: ByteSize,
    /// Whether frames have checksums where the peer wants them too; TLS has its own.
    pub checksums: bool,
    /// What a full queue to a peer does with one more publication: `reject_new` or `drop_oldest`.
    pub egress_policy: EgressPolicy,
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
            problems.at("gossip.chunk_bytes", format!("must be at most {MAX_CHUNK}, and more than nothing"));
        }
    }
}

/// How many connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TransportConfig {
    /// Connections in all; more are refused.
    pub max_conns: usize,
    /// Connections from one address; 0 stands for a quarter of `max_conns`. An IPv6 /64 is one address.
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

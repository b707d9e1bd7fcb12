//! The `[gateway.limits]` table: what one connection and one request may cost.

use ron_kernel::config::{ByteSize, HumanDuration, Problems};
use ron_transport::serve::HttpLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More header fields than this need `danger_ok`.
const SAFE_MAX_HEADERS: usize = 1000;
/// Longer heads than this need `danger_ok`: every connection may hold one.
const SAFE_MAX_HEAD: ByteSize = ByteSize::kib(256);
/// Shorter heads than this would refuse ordinary requests.
const MIN_HEAD: ByteSize = ByteSize::kib(1);
/// More streams than this need `danger_ok`: each may hold 128 KiB.
const SAFE_MAX_STREAMS: u32 = 1024;
/// More unseen resets than this need `danger_ok`: they are how a client makes work without waiting for any.
const SAFE_MAX_RESETS: usize = 100;

/// What one connection and one request may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Header fields in a request; more are answered 431.
    pub max_headers: usize,
    /// Bytes in a request's head. At worst, connections hold `max_conns` × 2 × 64 KiB of buffers, or × this if it is
    /// more.
    pub max_head_bytes: ByteSize,
    /// Streams at once on an HTTP/2 connection. At worst, one that uploads and downloads on all of them holds this × 128
    /// KiB.
    pub h2_streams: u32,
    /// Streams that an HTTP/2 client may open and reset before they were looked at; more end its connection.
    pub h2_pending_resets: usize,
    /// Between two requests, how long a connection keeps its buffers.
    pub park_after: HumanDuration,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let limits = HttpLimits::default();
        Self {
            max_headers: limits.max_headers,
            max_head_bytes: ByteSize::bytes(limits.max_head_bytes as u64),
            h2_streams: limits.h2_streams,
            h2_pending_resets: limits.h2_pending_resets,
            park_after: limits.park_after.into(),
        }
    }
}

impl LimitsConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, is_none) in [
            ("limits.max_headers", self.max_headers == 0),
            ("limits.h2_streams", self.h2_streams == 0),
            ("limits.h2_pending_resets", self.h2_pending_resets == 0),
        ] {
            if is_none {
                problems.at(key, "must be at least 1");
            }
        }
        if self.max_head_bytes < MIN_HEAD {
            problems.at("limits.max_head_bytes", format!("must be at least {MIN_HEAD}"));
        }
        if self.park_after.as_duration().is_zero() {
            problems.at("limits.park_after", "must be longer than nothing");
        }
        problems.guard("limits.max_headers", self.max_headers, SAFE_MAX_HEADERS, danger_ok);
        problems.guard("limits.max_head_bytes", self.max_head_bytes, SAFE_MAX_HEAD, danger_ok);
        problems.guard("limits.h2_streams", self.h2_streams, SAFE_MAX_STREAMS, danger_ok);
        problems.guard("limits.h2_pending_resets", self.h2_pending_resets, SAFE_MAX_RESETS, danger_ok);
    }

    /// These limits in `limits`, which keeps its others.
    pub(super) fn within(&self, limits: HttpLimits) -> HttpLimits {
        HttpLimits {
            max_headers: self.max_headers,
            max_head_bytes: self.max_head_bytes.as_usize(),
            h2_streams: self.h2_streams,
            h2_pending_resets: self.h2_pending_resets,
            park_after: self.park_after.as_duration(),
            ..limits
        }
    }
}

//! The `[gateway.limits]` table: what one connection and one request may cost.

use ron_kernel::config::{ByteSize, HumanDuration, Problems};
use ron_transport::serve::HttpLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::guard::BodyLimits;

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

/// Longer bodies than this need `danger_ok`. They stream, so this is what an upstream may be sent, not what is held.
const SAFE_MAX_BODY: ByteSize = ByteSize::gib(1);
/// More expansion than this needs `danger_ok`.
const SAFE_MAX_RATIO: u32 = 100;
/// Longer decoded bodies than this need `danger_ok`.
const SAFE_MAX_DECODED: ByteSize = ByteSize::gib(1);

/// More memory for decoders than this needs `danger_ok`.
const SAFE_DECODE_MEMORY: ByteSize = ByteSize::gib(4);
/// With less than this a single decoder might not fit.
const MIN_DECODE_MEMORY: ByteSize = ByteSize::mib(1);

/// Longer bodies than this are read into memory only with `danger_ok`.
const SAFE_BUFFER_BODY: ByteSize = ByteSize::mib(1);
/// More memory for buffered bodies than this needs `danger_ok`.
const SAFE_BUFFER_MEMORY: ByteSize = ByteSize::gib(4);

/// Limits of one connection and one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// The maximum number of header fields in a request; more are answered 431.
    pub max_headers: usize,
    /// The maximum size of a request's header. At worst, connections hold `max_conns` × 2 × 64 KiB of buffers, or ×
    /// this if it is more.
    pub max_head_bytes: ByteSize,
    /// Concurrent streams on an HTTP/2 connection. At worst, a connection that uploads and downloads on all of them
    /// holds this × 160 KiB, 32 KiB of it for uploads in tiny frames.
    pub h2_streams: u32,
    /// Streams that an HTTP/2 client may open and reset before the gateway has processed them; beyond that, its
    /// connection is closed.
    pub h2_pending_resets: usize,
    /// The longest body of a request, as sent; more is answered 413 `body_cap`.
    pub max_body_bytes: ByteSize,
    /// The largest ratio of decoded to compressed size of a body, beyond its first 64 KiB; more is answered 413
    /// `decoded-ratio`.
    pub decode_ratio_max: u32,
    /// The longest body of a request after decoding; more is answered 413 `decoded-cap`.
    pub decode_abs_cap_bytes: ByteSize,
    /// Memory for all decoders of compressed request bodies; one tenant gets at most half of what the others leave.
    /// A body that does not fit is answered 503 `degraded`, or 429 `busy` if its tenant's half is used up. A
    /// decoder holds 48 KiB (gzip, deflate) or up to what it has decoded (br: 20 MiB, zstd: 9 MiB at most), for as
    /// long as the client takes to send the body.
    pub decode_memory: ByteSize,
    /// Request bodies up to this length are read completely before the request takes a slot, so that a slow upload
    /// holds no slot; 0 for none. Exempt are gRPC requests, routes with `stream = true`, and requests with
    /// `Expect: 100-continue`.
    pub buffer_body_bytes: ByteSize,
    /// Memory for such bodies and for responses that their clients have not read yet. One tenant gets at most half
    /// of what the others leave, and at most a quarter of the whole. What does not fit is not buffered. In
    /// addition, every tenant may have one response of a view, up to as much again in all.
    pub buffer_memory: ByteSize,
    /// How long an idle connection keeps its buffers.
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
            max_body_bytes: ByteSize::mib(1),
            decode_ratio_max: 10,
            decode_abs_cap_bytes: ByteSize::mib(8),
            decode_memory: ByteSize::mib(64),
            buffer_body_bytes: ByteSize::kib(64),
            buffer_memory: ByteSize::mib(64),
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
            ("limits.decode_ratio_max", self.decode_ratio_max == 0),
        ] {
            if is_none {
                problems.at(key, "must be at least 1");
            }
        }
        if self.max_head_bytes < MIN_HEAD {
            problems.at("limits.max_head_bytes", format!("must be at least {MIN_HEAD}"));
        }
        if self.decode_memory < MIN_DECODE_MEMORY {
            problems.at("limits.decode_memory", format!("must be at least {MIN_DECODE_MEMORY}"));
        }
        if self.park_after.as_duration().is_zero() {
            problems.at("limits.park_after", "must be longer than nothing");
        }
        problems.guard("limits.max_headers", self.max_headers, SAFE_MAX_HEADERS, danger_ok);
        problems.guard("limits.max_head_bytes", self.max_head_bytes, SAFE_MAX_HEAD, danger_ok);
        problems.guard("limits.max_body_bytes", self.max_body_bytes, SAFE_MAX_BODY, danger_ok);
        problems.guard("limits.decode_ratio_max", self.decode_ratio_max, SAFE_MAX_RATIO, danger_ok);
        problems.guard("limits.decode_abs_cap_bytes", self.decode_abs_cap_bytes, SAFE_MAX_DECODED, danger_ok);
        problems.guard("limits.decode_memory", self.decode_memory, SAFE_DECODE_MEMORY, danger_ok);
        problems.guard("limits.buffer_body_bytes", self.buffer_body_bytes, SAFE_BUFFER_BODY, danger_ok);
        problems.guard("limits.buffer_memory", self.buffer_memory, SAFE_BUFFER_MEMORY, danger_ok);
        problems.guard("limits.h2_streams", self.h2_streams, SAFE_MAX_STREAMS, danger_ok);
        problems.guard("limits.h2_pending_resets", self.h2_pending_resets, SAFE_MAX_RESETS, danger_ok);
    }

    /// The limits of a request's body.
    pub(crate) fn body(&self) -> BodyLimits {
        BodyLimits {
            max_body_bytes: self.max_body_bytes.as_u64(),
            decode_ratio_max: self.decode_ratio_max,
            decode_abs_cap_bytes: self.decode_abs_cap_bytes.as_u64(),
        }
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

//! The `[edge.fill]` and `[edge.retry]` tables: how origins are asked.

use std::time::Duration;

use ron_kernel::config::{ByteSize, HumanDuration, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More fills at once than this need `danger_ok`: each holds a connection to an origin.
const SAFE_MAX_WORKERS: usize = 512;
/// More bytes on their way than this need `danger_ok`.
const SAFE_MAX_INFLIGHT: ByteSize = ByteSize::gib(4);
/// More retries than this only multiply the load on what is failing.
const MAX_RETRIES: u32 = 10;

/// How origins are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FillConfig {
    /// Fills of one origin at once; of all origins together 512 at most.
    pub workers: usize,
    /// The longest wait for an origin to accept a connection, TLS included.
    pub connect_timeout: HumanDuration,
    /// The longest object that is stored; more is refused.
    pub max_object_bytes: ByteSize,
    /// Bytes of all fills under way, of which one origin has at most half, or one object; a fill that does not fit waits for
    /// others within its deadline.
    pub inflight_bytes: ByteSize,
    /// Fills begun in a second; more are answered 429 `quota`; 0 for no limit.
    pub rps_limit: u32,
    /// How long an object is fresh whose origin does not say.
    pub default_ttl: HumanDuration,
    /// How long a miss at an origin (404, 410) is remembered, where the origin does not say.
    pub negative_ttl: HumanDuration,
    /// URLs remembered, at half a KiB of memory each, so that a long one counts as several; what was not asked for the
    /// longest goes first.
    pub max_entries: usize,
}

impl Default for FillConfig {
    fn default() -> Self {
        Self {
            workers: 8,
            connect_timeout: Duration::from_secs(1).into(),
            max_object_bytes: ByteSize::mib(256),
            inflight_bytes: ByteSize::mib(512),
            rps_limit: 0,
            default_ttl: Duration::from_secs(60).into(),
            negative_ttl: Duration::from_secs(10).into(),
            max_entries: 100_000,
        }
    }
}

impl FillConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, is_none) in [
            ("fill.workers", self.workers == 0),
            ("fill.max_entries", self.max_entries == 0),
            ("fill.max_object_bytes", self.max_object_bytes.as_u64() == 0),
        ] {
            if is_none {
                problems.at(key, "must be at least 1");
            }
        }
        if self.connect_timeout.as_duration().is_zero() {
            problems.at("fill.connect_timeout", "must be longer than nothing");
        }
        if self.inflight_bytes < self.max_object_bytes {
            let message = format!(
                "must hold one object, which `fill.max_object_bytes` lets be {}",
                self.max_object_bytes
            );
            problems.at("fill.inflight_bytes", message);
        }
        problems.guard("fill.workers", self.workers, SAFE_MAX_WORKERS, danger_ok);
        problems.guard("fill.inflight_bytes", self.inflight_bytes, SAFE_MAX_INFLIGHT, danger_ok);
    }
}

/// Trying again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// A fill that failed for a reason that may pass.
    pub live_fill: LiveFillRetry,
}

/// The waits between the tries of a fill: `min(max_ms, base_ms · 2ⁿ)`, and with `jitter` up to `base_ms` more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LiveFillRetry {
    /// Milliseconds of the first wait; each next one doubles.
    pub base_ms: u64,
    /// Milliseconds of the longest wait.
    pub max_ms: u64,
    /// Tries after the first.
    pub max_retries: u32,
    /// Whether up to `base_ms` more is added to each wait, so that many who failed at once do not return at once.
    pub jitter: bool,
}

impl Default for LiveFillRetry {
    fn default() -> Self {
        Self { base_ms: 50, max_ms: 800, max_retries: 2, jitter: true }
    }
}

impl RetryConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        let retry = &self.live_fill;
        if retry.base_ms == 0 {
            problems.at("retry.live_fill.base_ms", "must be at least 1");
        }
        if retry.max_ms < retry.base_ms {
            problems
                .at("retry.live_fill.max_ms", format!("is less than `base_ms`, which is {}", retry.base_ms));
        }
        if retry.max_retries > MAX_RETRIES {
            let message =
                format!("{} retries only multiply the load; use at most {MAX_RETRIES}", retry.max_retries);
            problems.at("retry.live_fill.max_retries", message);
        }
    }
}

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

/// Fetching from origins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FillConfig {
    /// Concurrent fetches from one origin; at most 512 from all origins together.
    pub workers: usize,
    /// Timeout for connecting to an origin, including TLS.
    pub connect_timeout: HumanDuration,
    /// The longest object that is stored; more is refused.
    pub max_object_bytes: ByteSize,
    /// The total size of all fetches in progress, of which one client gets at most half and one origin three
    /// quarters, unless one object is longer; a fetch that does not fit waits within its deadline. Small objects do
    /// not wait: another eighth of this size is divided equally among the workers for them.
    pub inflight_bytes: ByteSize,
    /// Fetches started per second; more are answered 429 `quota`. 0 for no limit.
    pub rps_limit: u32,
    /// How long an object is fresh if its origin gives no lifetime.
    pub default_ttl: HumanDuration,
    /// How long a miss at an origin (404, 410) is cached if the origin gives no lifetime.
    pub negative_ttl: HumanDuration,
    /// The maximum number of URLs in the index, at half a KiB of memory each; a long URL counts as several. The
    /// least recently used ones are evicted.
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

/// Retries of fetches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// Retries of a fetch that failed for a temporary reason.
    pub live_fill: LiveFillRetry,
}

/// The waits between the tries of a fill: `min(max_ms, base_ms · 2ⁿ)`, and with `jitter` up to `base_ms` more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LiveFillRetry {
    /// The first delay, in milliseconds; each further delay is twice as long.
    pub base_ms: u64,
    /// The longest delay, in milliseconds.
    pub max_ms: u64,
    /// The maximum number of retries after the first try.
    pub max_retries: u32,
    /// Whether a random time of up to `base_ms` is added to each delay, so that fetches that failed together are
    /// not retried together.
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

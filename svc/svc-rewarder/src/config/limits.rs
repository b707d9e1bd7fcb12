//! How much the rewarder does at once, and what a request may cost.

use ron_kernel::config::{ByteSize, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More than this at once need `danger_ok`: each may hold all rows of an epoch.
const SAFE_MAX_WORKERS: usize = 64;
/// More than this at once need `danger_ok`.
const SAFE_MAX_INFLIGHT: usize = 4096;
/// Longer bodies than this need `danger_ok`: they are read whole.
const SAFE_MAX_BODY: ByteSize = ByteSize::mib(64);
/// More rows than this in one epoch need `danger_ok`: sums of each actor are kept while they are added up.
const SAFE_MAX_ROWS: u64 = 1_000_000_000;

/// Limits of concurrent work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConcurrencyConfig {
    /// Epochs that are computed concurrently. Each takes a thread, and memory for the sums of all its actors.
    pub compute_workers: usize,
    /// Concurrent requests that read or write stored data; more are answered 429 `busy`.
    pub io_inflight: usize,
}

impl Default for ConcurrencyConfig {
    fn default() -> Self {
        Self { compute_workers: 4, io_inflight: 64 }
    }
}

impl ConcurrencyConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, value, safe_max) in [
            ("concurrency.compute_workers", self.compute_workers, SAFE_MAX_WORKERS),
            ("concurrency.io_inflight", self.io_inflight, SAFE_MAX_INFLIGHT),
        ] {
            if value == 0 {
                problems.at(key, "must be at least 1");
            }
            problems.guard(key, value, safe_max, danger_ok);
        }
    }
}

/// What a request and an epoch may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// The longest body of a request; more is answered 413 `body_cap`.
    pub max_body_bytes: ByteSize,
    /// The maximum number of rows in one epoch, of all nodes together; an epoch with more is quarantined.
    pub max_rows: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { max_body_bytes: ByteSize::mib(1), max_rows: 100_000_000 }
    }
}

impl LimitsConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        if self.max_body_bytes.as_u64() == 0 {
            problems.at("limits.max_body_bytes", "must be at least 1 byte");
        }
        problems.guard("limits.max_body_bytes", self.max_body_bytes, SAFE_MAX_BODY, danger_ok);
        problems.guard("limits.max_rows", self.max_rows, SAFE_MAX_ROWS, danger_ok);
    }
}

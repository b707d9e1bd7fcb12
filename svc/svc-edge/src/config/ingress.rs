//! The `[edge.ingress]` table: what one request may cost, and how many at once.

use std::time::Duration;

use ron_kernel::config::{ByteSize, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longer requests than this need `danger_ok`.
const SAFE_MAX_TIMEOUT_SECS: u64 = 60;
/// More requests at once than this need `danger_ok`: each may hold a file of 1 MiB.
const SAFE_MAX_INFLIGHT: usize = 65_536;
/// Longer bodies than this need `danger_ok`. Nothing here reads one.
const SAFE_MAX_BODY: ByteSize = ByteSize::gib(1);
/// More expansion than this needs `danger_ok`.
const SAFE_MAX_RATIO: u32 = 100;
/// Longer decoded bodies than this need `danger_ok`.
const SAFE_MAX_DECODED: ByteSize = ByteSize::gib(1);

/// Limits of one request, and of concurrent requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IngressConfig {
    /// Timeout in seconds from a request's header to the response's header, and for each wait for more of a
    /// request.
    pub timeout_secs: u64,
    /// Concurrent requests that wait for a disk or an origin; more are answered 429 `busy`. One client holds at
    /// most three times as many places as are free, which is three quarters if it is alone; one place in sixteen is
    /// reserved for clients that have none. Eight times as many responses may be sent from disks concurrently, by
    /// the same rules. At worst, the first 64 of them, and the first 8 of each client, hold two pieces of 256 KiB,
    /// and all others one of 32 KiB.
    pub max_inflight: usize,
    /// Requests per second of one client (an IPv6 /64 counts as one), with a burst of one second; more are answered
    /// 429 `quota`. 0 for no limit.
    pub rps_limit: u32,
    /// Requests per second of one client that need an origin, with a burst of one second; more are answered 429
    /// `quota`. 0 for no limit.
    pub fill_rps_limit: u32,
    /// The longest body of a request; more is answered 413 `body_cap`. No request to the edge needs a body.
    pub body_bytes: ByteSize,
    /// The largest ratio of decoded to compressed size of a tile or an origin's response, beyond its first 64 KiB.
    pub decompress_max_ratio: u32,
    /// The longest tile or origin's response after decoding.
    pub decompress_abs_bytes: ByteSize,
}

impl Default for IngressConfig {
    fn default() -> Self {
        Self {
            timeout_secs: 5,
            max_inflight: 512,
            rps_limit: 500,
            fill_rps_limit: 50,
            body_bytes: ByteSize::mib(1),
            decompress_max_ratio: 10,
            decompress_abs_bytes: ByteSize::mib(10),
        }
    }
}

impl IngressConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, is_none) in [
            ("ingress.timeout_secs", self.timeout_secs == 0),
            ("ingress.max_inflight", self.max_inflight == 0),
            ("ingress.decompress_max_ratio", self.decompress_max_ratio == 0),
        ] {
            if is_none {
                problems.at(key, "must be at least 1");
            }
        }
        problems.guard("ingress.timeout_secs", self.timeout_secs, SAFE_MAX_TIMEOUT_SECS, danger_ok);
        problems.guard("ingress.max_inflight", self.max_inflight, SAFE_MAX_INFLIGHT, danger_ok);
        problems.guard("ingress.body_bytes", self.body_bytes, SAFE_MAX_BODY, danger_ok);
        let (ratio, decoded) = (self.decompress_max_ratio, self.decompress_abs_bytes);
        problems.guard("ingress.decompress_max_ratio", ratio, SAFE_MAX_RATIO, danger_ok);
        problems.guard("ingress.decompress_abs_bytes", decoded, SAFE_MAX_DECODED, danger_ok);
    }

    /// From a request's head to the response's.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_secs)
    }
}

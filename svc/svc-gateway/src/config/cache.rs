//! The `[gateway.cache]` table, and `cache = { … }` of routes: which responses are stored, and how much of them.

use std::time::Duration;

use httpcache::storage::Rules;
use ron_kernel::config::{ByteSize, HumanDuration, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More memory for stored responses than this needs `danger_ok`.
const SAFE_MAX_BYTES: ByteSize = ByteSize::gib(16);
/// With less than this hardly anything could be stored.
const MIN_BYTES: ByteSize = ByteSize::mib(1);

/// Where responses of routes with `cache` are stored, for all of them together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// Memory for stored responses: seven eighths for the bodies that were used last, of which equal ones are stored once, and
    /// one eighth for the index: the fields of all stored responses, about 1 KiB each. What was not used for longest makes room.
    pub max_bytes: ByteSize,
    /// Room on the disk for bodies, in `gateway-cache` in `node.data_dir`: what is stored there outlasts restarts. `0B` stores
    /// in memory alone, as `node.amnesia` does.
    pub disk_bytes: ByteSize,
    /// The longest body that is stored; longer ones are passed on. Until it is complete, a body is also held in
    /// `limits.buffer_memory`.
    pub max_object_bytes: ByteSize,
    /// The share of the store and of its index that responses to one tenant's requests may take, in percent; its oldest ones
    /// make room.
    pub tenant_percent: u8,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            max_bytes: ByteSize::mib(256),
            disk_bytes: ByteSize::gib(10),
            max_object_bytes: ByteSize::mib(8),
            tenant_percent: 50,
        }
    }
}

impl CacheConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        if self.max_bytes < MIN_BYTES {
            problems.at("cache.max_bytes", format!("must be at least {MIN_BYTES}"));
        }
        if self.max_object_bytes.as_u64() > self.max_bytes.as_u64() / 8 {
            problems.at("cache.max_object_bytes", "must be at most an eighth of `max_bytes`");
        }
        if self.disk_bytes.as_u64() > 0 && self.max_object_bytes.as_u64() > self.disk_bytes.as_u64() / 8 {
            problems.at("cache.disk_bytes", "must be at least eight times `max_object_bytes`, or 0B");
        }
        if !(1..=100).contains(&self.tenant_percent) {
            problems.at("cache.tenant_percent", "must be between 1 and 100");
        }
        problems.guard("cache.max_bytes", self.max_bytes, SAFE_MAX_BYTES, danger_ok);
    }
}

/// That responses of a route are stored and reused, as a shared cache does (RFC 9111).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RouteCacheConfig {
    /// For how long after it became stale a response answers when its server cannot, unless the server or the request
    /// forbids it.
    pub grace: HumanDuration,
    /// For how long a response is fresh if its server does not say and there is no `Last-Modified` to compute it from. Only
    /// for statuses that may be stored without being told, such as 200 and 404, and not for requests with cookies.
    pub default_ttl: HumanDuration,
    /// The longest time for which a response is fresh, whatever its server says; `0s` for any.
    pub max_ttl: HumanDuration,
    /// Whether responses with `Set-Cookie` are stored, cookie and all, if they say how long they are fresh. Everybody who is
    /// answered from the cache then gets the same cookie.
    pub store_set_cookie: bool,
    /// Whether clients get the fields `Cache-Tag` and `Surrogate-Key`, which tell by which tags a response is purged.
    pub keep_tags: bool,
}

impl Default for RouteCacheConfig {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(10).into(),
            default_ttl: Duration::ZERO.into(),
            max_ttl: Duration::ZERO.into(),
            store_set_cookie: false,
            keep_tags: false,
        }
    }
}

impl RouteCacheConfig {
    /// What the operator says about storing.
    pub(crate) fn rules(&self) -> Rules {
        let max = self.max_ttl.as_duration().as_secs();
        Rules {
            store_set_cookie: self.store_set_cookie,
            default_lifetime: self.default_ttl.as_duration().as_secs(),
            max_lifetime: (max > 0).then_some(max),
            grace: self.grace.as_duration().as_secs(),
            keep_tags: self.keep_tags,
        }
    }
}

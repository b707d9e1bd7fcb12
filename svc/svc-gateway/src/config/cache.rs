//! The `[gateway.cache]` table, and `cache = { … }` of routes: which responses are stored, and how much of them.

use std::time::Duration;

use httpcache::{query::Ignored, storage::Rules};
use ron_kernel::config::{ByteSize, HumanDuration, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More memory for stored responses than this needs `danger_ok`.
const SAFE_MAX_BYTES: ByteSize = ByteSize::gib(16);
/// Most query parameters that a route ignores: each request with a query is compared with them.
const MAX_IGNORED: usize = 64;
/// With less than this hardly anything could be stored.
const MIN_BYTES: ByteSize = ByteSize::mib(1);

/// Where responses of routes with `cache` are stored, for all of them together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// Memory for stored responses: seven eighths for the most recently used bodies (equal bodies are stored once),
    /// and one eighth for the index, at about 1 KiB per stored response. The least recently used entries are
    /// evicted.
    pub max_bytes: ByteSize,
    /// Disk space for bodies, in `gateway-cache` of `node.data_dir`; they survive restarts. `0B` stores responses
    /// in memory only, as `node.amnesia` does.
    pub disk_bytes: ByteSize,
    /// The longest body that is stored; longer ones are only forwarded. Until it is complete, a body is also held
    /// in `limits.buffer_memory`.
    pub max_object_bytes: ByteSize,
    /// The largest share of the store and of its index for the responses of one tenant, in percent; beyond it, the
    /// tenant's oldest responses are evicted.
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
    /// How long after it became stale a response may be used if its server fails, unless the server or the request
    /// forbids it.
    pub grace: HumanDuration,
    /// How long a response is fresh if its server gives no lifetime and there is no `Last-Modified` to compute one
    /// from. Only for statuses that are cacheable by default, such as 200 and 404, and not for requests with
    /// cookies.
    pub default_ttl: HumanDuration,
    /// The longest lifetime of a response, whatever its server says; `0s` for no limit.
    pub max_ttl: HumanDuration,
    /// Whether responses with `Set-Cookie` are stored, including the cookie, if they state how long they are fresh.
    /// All clients that get a stored response then get the same cookie.
    pub store_set_cookie: bool,
    /// Query parameters that do not affect responses, such as `"fbclid"`; a `*` at the end matches all with that
    /// prefix, such as `"utm_*"`. They are removed from the cache key and from the forwarded request.
    pub ignore_query: Vec<String>,
    /// Whether clients get the fields `Cache-Tag` and `Surrogate-Key`, which carry the tags that responses are
    /// purged by.
    pub keep_tags: bool,
}

impl Default for RouteCacheConfig {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(10).into(),
            default_ttl: Duration::ZERO.into(),
            max_ttl: Duration::ZERO.into(),
            store_set_cookie: false,
            ignore_query: Vec::new(),
            keep_tags: false,
        }
    }
}

impl RouteCacheConfig {
    /// What is wrong with `ignore_query`, if anything is.
    pub(crate) fn flaw(&self) -> Option<String> {
        if self.ignore_query.len() > MAX_IGNORED {
            return Some(format!("has more than {MAX_IGNORED} names"));
        }
        let wrong = self.ignore_query.iter().find(|name| Ignored::read(name).is_none())?;
        Some(format!(
            "`{wrong}` is neither the name of a query parameter nor the beginning of names before a `*`"
        ))
    }

    /// The query parameters that make no difference.
    pub(crate) fn ignored(&self) -> Vec<Ignored> {
        self.ignore_query.iter().filter_map(|name| Ignored::read(name)).collect()
    }

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

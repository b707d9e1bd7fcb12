//! The `[gateway.upstream.<name>]` tables.

mod endpoint;
mod resilience;
mod sticky;
mod tls;

use std::{collections::BTreeSet, time::Duration};

use ron_kernel::config::{HumanDuration, Problems};
use ron_transport::{addr::Scheme, tls::ClientTlsConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use endpoint::EndpointConfig;
pub use resilience::{BreakerConfig, EjectConfig, HealthConfig, RetryConfig};
pub(crate) use sticky::HashOf;
pub use sticky::StickyConfig;
pub use tls::{Protocol, UpstreamTlsConfig};

/// More idle connections per core and server than this need `danger_ok`.
const SAFE_MAX_IDLE_CONNS: usize = 4096;
/// More connections to one server than this need `danger_ok`: a machine has some 28,000 ports to dial one from.
const SAFE_MAX_CONNS: usize = 16_384;
/// More requests waiting for a connection than this need `danger_ok`: each holds its client's connection.
const SAFE_MAX_WAITING: usize = 16_384;
/// Most entries in `endpoints`. A host name has as many addresses at most, each of which is a server.
const MAX_ENDPOINTS: usize = 64;

/// A group of servers that answer the same requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamConfig {
    /// The servers: `http://127.0.0.1:9001`, `https://app`, `http+unix:/run/app.sock`, or
    /// `{ url = "http://app:9001", weight = 3 }`. Two servers are drawn by weight, and the less loaded one gets the
    /// request (power of two choices). Every address of a host name is a server, up to 64 per
    /// name.
    pub endpoints: Vec<EndpointConfig>,
    /// The servers' protocol: `http1`, `h2`, or `auto`, which negotiates over TLS (ALPN) and uses HTTP/1.1
    /// otherwise. Upgraded connections, such as WebSockets, need `http1`.
    pub protocol: Protocol,
    /// TLS settings for servers with `https:` URLs.
    pub tls: UpstreamTlsConfig,
    /// Timeout from a request's header to the response's header, including all tries, and for each wait for more of
    /// the response's body.
    pub timeout: HumanDuration,
    /// How long a server may go on with a request whose client has left or whose deadline has passed. The request
    /// keeps its slot meanwhile, because the server is still busy; then the connection is closed. `0s` closes it at
    /// once.
    pub finish_abandoned: HumanDuration,
    /// Timeout for connecting to one server, including TLS; then the next server is tried.
    pub connect_timeout: HumanDuration,
    /// The maximum number of connections to one server, over all cores. Streams hold at most half of them, and one
    /// tenant at most half as many of these as are free. Set it to at least twice `fair_queue.max_inflight`, so that
    /// requests always find connections beside streams.
    pub max_conns: usize,
    /// Requests that may wait for one of the `max_conns` connections, per server, or for a place on one HTTP/2 connection; more
    /// are answered 429. Tenants take turns.
    pub max_waiting: usize,
    /// Idle connections kept per core and server.
    pub max_idle: usize,
    /// How long an idle connection is kept. It must be shorter than the servers' own idle timeout, or requests are
    /// sent on closed connections.
    pub idle_timeout: HumanDuration,
    /// How often host names are resolved.
    pub resolve_every: HumanDuration,
    /// Retries of requests.
    pub retry: RetryConfig,
    /// Circuit breaker: stops requests to a failing server.
    pub breaker: BreakerConfig,
    /// Outlier ejection: stops using a server for a while if it responds worse than the others.
    pub eject: EjectConfig,
    /// Active health checks.
    pub health: HealthConfig,
    /// Keeps clients at their server: `{ cookie = "route" }`, or `{ hash = "client" }`.
    pub sticky: Option<StickyConfig>,
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            protocol: Protocol::default(),
            tls: UpstreamTlsConfig::default(),
            timeout: Duration::from_secs(5).into(),
            finish_abandoned: Duration::from_secs(1).into(),
            connect_timeout: Duration::from_secs(1).into(),
            max_conns: 1024,
            max_waiting: 512,
            max_idle: 128,
            idle_timeout: Duration::from_secs(60).into(),
            resolve_every: Duration::from_secs(30).into(),
            retry: RetryConfig::default(),
            breaker: BreakerConfig::default(),
            eject: EjectConfig::default(),
            health: HealthConfig::default(),
            sticky: None,
        }
    }
}

impl UpstreamConfig {
    /// How its servers are spoken to over TLS; `None` if all are used without TLS.
    #[must_use]
    pub fn client_tls(&self) -> Option<ClientTlsConfig> {
        self.speaks_https().then(|| self.tls.client_config(self.protocol))
    }

    fn speaks_https(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.url.scheme() == Scheme::Https)
    }

    pub(super) fn check(&self, name: &str, danger_ok: bool, problems: &mut Problems) {
        let at = |key: &str| format!("upstream.{name}.{key}");
        self.check_endpoints(name, problems);
        for (key, value) in [
            ("timeout", self.timeout),
            ("connect_timeout", self.connect_timeout),
            ("idle_timeout", self.idle_timeout),
            ("resolve_every", self.resolve_every),
        ] {
            if value.as_duration().is_zero() {
                problems.at(at(key), "must be longer than nothing");
            }
        }
        if self.max_conns == 0 {
            problems.at(at("max_conns"), "must be at least 1");
        }
        for (key, value, safe_max) in [
            ("max_conns", self.max_conns, SAFE_MAX_CONNS),
            ("max_waiting", self.max_waiting, SAFE_MAX_WAITING),
            ("max_idle", self.max_idle, SAFE_MAX_IDLE_CONNS),
        ] {
            problems.guard(&at(key), value, safe_max, danger_ok);
        }
        self.tls.check(&at("tls."), self.speaks_https(), problems);
        self.retry.check(&at("retry."), problems);
        self.breaker.check(&at("breaker."), problems);
        self.eject.check(&at("eject."), problems);
        self.health.check(&at("health."), problems);
        if let Some(sticky) = &self.sticky {
            sticky.check(&at("sticky."), problems);
        }
    }

    fn check_endpoints(&self, name: &str, problems: &mut Problems) {
        let at = format!("upstream.{name}.endpoints");
        if self.endpoints.is_empty() {
            problems.at(&at, "must name at least one server");
        }
        if self.endpoints.len() > MAX_ENDPOINTS {
            problems.at(&at, format!("names {} servers, more than {MAX_ENDPOINTS}", self.endpoints.len()));
        }
        let mut seen = BTreeSet::new();
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            endpoint.check(&format!("{at}.{index}"), problems);
            if !seen.insert(endpoint.url.to_string()) {
                let message = format!("`{}` is named twice", endpoint.url);
                problems.at(format!("{at}.{index}"), message).help("give it a weight instead");
            }
        }
    }
}

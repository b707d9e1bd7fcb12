//! The `[gateway.upstream.<name>]` tables.

mod endpoint;
mod resilience;
mod tls;

use std::{collections::BTreeSet, time::Duration};

use ron_kernel::config::{HumanDuration, Problems};
use ron_transport::{addr::Scheme, tls::ClientTlsConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use endpoint::EndpointConfig;
pub use resilience::{BreakerConfig, EjectConfig, HealthConfig, RetryConfig};
pub use tls::{Protocol, UpstreamTlsConfig};

/// More idle connections per core and server than this need `danger_ok`.
const SAFE_MAX_IDLE_CONNS: usize = 4096;
/// More connections to one server than this need `danger_ok`: a machine has some 28,000 ports to dial one from.
const SAFE_MAX_CONNS: usize = 16_384;
/// More requests waiting for a connection than this need `danger_ok`: each holds its client's connection.
const SAFE_MAX_WAITING: usize = 16_384;
/// More servers than this are not kept apart when one of them is tried after another.
const MAX_ENDPOINTS: usize = 64;

/// A group of servers that answer the same requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamConfig {
    /// The servers: `http://127.0.0.1:9001`, `https://app`, `http+unix:/run/app.sock`, or `{ url = "http://app:9001", weight = 3 }`.
    /// Of two drawn by weight, the less loaded one gets the request. Every address of a host name is a server.
    pub endpoints: Vec<EndpointConfig>,
    /// What the servers speak: `http1`, `h2`, or `auto`, which lets them choose over TLS and is HTTP/1.1 in the clear.
    /// Connections that change their protocol, such as WebSockets, need `http1`.
    pub protocol: Protocol,
    /// How servers with `https:` prove themselves.
    pub tls: UpstreamTlsConfig,
    /// From a request's head to the response's head, all tries included, and each wait for more of the response's
    /// body.
    pub timeout: HumanDuration,
    /// How long a server may finish a request that nobody waits for any more: its client has left, or its deadline has
    /// passed. The request keeps its slot meanwhile, because the server is still at work; then the connection closes. `0s`
    /// closes it at once.
    pub finish_abandoned: HumanDuration,
    /// The longest wait for one server to accept a connection, TLS included; then the next one is tried.
    pub connect_timeout: HumanDuration,
    /// Connections to one server, over all cores. Streams hold at most half of them, one tenant has at most half as many as are free of
    /// these. With at
    /// least twice `fair_queue.max_inflight`, requests always find connections beside them.
    pub max_conns: usize,
    /// Requests that may wait for one of `max_conns` to come free, per server; more are answered 429.
    pub max_waiting: usize,
    /// Idle connections kept per core and server.
    pub max_idle: usize,
    /// How long an idle connection is kept; shorter than the servers' own, or requests meet closed connections.
    pub idle_timeout: HumanDuration,
    /// How often host names are looked up again.
    pub resolve_every: HumanDuration,
    /// Trying again.
    pub retry: RetryConfig,
    /// Leaving alone a server that fails.
    pub breaker: BreakerConfig,
    /// Leaving out, for a while, a server that answers worse than the others.
    pub eject: EjectConfig,
    /// Asking servers how they are.
    pub health: HealthConfig,
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
        }
    }
}

impl UpstreamConfig {
    /// How its servers are spoken to over TLS; `None` if all are spoken to in the clear.
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

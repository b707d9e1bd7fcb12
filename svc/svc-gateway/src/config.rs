//! The `[gateway]` table of the configuration file, and `[auth]` beside it.

mod access_log;
mod acme;
mod auth;
mod basic_auth;
mod browser;
mod cache;
mod compress;
mod fairness;
mod forward_auth;
mod identity;
mod limits;
mod mirror;
mod quota_store;
mod rate;
mod respond;
mod route;
mod upstream;
mod view;

use std::{collections::BTreeMap, time::Duration};

use http::HeaderName;
use ron_kernel::config::{ByteSize, Checks, HumanDuration, Problems, Table};
pub use ron_transport::tls::settings::{ClientAuth, MinVersion, PqFallback, PqMode, SniConfig, TlsConfig};
use ron_transport::{
    addr::ListenAddr, proxy_protocol::TrustedSource, serve::HttpLimits, tunnel::TunnelLimits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::jwt::ClaimRule;

pub use access_log::{AccessFormat, AccessLogConfig};
pub use acme::{AcmeChallenge, AcmeConfig};
pub use auth::{AuthConfig, IssuerConfig};
pub use basic_auth::BasicAuthConfig;
pub use browser::{CorsConfig, SecurityHeaders};
pub use cache::{CacheConfig, RouteCacheConfig};
pub use compress::{CompressCoding, CompressConfig};
pub use fairness::{ClassWeights, DrrConfig, FairQueueConfig, Order, QuotasConfig};
pub use forward_auth::ForwardAuthConfig;
pub use identity::{TenantSource, UnknownSource};
pub use limits::LimitsConfig;
pub use mirror::MirrorConfig;
pub(crate) use quota_store::QuotaStore;
pub use quota_store::QuotaStoreError;
pub use rate::{RateBy, RouteRateConfig};
pub use respond::RespondConfig;
pub(crate) use route::Flaw;
pub use route::{
    Auth, ClaimWanted, HeaderRulesConfig, HeaderWanted, RedirectConfig, RouteConfig, SplitConfig,
};
pub(crate) use upstream::HashOf;
pub use upstream::{
    BreakerConfig, EjectConfig, EndpointConfig, HealthConfig, Protocol, RetryConfig, StickyConfig,
    UpstreamConfig, UpstreamTlsConfig,
};
pub use view::{NoPath, PartConfig, PartPath, ViewConfig};

/// More connections than this need `danger_ok`: each may cost 128 KiB at worst, and HTTP/2 ones more.
const SAFE_MAX_CONNS: usize = 65_536;
/// Longer waits for a slow client than this need `danger_ok`.
const SAFE_MAX_WAIT: Duration = Duration::from_secs(60);
/// Longer idleness than this needs `danger_ok`: an idle connection still counts against the caps.
const SAFE_MAX_IDLE: Duration = Duration::from_secs(3600);

/// Most claims that all routes and views ask for together: each token is compared with all of them once.
const MAX_CLAIM_RULES: usize = 1024;

/// The HTTP reverse proxy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayConfig {
    /// Whether the gateway runs.
    pub enabled: bool,
    /// The listening address: `127.0.0.1:8080`, `[::]:80`, `unix:/run/gateway.sock` or `inherit:name`.
    pub listen: ListenAddr,
    /// The maximum number of connections; further ones are refused. At most a quarter of the files that the process
    /// may open (`ulimit -n`) is used, and a warning is logged if that is less.
    pub max_conns: usize,
    /// The maximum number of connections of one client; 0 means a quarter of `max_conns`. An IPv6 /64 counts as one
    /// client. Connections of `trusted_proxies` are limited only by `max_conns`; behind a PROXY header, the client
    /// that it names is counted.
    pub max_conns_per_client: usize,
    /// Timeout for a TLS handshake or a PROXY header.
    pub handshake_timeout: HumanDuration,
    /// Timeout for a whole request header, and for each wait for more of a body.
    pub read_timeout: HumanDuration,
    /// Timeout for each wait for the client to read more of a response.
    pub write_timeout: HumanDuration,
    /// Minimum average rate, in bytes per second, at which a client must send a body or read a response; only time
    /// spent waiting for the client counts. 0 for no minimum. A slower upload is answered 408, and the connection
    /// of a slower reader is closed. Uploads on routes with `stream = true` and protocol upgrades are exempt.
    pub min_rate: ByteSize,
    /// How far a client may fall behind `min_rate` in one transfer, as time spent waiting for it.
    pub min_rate_grace: HumanDuration,
    /// Timeout from the first byte of a request's header to the last byte of its body; then 408. Each 16 KiB of the
    /// body that has arrived add a second, so faster uploads have all the time they need. `0s` for no limit.
    /// Uploads on routes with `stream = true` are exempt.
    pub request_timeout: HumanDuration,
    /// The age, with a random variation of 10 %, at which a connection accepts no more requests: HTTP/1.1 responses
    /// carry `Connection: close`, HTTP/2 clients get a GOAWAY, and requests in progress are completed. `0s` for no
    /// limit.
    pub max_conn_age: HumanDuration,
    /// How long a connection may be idle between two requests; longer than `limits.park_after`.
    pub idle_timeout: HumanDuration,
    /// An upgraded connection, such as a WebSocket, is closed if no byte passes in either direction for this long,
    /// or if one end does not read the bytes that wait for it.
    pub tunnel_idle_timeout: HumanDuration,
    /// Fail startup if an upstream server is unhealthy, instead of only reporting it.
    pub strict_boot: bool,
    /// Limits of one connection and one request.
    pub limits: LimitsConfig,
    /// Certificates; empty paths for plain HTTP.
    pub tls: TlsConfig,
    /// Certificates that the gateway obtains and renews itself, by ACME.
    pub acme: AcmeConfig,
    /// Clients that start each connection with a PROXY header: addresses and networks such as `10.0.0.0/8`, or
    /// `unix`.
    pub proxy_protocol: Vec<TrustedSource>,
    /// Proxies that are trusted to report their client's address in `Forwarded` or `X-Forwarded-For`.
    pub trusted_proxies: Vec<TrustedSource>,
    /// Sources of a request's tenant, in order; the first that yields one is used. A header is trusted from any
    /// client that can reach the listener.
    pub tenant_from: Vec<TenantSource>,
    /// The operator's own networks; their requests are in the class `internal`.
    pub internal_from: Vec<TrustedSource>,
    /// Fair admission: how tenants share the upstreams when there is not enough capacity for all.
    pub fair_queue: FairQueueConfig,
    /// Weights and rate limit of tenants within their class.
    pub drr: DrrConfig,
    /// Rate limits of clients and capabilities.
    pub quotas: QuotasConfig,
    /// Storage for the responses of routes with `cache`.
    pub cache: CacheConfig,
    /// The access log: one line for each request.
    pub access_log: AccessLogConfig,
    /// The address of a second listener without TLS that redirects every request to HTTPS: `0.0.0.0:80`.
    pub redirect_http: Option<ListenAddr>,
    /// Routes: which requests go to which upstream. The longest matching prefix wins.
    pub route: Vec<RouteConfig>,
    /// Upstreams: groups of backend servers, by name.
    pub upstream: BTreeMap<String, UpstreamConfig>,
    /// Views: responses combined from several upstreams, by name: `GET /v1/views/<name>`.
    pub view: BTreeMap<String, ViewConfig>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        let limits = HttpLimits::default();
        Self {
            enabled: true,
            listen: ListenAddr::Tcp(([127, 0, 0, 1], 8080).into()),
            max_conns: limits.max_conns,
            max_conns_per_client: 0,
            handshake_timeout: limits.handshake_timeout.into(),
            read_timeout: limits.read_timeout.into(),
            write_timeout: limits.write_timeout.into(),
            min_rate: ByteSize::bytes(limits.min_rate),
            min_rate_grace: limits.min_rate_grace.into(),
            request_timeout: limits.request_timeout.into(),
            max_conn_age: limits.max_conn_age.into(),
            idle_timeout: limits.idle_timeout.into(),
            tunnel_idle_timeout: TunnelLimits::default().idle.into(),
            strict_boot: false,
            limits: LimitsConfig::default(),
            tls: TlsConfig::default(),
            acme: AcmeConfig::default(),
            proxy_protocol: Vec::new(),
            trusted_proxies: Vec::new(),
            tenant_from: vec![TenantSource::Capability, TenantSource::Ip],
            internal_from: Vec::new(),
            fair_queue: FairQueueConfig::default(),
            drr: DrrConfig::default(),
            quotas: QuotasConfig::default(),
            cache: CacheConfig::default(),
            access_log: AccessLogConfig::default(),
            redirect_http: None,
            route: Vec::new(),
            upstream: BTreeMap::new(),
            view: BTreeMap::new(),
        }
    }
}

impl Table for GatewayConfig {
    const NAME: &'static str = "gateway";
    const RESTART: &'static [&'static str] = &[
        "enabled",
        "redirect_http",
        "strict_boot",
        "fair_queue.max_tenants",
        "cache",
        "quotas.store",
        "quotas.store_ca_path",
    ];

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        let danger_ok = checks.danger_ok();
        self.check_conns(danger_ok, problems);
        self.check_waits(danger_ok, problems);
        self.limits.check(danger_ok, problems);
        self.tls.check_beside(self.acme.agree_tos, problems);
        self.check_acme(problems);
        self.access_log.check(problems);
        self.cache.check(danger_ok, problems);
        self.fair_queue.check(danger_ok, problems);
        self.drr.check(problems);
        self.quotas.check(danger_ok, problems);
        if self.tenant_from.is_empty() {
            problems
                .at("tenant_from", "must name at least one source")
                .help("write [\"ip\"] to tell clients apart by address");
        }
        if self.tenant_from.contains(&TenantSource::Cert) && self.tls.client_auth == ClientAuth::None {
            problems
                .at("tenant_from", "`cert` names nobody, because clients are not asked for a certificate")
                .help("set tls.client_auth = \"required\" or \"optional\"");
        }
        route::check_routes(&self.route, &self.upstream, problems);
        if self.claim_rules().count() > MAX_CLAIM_RULES {
            problems.at("route", format!("`require_claims` has more than {MAX_CLAIM_RULES} entries in all"));
        }
        view::check_views(&self.view, &self.upstream, danger_ok, problems);
        for (name, upstream) in &self.upstream {
            upstream.check(name, danger_ok, problems);
        }
    }
}

impl GatewayConfig {
    /// Whether something is kept on the disk: responses, or certificates that are obtained.
    #[must_use]
    pub fn stores_on_disk(&self) -> bool {
        let stores_responses =
            self.cache.disk_bytes.as_u64() > 0 && self.route.iter().any(|route| route.cache.is_some());
        self.has_acme() || self.enabled && stores_responses
    }

    fn check_conns(&self, danger_ok: bool, problems: &mut Problems) {
        if self.max_conns == 0 {
            problems.at("max_conns", "must be at least 1");
        }
        problems.guard("max_conns", self.max_conns, SAFE_MAX_CONNS, danger_ok);
        if self.max_conns_per_client > self.max_conns {
            let message =
                format!("one client cannot have more than `max_conns`, which is {}", self.max_conns);
            problems.at("max_conns_per_client", message);
        }
    }

    fn check_waits(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, value, safe_max) in [
            ("handshake_timeout", self.handshake_timeout, SAFE_MAX_WAIT),
            ("read_timeout", self.read_timeout, SAFE_MAX_WAIT),
            ("write_timeout", self.write_timeout, SAFE_MAX_WAIT),
            ("min_rate_grace", self.min_rate_grace, SAFE_MAX_WAIT),
            ("idle_timeout", self.idle_timeout, SAFE_MAX_IDLE),
            ("tunnel_idle_timeout", self.tunnel_idle_timeout, SAFE_MAX_IDLE),
        ] {
            if value.as_duration().is_zero() {
                problems.at(key, "must be longer than nothing");
            }
            problems.guard(key, value, safe_max.into(), danger_ok);
        }
        let park_after = self.limits.park_after;
        if self.idle_timeout <= park_after && !self.idle_timeout.as_duration().is_zero() {
            problems.at(
                "idle_timeout",
                format!("must be longer than `limits.park_after`, which is {park_after}"),
            );
        }
    }

    /// The header fields that may name the tenant, in the order in which they are asked.
    pub(crate) fn tenant_fields(&self) -> impl Iterator<Item = &HeaderName> {
        self.tenant_from.iter().filter_map(|source| match source {
            TenantSource::Header(name) => Some(name),
            TenantSource::Capability | TenantSource::Jwt(_) | TenantSource::Cert | TenantSource::Ip => None,
        })
    }

    /// What routes and views ask of the claims of tokens.
    pub(crate) fn claim_rules(&self) -> impl Iterator<Item = ClaimRule> {
        let of_routes = self.route.iter().map(|route| &route.require_claims);
        let of_views = self.view.values().map(|view| &view.require_claims);
        of_routes.chain(of_views).flatten().map(|(claim, wanted)| wanted.rule(claim))
    }

    /// The limits of the listener.
    pub(crate) fn limits(&self) -> HttpLimits {
        let per_client = match self.max_conns_per_client {
            0 => self.max_conns.div_ceil(4),
            n => n,
        };
        self.limits.within(HttpLimits {
            max_conns: self.max_conns,
            max_conns_per_client: per_client,
            handshake_timeout: self.handshake_timeout.as_duration(),
            read_timeout: self.read_timeout.as_duration(),
            write_timeout: self.write_timeout.as_duration(),
            min_rate: self.min_rate.as_u64(),
            min_rate_grace: self.min_rate_grace.as_duration(),
            request_timeout: self.request_timeout.as_duration(),
            max_conn_age: self.max_conn_age.as_duration(),
            idle_timeout: self.idle_timeout.as_duration(),
            ..HttpLimits::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_reaches_the_listener() {
        let config = GatewayConfig {
            max_conns: 1,
            max_conns_per_client: 2,
            handshake_timeout: Duration::from_secs(3).into(),
            read_timeout: Duration::from_secs(4).into(),
            write_timeout: Duration::from_secs(5).into(),
            idle_timeout: Duration::from_secs(6).into(),
            min_rate: ByteSize::bytes(12),
            min_rate_grace: Duration::from_secs(13).into(),
            request_timeout: Duration::from_secs(14).into(),
            max_conn_age: Duration::from_secs(15).into(),
            limits: LimitsConfig {
                max_headers: 7,
                max_head_bytes: ByteSize::bytes(8),
                h2_streams: 9,
                h2_pending_resets: 10,
                park_after: Duration::from_secs(11).into(),
                ..LimitsConfig::default()
            },
            ..GatewayConfig::default()
        };
        let expected = HttpLimits {
            max_conns: 1,
            max_conns_per_client: 2,
            spare_conns: 0,
            handshake_timeout: Duration::from_secs(3),
            read_timeout: Duration::from_secs(4),
            write_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(6),
            max_headers: 7,
            max_head_bytes: 8,
            h2_streams: 9,
            h2_pending_resets: 10,
            park_after: Duration::from_secs(11),
            min_rate: 12,
            min_rate_grace: Duration::from_secs(13),
            request_timeout: Duration::from_secs(14),
            max_conn_age: Duration::from_secs(15),
        };
        assert_eq!(config.limits(), expected);
    }
}

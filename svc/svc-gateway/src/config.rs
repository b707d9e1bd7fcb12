//! The `[gateway]` table of the configuration file.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use ron_kernel::config::{Checks, HumanDuration, Problems, Table};
use ron_transport::{
    addr::{Endpoint, ListenAddr, Scheme},
    proxy_protocol::TrustedSource,
    serve::HttpLimits,
    tls,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More connections than this need `danger_ok`: each may cost 96 KiB at worst.
const SAFE_MAX_CONNS: usize = 65_536;
/// Longer waits for a slow client than this need `danger_ok`.
const SAFE_MAX_WAIT: Duration = Duration::from_secs(60);

/// The HTTP front door.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayConfig {
    /// Whether the gateway runs.
    pub enabled: bool,
    /// Where it listens: `127.0.0.1:8080`, `[::]:80`, `unix:/run/gateway.sock` or `inherit:name`.
    pub listen: ListenAddr,
    /// Connections in all; more are refused.
    pub max_conns: usize,
    /// Connections of one client; 0 stands for a quarter of `max_conns`. An IPv6 /64 is one client.
    pub max_conns_per_client: usize,
    /// A TLS handshake or a PROXY header.
    pub handshake_timeout: HumanDuration,
    /// A whole request head, and each wait for more of a body.
    pub read_timeout: HumanDuration,
    /// Each wait for the client to take more of a response.
    pub write_timeout: HumanDuration,
    /// Between two requests on a connection.
    pub idle_timeout: HumanDuration,
    /// Certificates; empty paths for plain HTTP.
    pub tls: TlsConfig,
    /// Who sends a PROXY header first: addresses and networks such as `10.0.0.0/8`, or `unix`.
    pub proxy_protocol: Vec<TrustedSource>,
    /// Which paths go where; the longest matching prefix wins.
    pub route: Vec<RouteConfig>,
    /// The servers behind, by name.
    pub upstream: BTreeMap<String, UpstreamConfig>,
}

/// Certificates of a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM certificate chain, leaf first.
    pub cert_path: PathBuf,
    /// PEM private key, mode 0600.
    pub key_path: PathBuf,
    /// PEM bundle of authorities; with it, clients must show a certificate signed by one of them.
    pub client_ca_path: PathBuf,
    /// Post-quantum key exchange.
    pub pq: PqMode,
}

/// Post-quantum key exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PqMode {
    /// Classical groups alone.
    Off,
    /// X25519MLKEM768 is offered first.
    #[default]
    Hybrid,
}

/// Requests under a path go to an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// A prefix of the request's path, beginning with `/`. It matches whole segments: `/api` covers `/api/x`, not
    /// `/apix`.
    pub path: String,
    /// The upstream's name.
    pub upstream: String,
}

/// A group of servers that answer the same requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamConfig {
    /// The servers, used in turn: `http://127.0.0.1:9001` or `http+unix:/run/app.sock`.
    pub endpoints: Vec<Endpoint>,
    /// From a request's head to the response's head.
    pub timeout: HumanDuration,
    /// Idle connections kept per core and server.
    pub max_idle: usize,
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
            idle_timeout: limits.idle_timeout.into(),
            tls: TlsConfig::default(),
            proxy_protocol: Vec::new(),
            route: Vec::new(),
            upstream: BTreeMap::new(),
        }
    }
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self { endpoints: Vec::new(), timeout: Duration::from_secs(5).into(), max_idle: 128 }
    }
}

impl Table for GatewayConfig {
    const NAME: &'static str = "gateway";
    const RESTART: &'static [&'static str] = &["enabled"];

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        let danger_ok = checks.danger_ok();
        if self.max_conns == 0 {
            problems.at("max_conns", "must be at least 1");
        }
        problems.guard("max_conns", self.max_conns, SAFE_MAX_CONNS, danger_ok);
        for (key, value) in [
            ("handshake_timeout", self.handshake_timeout),
            ("read_timeout", self.read_timeout),
            ("write_timeout", self.write_timeout),
        ] {
            if value.as_duration().is_zero() {
                problems.at(key, "must be longer than nothing");
            }
            problems.guard(key, value, SAFE_MAX_WAIT.into(), danger_ok);
        }
        self.tls.check(problems);
        self.check_routes(problems);
        for (name, upstream) in &self.upstream {
            upstream.check(name, problems);
        }
    }
}

impl GatewayConfig {
    fn check_routes(&self, problems: &mut Problems) {
        for (index, route) in self.route.iter().enumerate() {
            if !route.path.starts_with('/') {
                problems.at(format!("route.{index}.path"), "must begin with `/`");
            }
            if !self.upstream.contains_key(&route.upstream) {
                let known: Vec<_> = self.upstream.keys().map(String::as_str).collect();
                let help = if known.is_empty() {
                    format!("add [gateway.upstream.{}] with its endpoints", route.upstream)
                } else {
                    format!("known upstreams: {}", known.join(", "))
                };
                let message = format!("there is no upstream `{}`", route.upstream);
                problems.at(format!("route.{index}.upstream"), message).help(help);
            }
            if self.route[..index].iter().any(|earlier| earlier.path == route.path) {
                problems.at(format!("route.{index}.path"), format!("`{}` is routed twice", route.path));
            }
        }
    }

    /// The limits of the listener.
    pub(crate) fn limits(&self) -> HttpLimits {
        let per_client = match self.max_conns_per_client {
            0 => self.max_conns.div_ceil(4),
            n => n,
        };
        HttpLimits {
            max_conns: self.max_conns,
            max_conns_per_client: per_client,
            handshake_timeout: self.handshake_timeout.as_duration(),
            read_timeout: self.read_timeout.as_duration(),
            write_timeout: self.write_timeout.as_duration(),
            idle_timeout: self.idle_timeout.as_duration(),
            ..HttpLimits::default()
        }
    }
}

impl TlsConfig {
    fn check(&self, problems: &mut Problems) {
        let (cert, key) = (self.cert_path.as_os_str(), self.key_path.as_os_str());
        if cert.is_empty() != key.is_empty() {
            let missing = if cert.is_empty() { "tls.cert_path" } else { "tls.key_path" };
            problems.at(missing, "a certificate needs its key and a key its certificate");
        }
        if cert.is_empty() && !self.client_ca_path.as_os_str().is_empty() {
            problems.at("tls.client_ca_path", "client certificates need a certificate of our own");
        }
    }

    /// What the TLS library needs; `None` for plain HTTP.
    #[must_use]
    pub fn server_config(&self) -> Option<tls::ServerTlsConfig> {
        if self.cert_path.as_os_str().is_empty() {
            return None;
        }
        let identity =
            tls::IdentityFiles { cert_path: self.cert_path.clone(), key_path: self.key_path.clone() };
        let mut config = tls::ServerTlsConfig::new(identity);
        config.alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.pq.mode = match self.pq {
            PqMode::Off => tls::PqMode::Off,
            PqMode::Hybrid => tls::PqMode::Hybrid,
        };
        if !self.client_ca_path.as_os_str().is_empty() {
            config.client_auth = tls::ClientAuth::Required { ca: self.client_ca_path.clone() };
        }
        Some(config)
    }
}

impl UpstreamConfig {
    fn check(&self, name: &str, problems: &mut Problems) {
        if self.endpoints.is_empty() {
            problems.at(format!("upstream.{name}.endpoints"), "must name at least one server");
        }
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            if endpoint.scheme() == Scheme::Https {
                let path = format!("upstream.{name}.endpoints.{index}");
                problems
                    .at(path, "upstreams are spoken to over plain HTTP")
                    .help("use http:// or http+unix:");
            }
        }
        if self.timeout.as_duration().is_zero() {
            problems.at(format!("upstream.{name}.timeout"), "must be longer than nothing");
        }
    }
}

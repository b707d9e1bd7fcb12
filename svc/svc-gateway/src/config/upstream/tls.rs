//! How an upstream's servers are spoken to: the version of HTTP, and TLS.

use std::path::PathBuf;

use ron_kernel::config::{PathSetting, Problems};
use ron_transport::{client, tls};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The public authorities, where most systems keep them.
const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Most certificates that an upstream may have pinned.
const MAX_PINS: usize = 64;

/// The version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Only HTTP/1.1 is used.
    Http1,
    /// HTTP/2; without TLS the server must support it.
    H2,
    /// What the server chooses over TLS; HTTP/1.1 without TLS.
    #[default]
    Auto,
}

impl From<Protocol> for client::Protocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http1 => Self::Http1,
            Protocol::H2 => Self::Http2,
            Protocol::Auto => Self::Auto,
        }
    }
}

/// How servers prove themselves, and we to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamTlsConfig {
    /// PEM bundle of the CA certificates for the servers' certificates.
    #[schemars(with = "PathSetting")]
    pub ca_path: PathBuf,
    /// PEM chain of the client certificate for servers that request one; empty for none.
    #[schemars(with = "PathSetting")]
    pub cert_path: PathBuf,
    /// The client certificate's PEM private key, mode 0600, or 0640 for a group that this process is in.
    #[schemars(with = "PathSetting")]
    pub key_path: PathBuf,
    /// SHA-256 fingerprints of the servers' certificates, such as `["sha256:9F:86:…"]`; empty for none. A server is
    /// trusted if it presents one of these, whoever signed it and whatever its names and dates; all other servers are
    /// refused. 64 at most.
    pub pin: Vec<String>,
    /// The name in the servers' certificates if it is not the host in their URLs; empty for that host.
    pub server_name: String,
}

impl Default for UpstreamTlsConfig {
    fn default() -> Self {
        Self {
            ca_path: SYSTEM_BUNDLE.into(),
            cert_path: PathBuf::new(),
            key_path: PathBuf::new(),
            pin: Vec::new(),
            server_name: String::new(),
        }
    }
}

impl UpstreamTlsConfig {
    pub(super) fn check(&self, at: &str, https: bool, problems: &mut Problems) {
        if !https && *self != Self::default() {
            problems
                .at(at.trim_end_matches('.'), "is not used, because no endpoint begins with `https:`")
                .help("write the endpoints with https://");
        }
        if self.ca_path.as_os_str().is_empty() {
            problems.at(format!("{at}ca_path"), "must say who signs the servers' certificates");
        }
        if !self.pin.is_empty() && self.ca_path != Self::default().ca_path {
            problems
                .at(format!("{at}ca_path"), "is not used, because `pin` says which certificates are accepted")
                .help("remove one of the two");
        }
        if self.pin.len() > MAX_PINS {
            problems.at(format!("{at}pin"), format!("has more than {MAX_PINS} entries"));
        }
        for (index, pin) in self.pin.iter().enumerate() {
            if let Err(error) = pin.parse::<tls::Fingerprint>() {
                problems.at(format!("{at}pin[{index}]"), error.to_string());
            }
        }
        tls::settings::check_pair(at, &self.cert_path, &self.key_path, problems);
    }

    /// Returns the settings for the TLS library.
    pub(crate) fn client_config(&self, protocol: Protocol) -> tls::ClientTlsConfig {
        let identity =
            tls::IdentityFiles { cert_path: self.cert_path.clone(), key_path: self.key_path.clone() };
        // What the configuration's check refuses is left out.
        let pins: Vec<_> = self.pin.iter().filter_map(|pin| pin.parse().ok()).collect();
        let roots = if self.pin.is_empty() {
            tls::Roots::File(self.ca_path.clone())
        } else {
            tls::Roots::Pinned(pins)
        };
        tls::ClientTlsConfig {
            identity: (!self.cert_path.as_os_str().is_empty()).then_some(identity),
            alpn: client::Protocol::from(protocol).alpn(),
            server_name: (!self.server_name.is_empty()).then(|| self.server_name.clone()),
            ..tls::ClientTlsConfig::new(roots)
        }
    }
}

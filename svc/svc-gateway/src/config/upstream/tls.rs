//! How an upstream's servers are spoken to: the version of HTTP, and TLS.

use std::path::PathBuf;

use ron_kernel::config::Problems;
use ron_transport::{client, tls};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The public authorities, where most systems keep them.
const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; in the clear the server has to know.
    H2,
    /// What the server chooses over TLS; HTTP/1.1 in the clear.
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
    /// PEM bundle of the authorities that sign the servers.
    pub ca_path: PathBuf,
    /// PEM certificate chain shown to servers that ask for one; empty for none.
    pub cert_path: PathBuf,
    /// Its PEM private key, mode 0600.
    pub key_path: PathBuf,
    /// What the servers' certificates are for, if not for the host in their URL; empty for that.
    pub server_name: String,
}

impl Default for UpstreamTlsConfig {
    fn default() -> Self {
        Self {
            ca_path: SYSTEM_BUNDLE.into(),
            cert_path: PathBuf::new(),
            key_path: PathBuf::new(),
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
        tls::settings::check_pair(at, &self.cert_path, &self.key_path, problems);
    }

    /// What the TLS library needs.
    pub(crate) fn client_config(&self, protocol: Protocol) -> tls::ClientTlsConfig {
        let identity =
            tls::IdentityFiles { cert_path: self.cert_path.clone(), key_path: self.key_path.clone() };
        tls::ClientTlsConfig {
            identity: (!self.cert_path.as_os_str().is_empty()).then_some(identity),
            alpn: client::Protocol::from(protocol).alpn(),
            server_name: (!self.server_name.is_empty()).then(|| self.server_name.clone()),
            ..tls::ClientTlsConfig::new(tls::Roots::File(self.ca_path.clone()))
        }
    }
}

//! The `tls` table of a service: the certificates of its listener, as they are configured.

use std::path::{Path, PathBuf};

use ron_kernel::config::{PathSetting, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config as tls;

/// Certificates of a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM certificate chain, leaf first.
    #[schemars(with = "PathSetting")]
    pub cert_path: PathBuf,
    /// PEM private key, mode 0600, or 0640 for a group that this process is in.
    #[schemars(with = "PathSetting")]
    pub key_path: PathBuf,
    /// DER file with the CA's OCSP response, which is stapled to the certificate; empty for none.
    #[schemars(with = "PathSetting")]
    pub ocsp_path: PathBuf,
    /// Further certificates, chosen by server name (SNI):
    /// `{ name = "*.example.org", cert_path = …, key_path = … }`.
    pub sni: Vec<SniConfig>,
    /// Client certificates: `none`, `optional` (a client may have none, but not an invalid one) or `required`.
    pub client_auth: ClientAuth,
    /// PEM bundle of the CA certificates that client certificates must chain to.
    #[schemars(with = "PathSetting")]
    pub client_ca_path: PathBuf,
    /// PEM bundle of certificate revocation lists, one for each CA up to those in `client_ca_path`; empty for none.
    /// A client that is revoked, or whose CA has no list, is refused.
    #[schemars(with = "PathSetting")]
    pub crl_path: PathBuf,
    /// The lowest TLS version that is accepted: `1.2` or `1.3`.
    pub min_version: MinVersion,
    /// Post-quantum key exchange: `hybrid` or `off`.
    pub pq: PqMode,
    /// Clients without post-quantum key exchange: `allow` them, or `deny` them, which implies version 1.3.
    pub pq_fallback: PqFallback,
}

/// A certificate for one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SniConfig {
    /// A DNS name, or `*.` and a DNS name to cover exactly one label.
    pub name: String,
    /// PEM certificate chain, leaf first.
    #[schemars(with = "PathSetting")]
    pub cert_path: PathBuf,
    /// PEM private key, mode 0600, or 0640 for a group that this process is in.
    #[schemars(with = "PathSetting")]
    pub key_path: PathBuf,
    /// DER file with the CA's OCSP response, which is stapled to the certificate; empty for none.
    #[serde(default)]
    #[schemars(with = "PathSetting")]
    pub ocsp_path: PathBuf,
}

/// Whether clients must present a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// Clients are not asked.
    #[default]
    None,
    /// Clients are asked; one that shows a certificate must show a good one.
    Optional,
    /// Clients without a good certificate are refused.
    Required,
}

/// The oldest version spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MinVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3 only.
    #[serde(rename = "1.3")]
    Tls13,
}

/// The modes of the post-quantum key exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PqMode {
    /// Only classical groups are offered.
    Off,
    /// X25519MLKEM768 is offered first.
    #[default]
    Hybrid,
}

/// What happens with a client that has no post-quantum key exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PqFallback {
    /// A classical group is agreed.
    #[default]
    Allow,
    /// The handshake fails.
    Deny,
}

impl TlsConfig {
    /// Says what is wrong with it, as the key `tls` of a table.
    pub fn check(&self, problems: &mut Problems) {
        self.check_beside(false, problems);
    }

    /// The same for a listener that may have certificates from elsewhere too.
    pub fn check_beside(&self, has_others: bool, problems: &mut Problems) {
        check_pair("tls.", &self.cert_path, &self.key_path, problems);
        if is_empty(&self.cert_path) {
            for (key, is_set) in [
                ("tls.sni", !has_others && !self.sni.is_empty()),
                ("tls.client_auth", !has_others && self.client_auth != ClientAuth::None),
                ("tls.client_ca_path", !has_others && !is_empty(&self.client_ca_path)),
                ("tls.crl_path", !has_others && !is_empty(&self.crl_path)),
                ("tls.ocsp_path", !is_empty(&self.ocsp_path)),
            ] {
                if is_set {
                    problems
                        .at(key, "needs a certificate of our own")
                        .help("set tls.cert_path and tls.key_path");
                }
            }
        }
        self.check_sni(problems);
        self.check_clients(problems);
        if self.pq == PqMode::Off && self.pq_fallback == PqFallback::Deny {
            problems
                .at("tls.pq_fallback", "would refuse every client, because nothing post-quantum is offered")
                .help("use pq = \"hybrid\", or pq_fallback = \"allow\"");
        }
    }

    fn check_sni(&self, problems: &mut Problems) {
        for (index, sni) in self.sni.iter().enumerate() {
            let at = format!("tls.sni.{index}.");
            if sni.name.is_empty() {
                problems.at(format!("{at}name"), "must be a DNS name");
            }
            if is_empty(&sni.cert_path) && is_empty(&sni.key_path) {
                problems.at(format!("{at}cert_path"), "must name a certificate");
            }
            check_pair(&at, &sni.cert_path, &sni.key_path, problems);
            let same_name = |earlier: &SniConfig| earlier.name.eq_ignore_ascii_case(&sni.name);
            if self.sni[..index].iter().any(same_name) {
                problems.at(format!("{at}name"), format!("`{}` has two certificates", sni.name));
            }
        }
    }

    fn check_clients(&self, problems: &mut Problems) {
        match (self.client_auth, is_empty(&self.client_ca_path)) {
            // Silence here would let in whoever the operator believes to be kept out.
            (ClientAuth::None, false) => {
                problems
                    .at("tls.client_ca_path", "is not used, because clients are not asked for a certificate")
                    .help("set client_auth = \"required\" or \"optional\"");
            }
            (ClientAuth::Optional | ClientAuth::Required, true) => {
                problems.at("tls.client_ca_path", "must say who signs the clients' certificates");
            }
            _ => {}
        }
        if self.client_auth == ClientAuth::None && !is_empty(&self.crl_path) {
            problems
                .at("tls.crl_path", "is not used, because clients are not asked for a certificate")
                .help("set client_auth = \"required\" or \"optional\"");
        }
    }

    /// What the TLS library needs; `None` for plain HTTP.
    #[must_use]
    pub fn server_config(&self) -> Option<tls::ServerTlsConfig> {
        (!is_empty(&self.cert_path)).then(|| self.server_config_beside(Vec::new()))
    }

    /// The same for a listener that has these certificates from elsewhere too, and perhaps no others.
    #[must_use]
    pub fn server_config_beside(&self, others: Vec<tls::SniIdentity>) -> tls::ServerTlsConfig {
        let own = (!is_empty(&self.cert_path)).then(|| identity(&self.cert_path, &self.key_path));
        let mut config = tls::ServerTlsConfig { default: own, ..tls::ServerTlsConfig::default() };
        let named = |sni: &SniConfig| tls::SniIdentity {
            name: sni.name.clone(),
            identity: identity(&sni.cert_path, &sni.key_path),
            ocsp_path: optional(&sni.ocsp_path),
            is_renewed: false,
        };
        config.ocsp_path = optional(&self.ocsp_path);
        config.crl_path = optional(&self.crl_path);
        config.sni = self.sni.iter().map(named).chain(others).collect();
        config.alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let ca = self.client_ca_path.clone();
        config.client_auth = match self.client_auth {
            ClientAuth::None => tls::ClientAuth::None,
            ClientAuth::Optional => tls::ClientAuth::Optional { ca },
            ClientAuth::Required => tls::ClientAuth::Required { ca },
        };
        config.min_version = match self.min_version {
            MinVersion::Tls12 => tls::MinVersion::Tls12,
            MinVersion::Tls13 => tls::MinVersion::Tls13,
        };
        config.pq.mode = match self.pq {
            PqMode::Off => tls::PqMode::Off,
            PqMode::Hybrid => tls::PqMode::Hybrid,
        };
        config.pq.fallback = match self.pq_fallback {
            PqFallback::Allow => tls::PqFallback::Allow,
            PqFallback::Deny => tls::PqFallback::Deny,
        };
        config
    }
}

fn identity(cert_path: &Path, key_path: &Path) -> tls::IdentityFiles {
    tls::IdentityFiles { cert_path: cert_path.to_owned(), key_path: key_path.to_owned() }
}

fn optional(path: &Path) -> Option<PathBuf> {
    (!is_empty(path)).then(|| path.to_owned())
}

/// Says what is wrong if only one half of a certificate and its key is named; `at` begins the keys' names.
pub fn check_pair(at: &str, cert: &Path, key: &Path, problems: &mut Problems) {
    if is_empty(cert) != is_empty(key) {
        let missing = if is_empty(cert) { "cert_path" } else { "key_path" };
        problems.at(format!("{at}{missing}"), "a certificate needs its key and a key its certificate");
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

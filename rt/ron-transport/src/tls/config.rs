//! What a TLS endpoint is made from: plain values, no file is touched here.

use std::path::PathBuf;

use super::Fingerprint;

/// The files of one identity. Both may name the same file, which then keeps the mode of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// PEM certificate chain, leaf first.
    pub cert_path: PathBuf,
    /// PEM private key (PKCS#8, SEC1 or PKCS#1, unencrypted), readable by its owner alone.
    pub key_path: PathBuf,
}

/// An identity shown to clients that ask for `name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniIdentity {
    /// A DNS name, or `*.` and a DNS name to cover exactly one label. Case does not matter.
    pub name: String,
    /// The certificate and key for clients that request this name.
    pub identity: IdentityFiles,
    /// A DER file with the authority's OCSP response, which clients are shown with the certificate.
    pub ocsp_path: Option<PathBuf>,
    /// Whether somebody renews it ahead of its end, so that its end is not warned of.
    pub is_renewed: bool,
}

/// Whether clients show a certificate, and who must have signed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// Clients are not asked.
    #[default]
    None,
    /// Clients are asked; one that shows a certificate must show a good one.
    Optional {
        /// PEM bundle of the authorities that may sign clients.
        ca: PathBuf,
    },
    /// Clients without a good certificate are refused.
    Required {
        /// PEM bundle of the authorities that may sign clients.
        ca: PathBuf,
    },
}

/// The oldest protocol version spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

/// Settings of the post-quantum key exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pq {
    /// Whether hybrid groups are offered.
    pub mode: PqMode,
    /// What happens with a peer that has none. Without meaning when the mode is off.
    pub fallback: PqFallback,
}

/// Whether hybrid key exchange is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PqMode {
    /// Only classical groups are offered.
    Off,
    /// X25519MLKEM768 before everything else. As in all of TLS, the order of the client decides
    /// where both sides have several groups in common.
    #[default]
    Hybrid,
}

/// What happens with a peer that speaks no hybrid group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PqFallback {
    /// A classical group is agreed.
    #[default]
    Allow,
    /// The handshake fails. TLS 1.2 has no hybrid groups, so this implies TLS 1.3.
    Deny,
}

/// Everything a TLS listener is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTlsConfig {
    /// Shown to clients that name no host, or an unknown one; without it, their handshake is refused with an alert.
    pub default: Option<IdentityFiles>,
    /// A DER file with the authority's OCSP response for `default`, which clients are shown with the certificate.
    pub ocsp_path: Option<PathBuf>,
    /// Shown to clients that name the host.
    pub sni: Vec<SniIdentity>,
    /// Settings for client certificates.
    pub client_auth: ClientAuth,
    /// PEM bundle of the authorities' revocation lists; a client whose certificate, or any between it and its authority, is
    /// on one or has none is refused.
    pub crl_path: Option<PathBuf>,
    /// Application protocols, most wanted first; empty to leave the extension out.
    pub alpn: Vec<Vec<u8>>,
    /// The oldest version spoken.
    pub min_version: MinVersion,
    /// Settings of the post-quantum key exchange.
    pub pq: Pq,
}

impl ServerTlsConfig {
    /// One identity for every name, no client certificates, no ALPN, TLS 1.2 and up, hybrid preferred.
    pub fn new(default: IdentityFiles) -> Self {
        Self { default: Some(default), ..Self::default() }
    }
}

impl Default for ServerTlsConfig {
    /// No identity at all.
    fn default() -> Self {
        Self {
            default: None,
            ocsp_path: None,
            sni: Vec::new(),
            client_auth: ClientAuth::default(),
            crl_path: None,
            alpn: Vec::new(),
            min_version: MinVersion::default(),
            pq: Pq::default(),
        }
    }
}

/// The authorities a dialer trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// A PEM bundle on disk.
    File(PathBuf),
    /// A PEM bundle in memory.
    Pem(Vec<u8>),
    /// None: servers show one of the certificates with these fingerprints. Neither names nor dates are compared.
    Pinned(Vec<Fingerprint>),
}

/// Everything a TLS dialer is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTlsConfig {
    /// The CA certificates that servers must chain to.
    pub roots: Roots,
    /// Shown to servers that ask for a certificate.
    pub identity: Option<IdentityFiles>,
    /// Application protocols, most wanted first; empty to leave the extension out.
    pub alpn: Vec<Vec<u8>>,
    /// The oldest version spoken.
    pub min_version: MinVersion,
    /// Settings of the post-quantum key exchange.
    pub pq: Pq,
    /// Asked for and verified in place of the name given to `connect`.
    pub server_name: Option<String>,
}

impl ClientTlsConfig {
    /// No client certificate, no ALPN, TLS 1.2 and up, hybrid preferred, names as dialed.
    pub fn new(roots: Roots) -> Self {
        Self {
            roots,
            identity: None,
            alpn: Vec::new(),
            min_version: MinVersion::default(),
            pq: Pq::default(),
            server_name: None,
        }
    }
}

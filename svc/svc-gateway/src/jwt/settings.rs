//! Where keys come from and how often, as configured.

use std::{path::Path, time::Duration};

use ron_transport::{
    addr::Scheme,
    client::Protocol,
    tls::{ClientTls, ClientTlsConfig, Roots, TlsError},
};

use super::{JwksSource, SourceError};
use crate::{AuthConfig, config::IssuerConfig};

/// Where keys come from, and how often.
#[derive(Clone, Debug)]
pub struct JwksSettings {
    /// Whose keys they are, as its tokens name it; empty for anybody who has one of the keys.
    pub issuer: String,
    /// The source of the keys: a URL or a file.
    pub source: JwksSource,
    /// Whom to trust, for a server that is spoken to over TLS.
    pub tls: Option<ClientTls>,
    /// How often; each time up to a tenth sooner.
    pub every: Duration,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// After an attempt, how long tokens with unknown keys do not cause another.
    pub unknown_key_gap: Duration,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The URL cannot be used.
    #[error("jwks_url: {0}")]
    Source(#[from] SourceError),
    /// The authorities cannot be used.
    #[error("jwks_ca_path: {0}")]
    Tls(#[from] TlsError),
    /// There are no trusted root certificates.
    #[error("the system's list of CA certificates was not found: set jwks_ca_path")]
    NoRoots,
}

impl JwksSettings {
    /// Every five minutes, five seconds at most, ten seconds apart, without TLS.
    #[must_use]
    pub const fn new(source: JwksSource) -> Self {
        Self {
            issuer: String::new(),
            source,
            tls: None,
            every: Duration::from_secs(300),
            timeout: Duration::from_secs(5),
            unknown_key_gap: Duration::from_secs(10),
        }
    }

    /// The settings of all issuers as configured; none if no JWTs are taken. Blocking: reads the lists of authorities.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn load(config: &AuthConfig) -> Result<Vec<Self>, SettingsError> {
        config.issuers().iter().map(Self::of_issuer).collect()
    }

    fn of_issuer(config: &IssuerConfig) -> Result<Self, SettingsError> {
        let source: JwksSource = config.jwks_url.parse()?;
        let tls =
            if source.scheme() == Some(Scheme::Https) { Some(trust(&config.jwks_ca_path)?) } else { None };
        let (issuer, every) = (config.issuer.clone(), config.jwks_refresh.as_duration());
        Ok(Self { issuer, tls, every, ..Self::new(source) })
    }
}

fn trust(ca_path: &Path) -> Result<ClientTls, SettingsError> {
    let roots = Roots::named_or_system(ca_path).ok_or(SettingsError::NoRoots)?;
    let config = ClientTlsConfig { alpn: Protocol::Http1.alpn(), ..ClientTlsConfig::new(roots) };
    Ok(ClientTls::load(&config)?)
}

//! The TLS side of a listener, whose certificates can be exchanged while connections are open.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs::Ticketer},
    server::{NoClientAuth, ServerSessionMemoryCache, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    AlpnChallenges, ClientAuth, HandshakeError, Roots, ServerTlsConfig, TlsError, TlsStream, TlsWarning,
    identity::{self, Identity},
    provider::{checked_alpn, provider, versions},
    resolver::Identities,
    stream,
};

/// TLS 1.2 sessions remembered for clients that take no tickets. With client certificates an entry
/// may have some 4 KiB, so at worst this is 4 MiB.
const REMEMBERED_SESSIONS: usize = 1024;

/// Answers TLS handshakes. Clones are cheap and share one set of certificates.
#[derive(Clone)]
pub struct ServerTls {
    current: Arc<ArcSwap<Loaded>>,
    challenges: AlpnChallenges,
}

struct Loaded {
    config: Arc<ServerConfig>,
    warnings: Vec<TlsWarning>,
    certificates: Vec<ServedCertificate>,
}

/// A certificate that a listener shows to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedCertificate {
    /// The file that it was read from.
    pub path: PathBuf,
    /// The name for which clients are shown it; `None` for the one that is shown where no other fits.
    pub name: Option<String>,
    /// The DNS names that it is for, at most 32.
    pub dns_names: Vec<String>,
    /// The last moment at which it is valid, as Unix time; `None` if that cannot be read.
    pub not_after: Option<Duration>,
}

impl ServerTls {
    /// Reads and checks every file that `config` names. Blocking.
    pub fn load(config: &ServerTlsConfig) -> Result<Self, TlsError> {
        let current = Arc::new(ArcSwap::from_pointee(Loaded::read(config)?));
        Ok(Self { current, challenges: AlpnChallenges::default() })
    }

    /// The same, answering these challenges too.
    #[must_use]
    pub fn answering(self, challenges: &AlpnChallenges) -> Self {
        Self { challenges: challenges.clone(), ..self }
    }

    /// Reads and checks every file again and serves new connections with them; on an error, everything stays as it
    /// was. Blocking.
    ///
    /// Open connections and handshakes in progress keep what they began with. Sessions from before are not resumed:
    /// their clients were judged, and judged us, by what has now been replaced.
    pub fn reload(&self, config: &ServerTlsConfig) -> Result<(), TlsError> {
        self.current.store(Arc::new(Loaded::read(config)?));
        Ok(())
    }

    /// What an operator should know about the certificates in use, as found when they were loaded.
    pub fn warnings(&self) -> Vec<TlsWarning> {
        self.current.load().warnings.clone()
    }

    /// The certificates in use.
    pub fn certificates(&self) -> Vec<ServedCertificate> {
        self.current.load().certificates.clone()
    }

    /// Shakes hands with a client within `limit`. Early data is never accepted.
    ///
    /// Cancel safe: dropping the future closes the connection and leaves nothing behind.
    pub async fn accept<S>(&self, stream: S, limit: Duration) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = Arc::clone(&self.current.load().config);
        if self.challenges.is_empty() {
            return stream::accept(config, stream, limit).await;
        }
        stream::accept_or_prove(config, &self.challenges, stream, limit).await
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("warnings", &self.warnings()).finish_non_exhaustive()
    }
}

impl Loaded {
    fn read(source: &ServerTlsConfig) -> Result<Self, TlsError> {
        let provider = provider(source.pq);
        let (identities, warnings, certificates) = identities(source, &provider)?;
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions(source.min_version, source.pq))
            .expect("the provider has suites and groups for each version it is asked for")
            .with_client_cert_verifier(client_verifier(source, provider)?)
            .with_cert_resolver(Arc::new(identities));
        // A client that prefers a weaker suite, or is made to, does not get it where both have a stronger one.
        config.ignore_client_order = true;
        config.alpn_protocols = checked_alpn(&source.alpn)?;
        // Fresh with every load, so that no ticket or session outlives the identities and authorities it came from.
        config.ticketer = Ticketer::new().map_err(|_| TlsError::NoRandomness)?;
        config.session_storage = ServerSessionMemoryCache::new(REMEMBERED_SESSIONS);
        Ok(Self { config: Arc::new(config), warnings, certificates })
    }
}

fn identities(
    source: &ServerTlsConfig,
    provider: &CryptoProvider,
) -> Result<(Identities, Vec<TlsWarning>, Vec<ServedCertificate>), TlsError> {
    let stapled = |files| identity::load_stapled(files, source.ocsp_path.as_deref(), provider);
    let default = source.default.as_ref().map(stapled).transpose()?;
    let (mut certificates, mut warnings) = (Vec::new(), Vec::new());
    if let (Some(default), Some(files)) = (&default, &source.default) {
        default.warn();
        certificates.push(served(default, None, &files.cert_path));
        warnings.extend(default.warning.clone());
    }
    let mut identities = Identities::new(default.map(|default| default.key));
    for entry in &source.sni {
        let mut loaded = identity::load_stapled(&entry.identity, entry.ocsp_path.as_deref(), provider)?;
        if entry.is_renewed {
            loaded.warning = None;
        }
        loaded.warn();
        certificates.push(served(&loaded, Some(&entry.name), &entry.identity.cert_path));
        identities.add(&entry.name, loaded.key, &entry.identity.cert_path)?;
        warnings.extend(loaded.warning);
    }
    Ok((identities, warnings, certificates))
}

fn served(identity: &Identity, name: Option<&str>, path: &Path) -> ServedCertificate {
    ServedCertificate {
        path: path.to_owned(),
        name: name.map(str::to_owned),
        dns_names: identity::dns_names(&identity.key),
        not_after: identity.not_after,
    }
}

fn client_verifier(
    source: &ServerTlsConfig,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let (ca, required) = match &source.client_auth {
        ClientAuth::None => return Ok(Arc::new(NoClientAuth)),
        ClientAuth::Optional { ca } => (ca, false),
        ClientAuth::Required { ca } => (ca, true),
    };
    let roots = identity::roots(&Roots::File(ca.clone()))?;
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    let builder = if required { builder } else { builder.allow_unauthenticated() };
    let Some(path) = &source.crl_path else {
        return Ok(builder.build().expect("there is at least one authority"));
    };
    // Whoever has no list is refused too, or an authority that stops writing lists would stop being checked.
    let builder = builder.with_crls(identity::revocation_lists(path)?);
    builder.build().map_err(|_| TlsError::BadCrl { path: path.clone() })
}

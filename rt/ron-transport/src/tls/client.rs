//! The TLS side of a dialer.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig,
    client::{Resumption, WebPkiServerVerifier},
    crypto::CryptoProvider,
    sign::SingleCertAndKey,
};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    ClientTlsConfig, HandshakeError, Roots, RuleVerifier, TlsError, TlsStream, identity,
    pin::Pinned,
    provider::{checked_alpn, provider, versions},
    stream,
};

/// Tickets remembered over all servers, eight for each: at some 2 KiB apiece, at worst half a megabyte.
const REMEMBERED_TICKETS: usize = 256;

/// Where systems keep the authorities they trust, the most common place first.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

impl Roots {
    /// The authorities in this bundle or, if the path is empty, those that the system trusts; `None` if it keeps no list
    /// where others do. Blocking: looks for it.
    #[must_use]
    pub fn named_or_system(path: &Path) -> Option<Self> {
        let named = (!path.as_os_str().is_empty()).then(|| path.to_owned());
        let system = || SYSTEM_ROOTS.iter().map(PathBuf::from).find(|path| path.exists());
        named.or_else(system).map(Self::File)
    }
}

/// Begins TLS handshakes. Clones are cheap and share remembered sessions.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Reads and checks every file that `source` names. Blocking.
    pub fn load(source: &ClientTlsConfig) -> Result<Self, TlsError> {
        let provider = provider(source.pq);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions(source.min_version, source.pq))
            .expect("the provider has suites and groups for each version it is asked for");
        let builder = match &source.roots {
            Roots::Pinned(pins) => {
                let verifier = RuleVerifier::new(Pinned(pins.as_slice().into()), &provider);
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            roots => builder.with_webpki_verifier(by_authorities(roots, &provider)?),
        };
        let mut config = match &source.identity {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let own = identity::load(files, &provider)?;
                own.warn();
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own.key)))
            }
        };
        config.alpn_protocols = checked_alpn(&source.alpn)?;
        config.resumption = Resumption::in_memory_sessions(REMEMBERED_TICKETS);
        let server_name = source.server_name.as_deref().map(override_name).transpose()?;
        Ok(Self { config: Arc::new(config), server_name })
    }

    /// Shakes hands within `limit` with a server that must prove to be `server_name`, a DNS name or an IP address
    /// (or to be the name that the configuration puts in its place).
    ///
    /// With TLS 1.3 a server judges our certificate after this returns: a refusal arrives with the first read.
    ///
    /// Cancel safe: dropping the future closes the connection and leaves nothing behind.
    pub async fn connect<S>(
        &self,
        stream: S,
        server_name: &str,
        limit: Duration,
    ) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(server_name.to_owned())
                .map_err(|_| HandshakeError::BadServerName(server_name.to_owned()))?,
        };
        stream::connect(Arc::clone(&self.config), stream, name, limit).await
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// Verifies servers by the authorities that may sign them.
fn by_authorities(
    roots: &Roots,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let verifier =
        WebPkiServerVerifier::builder_with_provider(identity::roots(roots)?, Arc::clone(provider)).build();
    Ok(verifier.expect("there is at least one authority, and no revocation list that could be damaged"))
}

fn override_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::BadName { name: name.to_owned() })
}

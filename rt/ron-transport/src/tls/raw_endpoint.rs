//! TLS 1.3 between nodes that show raw public keys, each accepted or refused by the caller's judgement.

use std::{fmt, net::Ipv4Addr, sync::Arc, time::Duration};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
    client::{
        AlwaysResolvesClientRawPublicKeys, Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key},
    server::{
        AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use rustls_pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    HandshakeError, MinVersion, Pq, TlsError, TlsStream,
    provider::{checked_alpn, provider, versions},
    raw_key::{NodeKey, PeerKey},
    stream,
};

/// What two nodes agree on besides their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawKeyOptions {
    /// Application protocols, most wanted first; empty to leave the extension out.
    pub alpn: Vec<Vec<u8>>,
    /// Settings of the post-quantum key exchange.
    pub pq: Pq,
}

/// Answers handshakes of nodes. Clones are cheap.
#[derive(Clone)]
pub struct RawServerTls {
    config: Arc<ServerConfig>,
}

impl RawServerTls {
    /// Shows `key`, and takes the nodes for whose key `accepts` holds. It is asked in every handshake (sessions
    /// are never resumed), on the thread of the connection: it must not block.
    pub fn new(
        key: &NodeKey,
        options: &RawKeyOptions,
        accepts: impl Fn(&PeerKey) -> bool + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let provider = provider(options.pq);
        let peers = Arc::new(PeerCheck::new(&provider, accepts));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions(MinVersion::Tls13, options.pq))
            .expect("the provider has suites and groups for TLS 1.3")
            .with_client_cert_verifier(peers)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key.certified()?)));
        config.alpn_protocols = checked_alpn(&options.alpn)?;
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { config: Arc::new(config) })
    }

    /// What the library is told, for other transports.
    #[cfg(feature = "quic")]
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Shakes hands with a node within `limit`.
    ///
    /// Cancel safe: dropping the future closes the connection and leaves nothing behind.
    pub async fn accept<S>(&self, stream: S, limit: Duration) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        stream::accept(Arc::clone(&self.config), stream, limit).await
    }
}

/// Begins handshakes with nodes. Clones are cheap.
#[derive(Clone)]
pub struct RawClientTls {
    config: Arc<ClientConfig>,
}

impl RawClientTls {
    /// Shows `key`, and takes the nodes for whose key `accepts` holds. It is asked in every handshake (sessions
    /// are never resumed), on the thread of the connection: it must not block.
    pub fn new(
        key: &NodeKey,
        options: &RawKeyOptions,
        accepts: impl Fn(&PeerKey) -> bool + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let provider = provider(options.pq);
        let peers = Arc::new(PeerCheck::new(&provider, accepts));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions(MinVersion::Tls13, options.pq))
            .expect("the provider has suites and groups for TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(peers)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key.certified()?)));
        config.alpn_protocols = checked_alpn(&options.alpn)?;
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// What the library is told, for other transports.
    #[cfg(feature = "quic")]
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Shakes hands with a node within `limit`. The node judges our key after this returns: a refusal arrives
    /// with the first read.
    ///
    /// Cancel safe: dropping the future closes the connection and leaves nothing behind.
    pub async fn connect<S>(&self, stream: S, limit: Duration) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // The API wants a name; nodes have none, and this one is neither sent nor verified.
        let nobody = ServerName::from(Ipv4Addr::UNSPECIFIED);
        stream::connect(Arc::clone(&self.config), stream, nobody, limit).await
    }
}

impl fmt::Debug for RawServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawServerTls").finish_non_exhaustive()
    }
}

impl fmt::Debug for RawClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawClientTls").finish_non_exhaustive()
    }
}

/// Judges the peer on either side.
struct PeerCheck {
    accepts: Box<dyn Fn(&PeerKey) -> bool + Send + Sync>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PeerCheck {
    fn new(provider: &CryptoProvider, accepts: impl Fn(&PeerKey) -> bool + Send + Sync + 'static) -> Self {
        Self { accepts: Box::new(accepts), algorithms: provider.signature_verification_algorithms }
    }

    fn judge(&self, shown: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Error> {
        let refusal = match PeerKey::from_spki(shown) {
            Some(key) if more.is_empty() && (self.accepts)(&key) => return Ok(()),
            Some(_) => CertificateError::ApplicationVerificationFailure,
            None => CertificateError::BadEncoding,
        };
        Err(refusal.into())
    }

    fn verify_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &spki, signature, &self.algorithms)
    }
}

impl fmt::Debug for PeerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCheck").finish_non_exhaustive()
    }
}

/// TLS 1.2 has no raw keys here, and is not offered.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
}

impl ServerCertVerifier for PeerCheck {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for PeerCheck {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

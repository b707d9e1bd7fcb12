//! TLS to a PostgreSQL server, for the library that speaks its protocol.

use std::{
    future::Future,
    io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use ron_transport::tls::{CertificateRule, RuleVerifier};
use rustls::{
    CertificateError, ClientConfig, Error, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::CryptoProvider,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::server::PostgresAddressError;

/// Which server certificates are trusted.
pub(super) enum Trust {
    /// Every one: the connection is encrypted, and any server is accepted.
    Anybody,
    /// Those whose certificate the authority in this file has signed, whatever their name.
    Authority(PathBuf),
    /// The same, if the certificate is for the host that is asked.
    Full(PathBuf),
}

/// Makes connections over TLS.
#[derive(Clone)]
pub(super) struct Connector(Arc<ClientConfig>);

impl Connector {
    pub(super) fn new(trust: &Trust) -> Result<Self, PostgresAddressError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Anybody => Arc::new(RuleVerifier::new(Lenient(None), &provider)),
            Trust::Authority(root) => {
                let rule = Lenient(Some(by_authority(root, &provider)?));
                Arc::new(RuleVerifier::new(rule, &provider))
            }
            Trust::Full(root) => by_authority(root, &provider)?,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider speaks the usual versions")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

/// Verifies by the authorities in a PEM file.
fn by_authority(
    root: &PathBuf,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, PostgresAddressError> {
    let bad = |problem: String| PostgresAddressError::Root { path: root.clone(), problem };
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(root).map_err(|error| bad(error.to_string()))? {
        let cert = cert.map_err(|error| bad(error.to_string()))?;
        roots.add(cert).map_err(|error| bad(error.to_string()))?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| bad(error.to_string()))
}

/// Believes certificates of any name, and of anybody unless an authority is named.
#[derive(Debug)]
struct Lenient(Option<Arc<WebPkiServerVerifier>>);

impl CertificateRule for Lenient {
    fn judge(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let Some(signed) = &self.0 else { return Ok(()) };
        match signed.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(()),
            verdict => verdict.map(drop),
        }
    }
}

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Connecting;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Connecting, io::Error> {
        // A socket's file has no name that a certificate could be for; a server there is this machine.
        let name = ServerName::try_from(host.to_owned())
            .or_else(|_| ServerName::try_from("localhost"))
            .map_err(io::Error::other)?;
        Ok(Connecting { config: Arc::clone(&self.0), name })
    }
}

/// A connection about to be made to a host.
pub(super) struct Connecting {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Connecting
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connecting = tokio_rustls::TlsConnector::from(self.config).connect(self.name, stream);
        Box::pin(async move { Ok(Stream(Box::new(connecting.await?))) })
    }
}

/// A connection over TLS.
pub(super) struct Stream<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}

//! TLS to a node whose certificate is at hand: the node must show that very certificate, whoever signed it.

use std::{io, path::Path, sync::Arc};

use ron_transport::tls::{CertificateRule, RuleVerifier};
use rustls::{ClientConfig, ClientConnection, Error, StreamOwned};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};

use super::admin_client::Socket;

/// TLS to the holder of one certificate.
#[derive(Debug)]
pub(super) struct PinnedTls(Arc<ClientConfig>);

impl PinnedTls {
    /// Believes the holder of the first certificate in a PEM file.
    pub(super) fn load(cert_path: &Path) -> Result<Self, String> {
        let unreadable = |error| format!("{}: {error}", cert_path.display());
        let cert = CertificateDer::from_pem_file(cert_path).map_err(unreadable)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = Arc::new(RuleVerifier::new(Pinned(cert), &provider));
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?;
        let config = config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// Speaks TLS on a socket.
    pub(super) fn wrap(&self, socket: Box<dyn Socket>) -> io::Result<Box<dyn Socket>> {
        // The name is not looked at: the certificate is.
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let client = ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        Ok(Box::new(StreamOwned::new(client, socket)))
    }
}

/// Accepts one certificate.
#[derive(Debug)]
struct Pinned(CertificateDer<'static>);

impl CertificateRule for Pinned {
    fn judge(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<(), Error> {
        if *end_entity == self.0 {
            return Ok(());
        }
        Err(Error::General("the node shows another certificate than `admin.tls.cert_path` has".to_owned()))
    }
}

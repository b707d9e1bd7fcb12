//! Verifying servers by a rule of the caller's own, where the usual one does not fit.

use std::{fmt, sync::Arc};

use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Which certificates of servers are accepted.
pub trait CertificateRule: fmt::Debug + Send + Sync {
    /// Judges what a server shows: its certificate, those between it and its authority, and its OCSP response; and the name
    /// that was asked for.
    ///
    /// # Errors
    /// [`Error`] says why the certificate is not accepted.
    fn judge(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error>;
}

/// Verifies servers by a rule, and always that they hold the key of the certificate they show.
#[derive(Debug)]
pub struct RuleVerifier<R> {
    rule: R,
    provider: Arc<CryptoProvider>,
}

impl<R: CertificateRule> RuleVerifier<R> {
    /// A verifier with the signatures that `provider` knows.
    pub fn new(rule: R, provider: &Arc<CryptoProvider>) -> Self {
        Self { rule, provider: Arc::clone(provider) }
    }
}

impl<R: CertificateRule> ServerCertVerifier for RuleVerifier<R> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.rule.judge(end_entity, intermediates, name, ocsp, now);
        judged.map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

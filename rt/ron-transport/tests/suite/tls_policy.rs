//! What a listener insists on: its own order of cipher suites, its OCSP response, and its revocation lists.

#![expect(clippy::disallowed_methods, reason = "tests prepare their files before anything runs")]

use std::sync::{Arc, Mutex};

use ron_transport::tls::{
    ClientAuth, ClientTls, ClientTlsConfig, HandshakeError, ServerTls, ServerTlsConfig, TlsError,
    testkit::{HANDSHAKE_LIMIT, TestCa, TestIdentity, handshake, talk, write_file},
};
use rustls::{
    CipherSuite, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::aws_lc_rs,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tempfile::TempDir;
use tokio_rustls::TlsConnector;

struct Fixture {
    ca: TestCa,
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { ca: TestCa::new("authority"), dir: TempDir::new().unwrap() }
    }

    fn config(&self) -> ServerTlsConfig {
        ServerTlsConfig::new(self.ca.server(&["server.test"]).write(self.dir.path(), "server"))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn client(&self, identity: &TestIdentity) -> ClientTls {
        let identity = Some(identity.write(self.dir.path(), "client"));
        ClientTls::load(&ClientTlsConfig { identity, ..ClientTlsConfig::new(self.ca.roots()) }).unwrap()
    }
}

#[tokio::test]
async fn the_listener_chooses_the_cipher_suite_and_not_its_client() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.config()).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites.retain(|suite| suite.version() == version);
        let strongest = provider.cipher_suites[0].suite();
        // The least wanted first. Keys of servers here are ECDSA, so suites for RSA fit nobody.
        provider.cipher_suites.reverse();
        let client = fixture.ca.rustls_client(provider, &[version]);
        let (near, far) = tokio::io::duplex(64 * 1024);
        let name = ServerName::try_from("server.test").unwrap();
        let connecting = TlsConnector::from(Arc::new(client)).connect(name, far);
        let (accepted, connected) = tokio::join!(server.accept(near, HANDSHAKE_LIMIT), connecting);
        accepted.unwrap();
        let agreed = connected.unwrap().get_ref().1.negotiated_cipher_suite().unwrap().suite();
        assert_eq!(agreed, strongest, "{version:?}");
        assert_ne!(agreed, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
    }
}

/// Believes every certificate, and keeps the OCSP response that came with it.
#[derive(Debug, Default)]
struct Stapled(Mutex<Option<Vec<u8>>>);

impl ServerCertVerifier for Stapled {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.0.lock().unwrap() = Some(ocsp_response.to_vec());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// What a client is shown with the certificate.
async fn stapled(server: &ServerTls) -> Vec<u8> {
    let seen = Arc::new(Stapled::default());
    let client = rustls::ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(seen.clone())
        .with_no_client_auth();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let name = ServerName::try_from("server.test").unwrap();
    let connecting = TlsConnector::from(Arc::new(client)).connect(name, far);
    let (accepted, connected) = tokio::join!(server.accept(near, HANDSHAKE_LIMIT), connecting);
    accepted.unwrap();
    connected.unwrap();
    seen.0.lock().unwrap().take().unwrap()
}

/// A successful response, as far as anybody looks at it here: SEQUENCE { ENUMERATED 0, SEQUENCE { byte } }.
const fn response(byte: u8) -> [u8; 8] {
    [0x30, 6, 0x0a, 1, 0, 0x30, 1, byte]
}

#[tokio::test]
async fn the_ocsp_response_is_shown_with_the_certificate_and_reloaded_with_it() {
    let fixture = Fixture::new();
    let ocsp_path = Some(fixture.write("ocsp.der", &response(7)));
    let config = ServerTlsConfig { ocsp_path, ..fixture.config() };
    let server = ServerTls::load(&config).unwrap();
    assert_eq!(stapled(&server).await, response(7));
    fixture.write("ocsp.der", &response(8));
    server.reload(&config).unwrap();
    assert_eq!(stapled(&server).await, response(8));
    let without = ServerTls::load(&fixture.config()).unwrap();
    assert!(stapled(&without).await.is_empty());
}

#[test]
fn what_is_no_ocsp_response_is_refused() {
    let fixture = Fixture::new();
    let failed = [0x30, 3, 0x0a, 1, 6];
    for bytes in
        [&b""[..], b"-----BEGIN OCSP-----", &failed, &response(7)[..7], &[&response(7)[..], b"x"].concat()]
    {
        let ocsp_path = Some(fixture.write("ocsp.der", bytes));
        let error = ServerTls::load(&ServerTlsConfig { ocsp_path, ..fixture.config() }).unwrap_err();
        assert!(matches!(error, TlsError::BadOcsp { .. }), "{bytes:?}: {error}");
    }
}

#[tokio::test]
async fn a_revoked_client_is_refused_once_the_list_is_there() {
    let fixture = Fixture::new();
    let (revoked, list) = fixture.ca.revoked_client("revoked.test");
    let crl = write_file(fixture.dir.path(), "list.pem", &list, 0o644);
    let ca = fixture.ca.write(fixture.dir.path(), "clients");
    let config = ServerTlsConfig { client_auth: ClientAuth::Optional { ca }, ..fixture.config() };
    let server = ServerTls::load(&config).unwrap();
    let (accepted, _) = handshake(&server, &fixture.client(&revoked), "server.test").await;
    assert!(accepted.unwrap().has_peer_certificate(), "nobody knows yet");

    let config = ServerTlsConfig { crl_path: Some(crl), ..config };
    server.reload(&config).unwrap();
    let (accepted, _) = handshake(&server, &fixture.client(&revoked), "server.test").await;
    assert!(matches!(accepted, Err(HandshakeError::Protocol(_))), "{accepted:?}");
    let other = fixture.client(&fixture.ca.client("good.test"));
    let (accepted, connected) = handshake(&server, &other, "server.test").await;
    talk(&mut accepted.unwrap(), &mut connected.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_client_whose_authority_has_no_list_is_refused() {
    let fixture = Fixture::new();
    let other = TestCa::new("other");
    let (_, list) = other.revoked_client("revoked.test");
    let crl_path = Some(write_file(fixture.dir.path(), "list.pem", &list, 0o644));
    let ca = fixture.ca.write(fixture.dir.path(), "clients");
    let client_auth = ClientAuth::Required { ca };
    let server = ServerTls::load(&ServerTlsConfig { client_auth, crl_path, ..fixture.config() }).unwrap();
    let client = fixture.client(&fixture.ca.client("good.test"));
    let (accepted, _) = handshake(&server, &client, "server.test").await;
    assert!(matches!(accepted, Err(HandshakeError::Protocol(_))), "{accepted:?}");
}

#[test]
fn what_is_no_revocation_list_is_refused() {
    let fixture = Fixture::new();
    let ca = fixture.ca.write(fixture.dir.path(), "clients");
    let damaged = "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n";
    for text in ["", "no list", damaged, &fixture.ca.pem()] {
        let crl_path = Some(write_file(fixture.dir.path(), "list.pem", text, 0o644));
        let client_auth = ClientAuth::Optional { ca: ca.clone() };
        let error =
            ServerTls::load(&ServerTlsConfig { client_auth, crl_path, ..fixture.config() }).unwrap_err();
        assert!(matches!(error, TlsError::BadCrl { .. }), "{text}: {error}");
    }
}

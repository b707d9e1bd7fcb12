//! The challenges of authorities that a listener answers in the TLS handshake (RFC 8737).

use std::sync::Arc;

use ron_transport::tls::{
    ACME_TLS, AlpnChallenges, ClientAuth, ClientTls, ClientTlsConfig, HandshakeError, ServerTls,
    ServerTlsConfig,
    testkit::{HANDSHAKE_LIMIT, TestCa, TestIdentity, handshake},
};
use rustls::{crypto::aws_lc_rs::default_provider, version::TLS13};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, duplex};
use tokio_rustls::TlsConnector;

const HTTP: &[u8] = b"http/1.1";

struct Fixture {
    ca: TestCa,
    dir: TempDir,
    challenges: AlpnChallenges,
    proof: TestIdentity,
}

impl Fixture {
    fn new() -> Self {
        let (ca, dir) = (TestCa::new("authority"), TempDir::new().unwrap());
        let proof = ca.server(&["new.test"]);
        Self { ca, dir, challenges: AlpnChallenges::default(), proof }
    }

    fn config(&self) -> ServerTlsConfig {
        let alpn = vec![HTTP.to_vec()];
        let files = self.ca.server(&["server.test"]).write(self.dir.path(), "server");
        ServerTlsConfig { alpn, ..ServerTlsConfig::new(files) }
    }

    fn server(&self, config: &ServerTlsConfig) -> ServerTls {
        ServerTls::load(config).unwrap().answering(&self.challenges)
    }

    fn put(&self) {
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.proof.key_pem.as_bytes()).unwrap();
        self.challenges.put("New.test", self.proof.leaf(), key).unwrap();
    }

    /// What a client that offers these protocols is shown for a name, and what the server makes of it.
    async fn ask(
        &self,
        server: &ServerTls,
        name: &'static str,
        offered: &[&[u8]],
    ) -> (Option<CertificateDer<'static>>, Option<HandshakeError>) {
        let mut config = self.ca.rustls_client(default_provider(), &[&TLS13]);
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let (near, far) = duplex(64 * 1024);
        let client = async {
            let name = ServerName::try_from(name).unwrap();
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, far).await.ok()?;
            let shown = stream.get_ref().1.peer_certificates()?.first()?.clone().into_owned();
            if offered == [ACME_TLS] {
                assert_eq!(
                    stream.read(&mut [0; 16]).await.unwrap(),
                    0,
                    "nothing is said after the handshake"
                );
            }
            // Held until the server is done, which still has something to write.
            Some((shown, stream))
        };
        let (accepted, shown) = tokio::join!(server.accept(near, HANDSHAKE_LIMIT), client);
        (shown.map(|(shown, _)| shown), accepted.err())
    }
}

#[tokio::test]
async fn an_authority_that_checks_a_name_is_shown_the_proof_and_nobody_else_is() {
    let fixture = Fixture::new();
    let server = fixture.server(&fixture.config());
    let (shown, _) = fixture.ask(&server, "new.test", &[ACME_TLS]).await;
    assert_eq!(shown, None, "nothing is being checked yet");
    fixture.put();
    let (shown, error) = fixture.ask(&server, "new.test", &[ACME_TLS]).await;
    assert_eq!(shown.as_ref(), Some(&fixture.proof.leaf()));
    assert!(matches!(error, Some(HandshakeError::Challenge)), "{error:?}");
    let (shown, _) = fixture.ask(&server, "server.test", &[ACME_TLS]).await;
    assert_eq!(shown, None, "that name is not being checked");
    for offered in [&[HTTP][..], &[ACME_TLS, HTTP], &[HTTP, ACME_TLS]] {
        let (shown, error) = fixture.ask(&server, "server.test", offered).await;
        assert!(shown.is_some_and(|shown| shown != fixture.proof.leaf()) && error.is_none(), "{error:?}");
    }
    fixture.challenges.remove("new.test");
    assert_eq!(fixture.ask(&server, "new.test", &[ACME_TLS]).await.0, None);
}

#[tokio::test]
async fn an_authority_needs_no_certificate_where_clients_do() {
    let fixture = Fixture::new();
    let ca = fixture.ca.write(fixture.dir.path(), "clients");
    let server =
        fixture.server(&ServerTlsConfig { client_auth: ClientAuth::Required { ca }, ..fixture.config() });
    fixture.put();
    let (shown, _) = fixture.ask(&server, "new.test", &[ACME_TLS]).await;
    assert_eq!(shown, Some(fixture.proof.leaf()));
    let (_, error) = fixture.ask(&server, "server.test", &[HTTP]).await;
    assert!(error.is_some(), "clients still do");
}

#[tokio::test]
async fn without_any_certificate_clients_are_refused_with_an_alert() {
    let fixture = Fixture::new();
    let server = fixture.server(&ServerTlsConfig::default());
    let client = ClientTls::load(&ClientTlsConfig::new(fixture.ca.roots())).unwrap();
    let (_, refused) = handshake(&server, &client, "server.test").await;
    assert!(matches!(refused, Err(HandshakeError::Alert(_))), "{refused:?}");
    assert!(server.certificates().is_empty());
}

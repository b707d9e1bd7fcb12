//! Client certificates: not asked for, optional, required; shown, missing, signed by a stranger.

use ron_transport::tls::{
    ClientAuth, ClientTls, ClientTlsConfig, HandshakeError, ServerTls, ServerTlsConfig,
    testkit::{TestCa, handshake, talk},
};
use rustls::AlertDescription;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

struct Fixture {
    ca: TestCa,
    stranger: TestCa,
    dir: TempDir,
}

#[derive(Clone, Copy, Debug)]
enum Shown {
    Nothing,
    Good,
    Strange,
}

impl Fixture {
    fn new() -> Self {
        Self { ca: TestCa::new("authority"), stranger: TestCa::new("stranger"), dir: TempDir::new().unwrap() }
    }

    fn server(&self, client_auth: ClientAuth) -> ServerTls {
        let identity = self.ca.server(&["server.test"]).write(self.dir.path(), "server");
        ServerTls::load(&ServerTlsConfig { client_auth, ..ServerTlsConfig::new(identity) }).unwrap()
    }

    fn optional(&self) -> ServerTls {
        self.server(ClientAuth::Optional { ca: self.ca.write(self.dir.path(), "clients") })
    }

    fn required(&self) -> ServerTls {
        self.server(ClientAuth::Required { ca: self.ca.write(self.dir.path(), "clients") })
    }

    fn client(&self, shown: Shown) -> ClientTls {
        let identity = match shown {
            Shown::Nothing => None,
            Shown::Good => Some(self.ca.client("client.test")),
            Shown::Strange => Some(self.stranger.client("client.test")),
        };
        let identity = identity.map(|identity| identity.write(self.dir.path(), "client"));
        ClientTls::load(&ClientTlsConfig { identity, ..ClientTlsConfig::new(self.ca.roots()) }).unwrap()
    }
}

/// The handshake works, and the server knows the client or does not.
async fn assert_taken(server: &ServerTls, client: &ClientTls, known: bool, case: &str) {
    let (accepted, connected) = handshake(server, client, "server.test").await;
    let (mut accepted, mut connected) = (accepted.expect(case), connected.expect(case));
    talk(&mut accepted, &mut connected).await.expect(case);
    assert_eq!(accepted.has_peer_certificate(), known, "{case}");
    assert!(connected.has_peer_certificate(), "{case}: the server always shows one");
    assert_eq!(accepted.peer_key(), None, "{case}: a certificate is no raw key");
}

/// The server refuses, and the client learns why with its first read.
async fn assert_refused(server: &ServerTls, client: &ClientTls, alert: AlertDescription, case: &str) {
    let (accepted, connected) = handshake(server, client, "server.test").await;
    assert!(matches!(accepted, Err(HandshakeError::Protocol(_))), "{case}: {accepted:?}");
    let told = HandshakeError::from(connected.expect(case).read(&mut [0; 1]).await.unwrap_err());
    assert!(matches!(told, HandshakeError::Alert(got) if got == alert), "{case}: {told:?}");
}

#[tokio::test]
async fn a_server_that_does_not_ask_is_shown_nothing() {
    let fixture = Fixture::new();
    let server = fixture.server(ClientAuth::None);
    for shown in [Shown::Nothing, Shown::Good, Shown::Strange] {
        assert_taken(&server, &fixture.client(shown), false, &format!("{shown:?}")).await;
    }
}

#[tokio::test]
async fn an_optional_certificate_may_be_missing_but_not_wrong() {
    let fixture = Fixture::new();
    let server = fixture.optional();
    assert_taken(&server, &fixture.client(Shown::Nothing), false, "nothing").await;
    assert_taken(&server, &fixture.client(Shown::Good), true, "good").await;
    assert_refused(&server, &fixture.client(Shown::Strange), AlertDescription::UnknownCA, "strange").await;
}

#[tokio::test]
async fn a_required_certificate_may_be_neither_missing_nor_wrong() {
    let fixture = Fixture::new();
    let server = fixture.required();
    assert_taken(&server, &fixture.client(Shown::Good), true, "good").await;
    let missing = AlertDescription::CertificateRequired;
    assert_refused(&server, &fixture.client(Shown::Nothing), missing, "nothing").await;
    assert_refused(&server, &fixture.client(Shown::Strange), AlertDescription::UnknownCA, "strange").await;
}

#[tokio::test]
async fn a_certificate_for_servers_does_not_do_for_clients() {
    let fixture = Fixture::new();
    let identity = fixture.ca.server(&["client.test"]).write(fixture.dir.path(), "client");
    let config = ClientTlsConfig { identity: Some(identity), ..ClientTlsConfig::new(fixture.ca.roots()) };
    let (accepted, _) =
        handshake(&fixture.required(), &ClientTls::load(&config).unwrap(), "server.test").await;
    assert!(matches!(accepted, Err(HandshakeError::Protocol(_))), "{accepted:?}");
}

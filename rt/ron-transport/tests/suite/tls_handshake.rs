//! TLS handshakes as a listener and a dialer see them: versions, ALPN, server names, time limits, closing.

use std::{io, sync::Arc, time::Duration};

use ron_transport::tls::{
    ClientTls, ClientTlsConfig, HandshakeError, IdentityFiles, MinVersion, ServerTls, ServerTlsConfig,
    SniIdentity, TlsStream,
    testkit::{HANDSHAKE_LIMIT, TestCa, TestIdentity, handshake, talk},
};
use rustls::{
    AlertDescription, ServerConfig, SupportedProtocolVersion,
    crypto::aws_lc_rs::default_provider,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::{Instant, sleep},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

struct Fixture {
    ca: TestCa,
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { ca: TestCa::new("authority"), dir: TempDir::new().unwrap() }
    }

    fn identity(&self, stem: &str, names: &[&str]) -> (TestIdentity, IdentityFiles) {
        let identity = self.ca.server(names);
        let files = identity.write(self.dir.path(), stem);
        (identity, files)
    }

    fn server_config(&self) -> ServerTlsConfig {
        ServerTlsConfig::new(self.identity("server", &["server.test", "127.0.0.1"]).1)
    }

    fn client_config(&self) -> ClientTlsConfig {
        ClientTlsConfig::new(self.ca.roots())
    }

    /// A dialer that is not ours and speaks `version` alone.
    fn foreign_client(&self, version: &'static SupportedProtocolVersion) -> TlsConnector {
        TlsConnector::from(Arc::new(self.ca.rustls_client(default_provider(), &[version])))
    }

    /// A listener that is not ours and speaks `version` alone.
    fn foreign_server(&self, version: &'static SupportedProtocolVersion) -> TlsAcceptor {
        let identity = self.ca.server(&["server.test"]);
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![identity.leaf()],
                PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

fn server_name() -> ServerName<'static> {
    ServerName::try_from("server.test").unwrap()
}

fn shown_to(client: &TlsStream<DuplexStream>) -> &CertificateDer<'static> {
    client.peer_certificates().first().unwrap()
}

#[tokio::test]
async fn both_versions_are_served_and_the_newest_is_preferred() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.server_config()).unwrap();
    for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let (near, far) = duplex(64 * 1024);
        let foreign = fixture.foreign_client(version);
        let (accepted, connected) =
            tokio::join!(server.accept(near, HANDSHAKE_LIMIT), foreign.connect(server_name(), far));
        let mut accepted = accepted.unwrap();
        assert_eq!(accepted.version(), name);
        talk(&mut accepted, &mut connected.unwrap()).await.unwrap();
    }
    let client = ClientTls::load(&fixture.client_config()).unwrap();
    let (accepted, connected) = handshake(&server, &client, "server.test").await;
    assert_eq!((accepted.unwrap().version(), connected.unwrap().version()), ("TLSv1.3", "TLSv1.3"));
}

#[tokio::test]
async fn a_listener_of_tls_1_3_refuses_an_older_client() {
    let fixture = Fixture::new();
    let config = ServerTlsConfig { min_version: MinVersion::Tls13, ..fixture.server_config() };
    let server = ServerTls::load(&config).unwrap();
    let (near, far) = duplex(64 * 1024);
    let foreign = fixture.foreign_client(&TLS12);
    let (accepted, connected) =
        tokio::join!(server.accept(near, HANDSHAKE_LIMIT), foreign.connect(server_name(), far));
    assert!(matches!(accepted, Err(HandshakeError::Protocol(_))), "{accepted:?}");
    let refusal = HandshakeError::from(connected.unwrap_err());
    assert!(matches!(refusal, HandshakeError::Alert(AlertDescription::ProtocolVersion)), "{refusal:?}");
}

#[tokio::test]
async fn a_dialer_takes_an_older_listener_unless_it_insists_on_tls_1_3() {
    let fixture = Fixture::new();
    for (min_version, taken) in [(MinVersion::Tls12, true), (MinVersion::Tls13, false)] {
        let client = ClientTls::load(&ClientTlsConfig { min_version, ..fixture.client_config() }).unwrap();
        let (near, far) = duplex(64 * 1024);
        let foreign = fixture.foreign_server(&TLS12);
        let (_, connected) =
            tokio::join!(foreign.accept(near), client.connect(far, "server.test", HANDSHAKE_LIMIT));
        assert_eq!(connected.is_ok(), taken, "{min_version:?}: {connected:?}");
    }
}

#[tokio::test]
async fn alpn_agrees_on_the_first_protocol_of_the_listener_that_the_dialer_has() {
    let fixture = Fixture::new();
    let names =
        |list: &[&str]| -> Vec<Vec<u8>> { list.iter().map(|name| name.as_bytes().to_vec()).collect() };
    let alpn = names(&["h2", "http/1.1"]);
    let server = ServerTls::load(&ServerTlsConfig { alpn, ..fixture.server_config() }).unwrap();
    let table: [(&[&str], Option<&[u8]>); 4] = [
        (&["h2", "http/1.1"], Some(b"h2")),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ];
    for (offered, agreed) in table {
        let config = ClientTlsConfig { alpn: names(offered), ..fixture.client_config() };
        let (accepted, connected) =
            handshake(&server, &ClientTls::load(&config).unwrap(), "server.test").await;
        assert_eq!((accepted.unwrap().alpn(), connected.unwrap().alpn()), (agreed, agreed), "{offered:?}");
    }
    let config = ClientTlsConfig { alpn: names(&["smtp"]), ..fixture.client_config() };
    let (accepted, connected) = handshake(&server, &ClientTls::load(&config).unwrap(), "server.test").await;
    assert!(matches!(accepted, Err(HandshakeError::Protocol(_))), "{accepted:?}");
    let alert = AlertDescription::NoApplicationProtocol;
    assert!(matches!(connected, Err(HandshakeError::Alert(got)) if got == alert), "{connected:?}");
}

#[tokio::test]
async fn the_server_name_picks_the_certificate_and_an_unknown_one_gets_the_default() {
    let fixture = Fixture::new();
    let everything =
        ["default.test", "one.test", "a.many.test", "a.b.many.test", "unknown.test", "127.0.0.1"];
    let (default, default_files) = fixture.identity("default", &everything);
    let (one, one_files) = fixture.identity("one", &["one.test"]);
    let (many, many_files) = fixture.identity("many", &["*.many.test"]);
    let sni = vec![
        SniIdentity { name: "One.Test".into(), identity: one_files, ocsp_path: None, is_renewed: false },
        SniIdentity { name: "*.many.test".into(), identity: many_files, ocsp_path: None, is_renewed: false },
    ];
    let server = ServerTls::load(&ServerTlsConfig { sni, ..ServerTlsConfig::new(default_files) }).unwrap();
    let client = ClientTls::load(&fixture.client_config()).unwrap();
    let table = [
        ("one.test", &one, Some("one.test")),
        ("ONE.test", &one, Some("one.test")),
        ("a.many.test", &many, Some("a.many.test")),
        ("a.b.many.test", &default, Some("a.b.many.test")),
        ("unknown.test", &default, Some("unknown.test")),
        ("127.0.0.1", &default, None),
    ];
    for (asked, expected, told) in table {
        let (accepted, connected) = handshake(&server, &client, asked).await;
        assert_eq!(accepted.unwrap().server_name(), told, "asked for {asked}");
        let connected = connected.unwrap();
        assert_eq!(connected.server_name(), None);
        assert_eq!(*shown_to(&connected), expected.leaf(), "asked for {asked}");
    }
}

#[tokio::test]
async fn a_dialer_refuses_another_name_and_another_authority() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.server_config()).unwrap();
    let client = ClientTls::load(&fixture.client_config()).unwrap();
    let (accepted, connected) = handshake(&server, &client, "other.test").await;
    assert!(matches!(connected, Err(HandshakeError::Protocol(_))), "{connected:?}");
    let said = connected.unwrap_err().to_string();
    assert!(said.contains("it is not for the name \"other.test\" but for"), "{said}");
    assert!(matches!(accepted, Err(HandshakeError::Alert(_))), "{accepted:?}");

    let stranger = ClientTls::load(&ClientTlsConfig::new(TestCa::new("stranger").roots())).unwrap();
    let (accepted, connected) = handshake(&server, &stranger, "server.test").await;
    assert!(matches!(connected, Err(HandshakeError::Protocol(_))), "{connected:?}");
    let said = connected.unwrap_err().to_string();
    assert!(said.contains("no authority that is trusted here has signed it"), "{said}");
    assert!(matches!(accepted, Err(HandshakeError::Alert(AlertDescription::UnknownCA))), "{accepted:?}");
}

#[tokio::test]
async fn a_certificate_that_has_expired_or_is_an_authoritys_is_refused_in_words() {
    let (fixture, dir) = (Fixture::new(), tempfile::tempdir().unwrap());
    let client = ClientTls::load(&fixture.client_config()).unwrap();
    let expired = fixture.ca.expired_server(&["server.test"]).write(dir.path(), "expired");
    let authority = fixture.ca.as_server(&["server.test"]).write(dir.path(), "authority");
    for (identity, words) in [
        (expired, "the peer's certificate is refused: it has expired"),
        (authority, "it is the certificate of an authority"),
    ] {
        let server = ServerTls::load(&ServerTlsConfig::new(identity)).unwrap();
        let (_, connected) = handshake(&server, &client, "server.test").await;
        let said = connected.unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
}

#[tokio::test]
async fn a_name_override_stands_for_the_name_dialed() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.server_config()).unwrap();
    let config = ClientTlsConfig { server_name: Some("server.test".into()), ..fixture.client_config() };
    let client = ClientTls::load(&config).unwrap();
    let (accepted, connected) = handshake(&server, &client, "10.1.2.3").await;
    assert_eq!(accepted.unwrap().server_name(), Some("server.test"));
    connected.unwrap();
}

#[tokio::test]
async fn a_name_that_is_none_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new();
    let client = ClientTls::load(&fixture.client_config()).unwrap();
    let (mut near, far) = duplex(64 * 1024);
    let refused = client.connect(far, "not a name", HANDSHAKE_LIMIT).await.unwrap_err();
    assert_eq!(refused.to_string(), "\"not a name\" is neither a DNS name nor an IP address");
    assert_eq!(near.read(&mut [0; 1]).await.unwrap(), 0, "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_cut_off_at_the_limit_and_a_slow_one_before_it_is_not() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.server_config()).unwrap();
    let limit = Duration::from_secs(5);
    let (near, _silent) = duplex(64 * 1024);
    let begun = Instant::now();
    let refused = server.accept(near, limit).await.unwrap_err();
    assert!(matches!(refused, HandshakeError::Timeout { limit: told } if told == limit), "{refused:?}");
    assert_eq!(begun.elapsed().as_secs(), 5);

    let client = ClientTls::load(&fixture.client_config()).unwrap();
    let (near, far) = duplex(64 * 1024);
    let late = async {
        sleep(Duration::from_millis(4_900)).await;
        client.connect(far, "server.test", limit).await
    };
    let (accepted, connected) = tokio::join!(server.accept(near, limit), late);
    accepted.unwrap();
    connected.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dialer_gives_a_silent_listener_up_at_the_limit() {
    let client = ClientTls::load(&Fixture::new().client_config()).unwrap();
    let (_silent, far) = duplex(64 * 1024);
    let refused = client.connect(far, "server.test", Duration::from_secs(3)).await.unwrap_err();
    assert_eq!(refused.to_string(), "the TLS handshake took longer than 3s");
}

#[tokio::test]
async fn a_client_that_leaves_or_speaks_something_else_is_told_apart() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.server_config()).unwrap();
    let (near, far) = duplex(64 * 1024);
    drop(far);
    let left = server.accept(near, HANDSHAKE_LIMIT).await.unwrap_err();
    assert!(
        matches!(&left, HandshakeError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof),
        "{left:?}"
    );

    let (near, mut far) = duplex(64 * 1024);
    far.write_all(b"GET / HTTP/1.1\r\nhost: server.test\r\n\r\n").await.unwrap();
    let plain = server.accept(near, HANDSHAKE_LIMIT).await.unwrap_err();
    assert!(matches!(plain, HandshakeError::Protocol(_)), "{plain:?}");
}

#[tokio::test]
async fn shutting_down_says_so_and_vanishing_does_not_pass_for_it() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.server_config()).unwrap();
    let client = ClientTls::load(&fixture.client_config()).unwrap();

    let (accepted, connected) = handshake(&server, &client, "server.test").await;
    let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());
    talk(&mut accepted, &mut connected).await.unwrap();
    accepted.shutdown().await.unwrap();
    assert_eq!(connected.read(&mut [0; 1]).await.unwrap(), 0, "close_notify is a clean end");
    connected.shutdown().await.unwrap();
    assert_eq!(accepted.read(&mut [0; 1]).await.unwrap(), 0, "in both directions");

    let (accepted, connected) = handshake(&server, &client, "server.test").await;
    let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());
    talk(&mut accepted, &mut connected).await.unwrap();
    drop(accepted);
    let cut = connected.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
}

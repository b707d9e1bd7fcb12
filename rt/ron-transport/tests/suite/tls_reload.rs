//! Certificates exchanged while connections are open, and sessions resumed across and within.

use std::{pin::pin, sync::Arc, time::Duration};

use ron_transport::tls::{
    ClientAuth, ClientTls, ClientTlsConfig, HandshakeError, IdentityFiles, ServerTls, ServerTlsConfig,
    TlsStream, TlsWarning,
    testkit::{HANDSHAKE_LIMIT, TestCa, TestIdentity, handshake, talk},
};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind,
    client::{Resumption, Tls12Resumption},
    crypto::aws_lc_rs::default_provider,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{ServerName, UnixTime};
use tempfile::TempDir;
use tokio::{
    io::duplex,
    net::{TcpListener, TcpSocket, TcpStream},
};
use tokio_rustls::TlsConnector;

const OPEN_CONNECTIONS: usize = 200;

struct Fixture {
    ca: TestCa,
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { ca: TestCa::new("authority"), dir: TempDir::new().unwrap() }
    }

    /// Issues a new certificate over the files of the old one, as renewal does.
    fn renew(&self) -> (TestIdentity, ServerTlsConfig) {
        let identity = self.ca.server(&["server.test"]);
        let files = identity.write(self.dir.path(), "server");
        (identity, ServerTlsConfig::new(files))
    }

    fn client(&self) -> ClientTls {
        ClientTls::load(&ClientTlsConfig::new(self.ca.roots())).unwrap()
    }
}

fn server_name() -> ServerName<'static> {
    ServerName::try_from("server.test").unwrap()
}

/// Shakes hands, talks (which also delivers tickets), and tells whether the session was an old one.
async fn resumed(server: &ServerTls, client: &ClientTls) -> bool {
    let (accepted, connected) = handshake(server, client, "server.test").await;
    let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());
    talk(&mut accepted, &mut connected).await.unwrap();
    assert_eq!(accepted.resumed(), connected.resumed(), "both sides agree");
    accepted.resumed()
}

async fn foreign_resumed(server: &ServerTls, config: &Arc<ClientConfig>) -> bool {
    let (near, far) = duplex(64 * 1024);
    let connector = TlsConnector::from(Arc::clone(config));
    let (accepted, connected) =
        tokio::join!(server.accept(near, HANDSHAKE_LIMIT), connector.connect(server_name(), far));
    let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());
    talk(&mut accepted, &mut connected).await.unwrap();
    let kind = connected.get_ref().1.handshake_kind();
    assert_eq!(accepted.resumed(), kind == Some(HandshakeKind::Resumed), "both sides agree");
    accepted.resumed()
}

#[tokio::test]
async fn a_certificate_swap_under_200_open_connections_drops_none() {
    let fixture = Fixture::new();
    let (old, config) = fixture.renew();
    let server = ServerTls::load(&config).unwrap();
    let client = fixture.client();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connect = async || -> (TlsStream<TcpStream>, TlsStream<TcpStream>) {
        let dialed = TcpSocket::new_v4().unwrap().connect(listener.local_addr().unwrap()).await.unwrap();
        let (arrived, _) = listener.accept().await.unwrap();
        let (accepted, connected) = tokio::join!(
            server.accept(arrived, HANDSHAKE_LIMIT),
            client.connect(dialed, "server.test", HANDSHAKE_LIMIT)
        );
        (accepted.unwrap(), connected.unwrap())
    };
    let mut open = Vec::with_capacity(OPEN_CONNECTIONS);
    for _ in 0..OPEN_CONNECTIONS {
        open.push(connect().await);
    }
    for (accepted, connected) in &mut open {
        talk(accepted, connected).await.unwrap();
        assert_eq!(connected.peer_certificates(), [old.leaf()]);
    }

    let (new, config) = fixture.renew();
    server.reload(&config).unwrap();

    for (index, (accepted, connected)) in open.iter_mut().enumerate() {
        talk(accepted, connected).await.unwrap_or_else(|error| panic!("connection {index} broke: {error}"));
    }
    let (mut accepted, mut connected) = connect().await;
    talk(&mut accepted, &mut connected).await.unwrap();
    assert_eq!(connected.peer_certificates(), [new.leaf()]);
}

#[tokio::test]
async fn a_handshake_under_way_ends_with_the_certificate_it_began_with() {
    let fixture = Fixture::new();
    let (old, config) = fixture.renew();
    let server = ServerTls::load(&config).unwrap();
    let (near, far) = duplex(64 * 1024);
    let mut accepting = pin!(server.accept(near, HANDSHAKE_LIMIT));
    tokio::time::timeout(Duration::ZERO, &mut accepting).await.expect_err("the client has said nothing yet");

    server.reload(&fixture.renew().1).unwrap();
    let client = fixture.client();
    let (accepted, connected) = tokio::join!(accepting, client.connect(far, "server.test", HANDSHAKE_LIMIT));
    accepted.unwrap();
    assert_eq!(connected.unwrap().peer_certificates(), [old.leaf()]);
}

#[tokio::test]
async fn a_failed_reload_keeps_everything_as_it_was() {
    let fixture = Fixture::new();
    let (old, config) = fixture.renew();
    let server = ServerTls::load(&config).unwrap();
    let client = fixture.client();
    assert!(!resumed(&server, &client).await);

    let broken = fixture.ca.server(&["server.test"]).with_key_of(&old).write(fixture.dir.path(), "server");
    server.reload(&ServerTlsConfig::new(broken)).unwrap_err();
    let missing = IdentityFiles { cert_path: "/nonexistent".into(), key_path: "/nonexistent".into() };
    server.reload(&ServerTlsConfig::new(missing)).unwrap_err();

    let (accepted, connected) = handshake(&server, &fixture.client(), "server.test").await;
    accepted.unwrap();
    assert_eq!(connected.unwrap().peer_certificates(), [old.leaf()]);
    assert!(resumed(&server, &client).await, "tickets from before are still good");
}

#[tokio::test]
async fn a_reload_can_ask_for_client_certificates_and_no_old_session_slips_past() {
    let fixture = Fixture::new();
    let (_, config) = fixture.renew();
    let server = ServerTls::load(&config).unwrap();
    let client = fixture.client();
    assert!(!resumed(&server, &client).await);
    assert!(resumed(&server, &client).await);

    let client_auth = ClientAuth::Required { ca: fixture.ca.write(fixture.dir.path(), "clients") };
    server.reload(&ServerTlsConfig { client_auth, ..config }).unwrap();
    let (accepted, _connected) = handshake(&server, &client, "server.test").await;
    assert!(matches!(accepted, Err(HandshakeError::Protocol(_))), "{accepted:?}");
}

#[tokio::test]
async fn clones_of_a_handle_share_the_reload() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.renew().1).unwrap();
    let clone = server.clone();
    let (new, config) = fixture.renew();
    server.reload(&config).unwrap();
    let (_accepted, connected) = handshake(&clone, &fixture.client(), "server.test").await;
    assert_eq!(connected.unwrap().peer_certificates(), [new.leaf()]);
}

#[tokio::test]
async fn a_session_is_resumed_by_its_dialer_alone_and_not_after_a_reload() {
    let fixture = Fixture::new();
    let (_, config) = fixture.renew();
    let server = ServerTls::load(&config).unwrap();
    let client = fixture.client();
    assert!(!resumed(&server, &client).await, "the first is new");
    assert!(resumed(&server, &client).await, "the second is not");
    assert!(resumed(&server, &client.clone()).await, "clones share sessions");
    assert!(!resumed(&server, &fixture.client()).await, "another dialer has none");
    server.reload(&config).unwrap();
    assert!(!resumed(&server, &client).await, "a reload forgets");
    assert!(resumed(&server, &client).await, "and begins anew");
}

#[tokio::test]
async fn tls_1_2_sessions_are_resumed_by_ticket_and_by_session_id() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.renew().1).unwrap();
    for how in [Tls12Resumption::SessionIdOrTickets, Tls12Resumption::SessionIdOnly] {
        let mut config = fixture.ca.rustls_client(default_provider(), &[&TLS12]);
        config.resumption = Resumption::in_memory_sessions(8).tls12_resumption(how);
        let config = Arc::new(config);
        assert!(!foreign_resumed(&server, &config).await, "{how:?}");
        assert!(foreign_resumed(&server, &config).await, "{how:?}");
    }
}

#[tokio::test]
async fn a_resumed_session_is_never_offered_early_data() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&fixture.renew().1).unwrap();
    let mut config = fixture.ca.rustls_client(default_provider(), &[&TLS13]);
    config.enable_early_data = true;
    let config = Arc::new(config);
    assert!(!foreign_resumed(&server, &config).await);
    let mut next = ClientConnection::new(Arc::clone(&config), server_name()).unwrap();
    assert!(next.early_data().is_none());
    assert!(foreign_resumed(&server, &config).await, "although there is a ticket");
}

#[tokio::test]
async fn certificates_out_of_their_time_are_served_with_a_warning() {
    let fixture = Fixture::new();
    let (_, good) = fixture.renew();
    let server = ServerTls::load(&good).unwrap();
    assert_eq!(server.warnings(), []);

    let expired = fixture.ca.expired_server(&["server.test"]).write(fixture.dir.path(), "expired");
    let path = expired.cert_path.clone();
    server.reload(&ServerTlsConfig::new(expired)).unwrap();
    assert_eq!(server.warnings(), [TlsWarning::Expired { path: path.clone() }]);
    let text = format!("the certificate in {} has expired; renew it and reload", path.display());
    assert_eq!(server.warnings()[0].to_string(), text);

    let future = fixture.ca.future_server(&["server.test"]).write(fixture.dir.path(), "future");
    let path = future.cert_path.clone();
    server.reload(&ServerTlsConfig::new(future)).unwrap();
    assert_eq!(server.warnings(), [TlsWarning::NotYetValid { path: path.clone() }]);
    let text = format!("the certificate in {} is not valid yet; check the clock", path.display());
    assert_eq!(server.warnings()[0].to_string(), text);

    server.reload(&good).unwrap();
    assert_eq!(server.warnings(), []);
}

#[tokio::test]
async fn a_certificate_says_when_it_expires_and_is_warned_of_two_weeks_before() {
    let fixture = Fixture::new();
    let now = Duration::from_secs(UnixTime::now().as_secs());
    let day = Duration::from_secs(24 * 60 * 60);
    for (left, warned) in [(day * 14 + day / 2, None), (day * 13 + day / 2, Some(13)), (day / 2, Some(0))] {
        let ends = now + left;
        let identity = fixture.ca.server_until(&["server.test"], ends);
        let files = identity.write(fixture.dir.path(), &format!("ends-{}", left.as_secs()));
        let path = files.cert_path.clone();
        let server = ServerTls::load(&ServerTlsConfig::new(files)).unwrap();
        let expected = warned.map(|days| TlsWarning::ExpiresSoon { path: path.clone(), days });
        assert_eq!(server.warnings(), Vec::from_iter(expected));
        let served = &server.certificates()[0];
        assert_eq!((&served.path, &served.name), (&path, &None));
        assert_eq!(served.dns_names, ["server.test"]);
        assert_eq!(served.not_after, Some(Duration::from_secs(ends.as_secs())));
    }
}

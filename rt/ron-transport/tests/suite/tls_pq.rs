//! Which key exchange is agreed, under each post-quantum policy and with peers of each kind.

use std::sync::Arc;

use ron_transport::tls::{
    ClientTls, ClientTlsConfig, HandshakeError, Pq, PqFallback, PqMode, ServerTls, ServerTlsConfig,
    testkit::{HANDSHAKE_LIMIT, TestCa, handshake, talk},
};
use rustls::{
    AlertDescription, DEFAULT_VERSIONS,
    crypto::{
        CryptoProvider,
        aws_lc_rs::{default_provider, kx_group},
    },
    version::TLS12,
};
use rustls_pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::duplex;
use tokio_rustls::TlsConnector;

const OFF: Pq = Pq { mode: PqMode::Off, fallback: PqFallback::Allow };
const ALLOW: Pq = Pq { mode: PqMode::Hybrid, fallback: PqFallback::Allow };
const DENY: Pq = Pq { mode: PqMode::Hybrid, fallback: PqFallback::Deny };

struct Fixture {
    ca: TestCa,
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { ca: TestCa::new("authority"), dir: TempDir::new().unwrap() }
    }

    fn server(&self, pq: Pq) -> ServerTls {
        let identity = self.ca.server(&["server.test"]).write(self.dir.path(), "server");
        ServerTls::load(&ServerTlsConfig { pq, ..ServerTlsConfig::new(identity) }).unwrap()
    }

    fn client(&self, pq: Pq) -> ClientTls {
        ClientTls::load(&ClientTlsConfig { pq, ..ClientTlsConfig::new(self.ca.roots()) }).unwrap()
    }
}

#[tokio::test]
async fn a_rustls_client_negotiates_x25519mlkem768() {
    let fixture = Fixture::new();
    let config = fixture.ca.rustls_client(default_provider(), DEFAULT_VERSIONS);
    for pq in [ALLOW, DENY] {
        let (near, far) = duplex(64 * 1024);
        let server = fixture.server(pq);
        let connector = TlsConnector::from(Arc::new(config.clone()));
        let (accepted, connected) = tokio::join!(
            server.accept(near, HANDSHAKE_LIMIT),
            connector.connect(ServerName::try_from("server.test").unwrap(), far)
        );
        let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());
        assert_eq!(accepted.key_exchange(), Some("X25519MLKEM768"), "{pq:?}");
        let client_side = connected.get_ref().1.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(client_side.as_str(), Some("X25519MLKEM768"), "{pq:?}");
        talk(&mut accepted, &mut connected).await.unwrap();
    }
}

#[tokio::test]
async fn every_pair_of_policies_agrees_on_the_best_both_allow_or_fails() {
    let fixture = Fixture::new();
    let (hybrid, classical) = (Some("X25519MLKEM768"), Some("X25519"));
    let table = [
        (OFF, OFF, classical),
        (OFF, ALLOW, classical),
        (OFF, DENY, None),
        (ALLOW, OFF, classical),
        (ALLOW, ALLOW, hybrid),
        (ALLOW, DENY, hybrid),
        (DENY, OFF, None),
        (DENY, ALLOW, hybrid),
        (DENY, DENY, hybrid),
    ];
    for (server, client, agreed) in table {
        let (accepted, connected) =
            handshake(&fixture.server(server), &fixture.client(client), "server.test").await;
        let case = format!("server {server:?}, client {client:?}");
        let Some(agreed) = agreed else {
            assert!(matches!(accepted, Err(HandshakeError::Protocol(_))), "{case}: {accepted:?}");
            let alert = AlertDescription::HandshakeFailure;
            assert!(
                matches!(connected, Err(HandshakeError::Alert(got)) if got == alert),
                "{case}: {connected:?}"
            );
            continue;
        };
        let (mut accepted, mut connected) = (accepted.expect(&case), connected.expect(&case));
        assert_eq!(accepted.key_exchange(), Some(agreed), "{case}");
        assert_eq!(connected.key_exchange(), Some(agreed), "{case}");
        talk(&mut accepted, &mut connected).await.expect(&case);
    }
}

#[tokio::test]
async fn a_client_of_nist_curves_alone_is_served_where_fallback_is_allowed() {
    let fixture = Fixture::new();
    let provider = CryptoProvider { kx_groups: vec![kx_group::SECP256R1], ..default_provider() };
    let config = fixture.ca.rustls_client(provider, DEFAULT_VERSIONS);
    for (pq, agreed) in [(OFF, Some("secp256r1")), (ALLOW, Some("secp256r1")), (DENY, None)] {
        let (near, far) = duplex(64 * 1024);
        let server = fixture.server(pq);
        let connector = TlsConnector::from(Arc::new(config.clone()));
        let (accepted, _connected) = tokio::join!(
            server.accept(near, HANDSHAKE_LIMIT),
            connector.connect(ServerName::try_from("server.test").unwrap(), far)
        );
        assert_eq!(accepted.ok().and_then(|stream| stream.key_exchange()), agreed, "{pq:?}");
    }
}

#[tokio::test]
async fn denying_fallback_refuses_tls_1_2_which_has_no_hybrid_groups() {
    let fixture = Fixture::new();
    let config = fixture.ca.rustls_client(default_provider(), &[&TLS12]);
    for (pq, taken) in [(ALLOW, true), (DENY, false)] {
        let (near, far) = duplex(64 * 1024);
        let server = fixture.server(pq);
        let connector = TlsConnector::from(Arc::new(config.clone()));
        let (accepted, _connected) = tokio::join!(
            server.accept(near, HANDSHAKE_LIMIT),
            connector.connect(ServerName::try_from("server.test").unwrap(), far)
        );
        assert_eq!(accepted.is_ok(), taken, "{pq:?}: {accepted:?}");
    }
}

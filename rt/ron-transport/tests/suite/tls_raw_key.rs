//! Nodes that know each other by raw Ed25519 keys: accepted and refused on both sides, and the key file.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ron_transport::tls::{
    ClientTls, ClientTlsConfig, HandshakeError, Pq, PqFallback, PqMode, ServerTls, ServerTlsConfig, TlsError,
    TlsStream,
    raw_key::{NodeKey, PeerKey, RawClientTls, RawKeyOptions, RawServerTls},
    testkit::{HANDSHAKE_LIMIT, TestCa, talk, write_file},
};
use rustls::AlertDescription;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, DuplexStream, duplex};

type End = Result<TlsStream<DuplexStream>, HandshakeError>;

fn options() -> RawKeyOptions {
    RawKeyOptions::default()
}

/// A judgement that takes one key alone.
fn only(key: &NodeKey) -> impl Fn(&PeerKey) -> bool + Send + Sync + 'static {
    let wanted = key.public_key();
    move |shown| *shown == wanted
}

async fn meet(server: &RawServerTls, client: &RawClientTls) -> (End, End) {
    let (near, far) = duplex(64 * 1024);
    tokio::join!(server.accept(near, HANDSHAKE_LIMIT), client.connect(far, HANDSHAKE_LIMIT))
}

#[tokio::test]
async fn two_nodes_that_list_each_other_meet_and_know_whom() {
    let (alice, bob) = (NodeKey::generate().unwrap(), NodeKey::generate().unwrap());
    let server = RawServerTls::new(&alice, &options(), only(&bob)).unwrap();
    let client = RawClientTls::new(&bob, &options(), only(&alice)).unwrap();
    let (accepted, connected) = meet(&server, &client).await;
    let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());
    talk(&mut accepted, &mut connected).await.unwrap();
    assert_eq!(accepted.peer_key(), Some(bob.public_key()));
    assert_eq!(connected.peer_key(), Some(alice.public_key()));
    assert_eq!((accepted.version(), connected.version()), ("TLSv1.3", "TLSv1.3"));
    assert_eq!(accepted.key_exchange(), Some("X25519MLKEM768"));
    assert_eq!(accepted.server_name(), None, "no name goes over the wire");
}

#[tokio::test]
async fn a_server_refuses_a_node_it_does_not_list() {
    let (alice, bob, eve) =
        (NodeKey::generate().unwrap(), NodeKey::generate().unwrap(), NodeKey::generate().unwrap());
    let server = RawServerTls::new(&alice, &options(), only(&bob)).unwrap();
    let client = RawClientTls::new(&eve, &options(), only(&alice)).unwrap();
    let (accepted, connected) = meet(&server, &client).await;
    assert!(matches!(accepted, Err(HandshakeError::Protocol(_))), "{accepted:?}");
    let told = HandshakeError::from(connected.unwrap().read(&mut [0; 1]).await.unwrap_err());
    assert!(matches!(told, HandshakeError::Alert(AlertDescription::AccessDenied)), "{told:?}");
}

#[tokio::test]
async fn a_client_refuses_a_node_it_did_not_dial() {
    let (alice, bob, eve) =
        (NodeKey::generate().unwrap(), NodeKey::generate().unwrap(), NodeKey::generate().unwrap());
    let server = RawServerTls::new(&eve, &options(), only(&bob)).unwrap();
    let client = RawClientTls::new(&bob, &options(), only(&alice)).unwrap();
    let (accepted, connected) = meet(&server, &client).await;
    assert!(matches!(connected, Err(HandshakeError::Protocol(_))), "{connected:?}");
    assert!(matches!(accepted, Err(HandshakeError::Alert(AlertDescription::AccessDenied))), "{accepted:?}");
}

#[tokio::test]
async fn every_meeting_is_judged_anew() {
    let (alice, bob) = (NodeKey::generate().unwrap(), NodeKey::generate().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let once = move |_: &PeerKey| count.fetch_add(1, Ordering::Relaxed) == 0;
    let server = RawServerTls::new(&alice, &options(), once).unwrap();
    let client = RawClientTls::new(&bob, &options(), |_| true).unwrap();
    let (accepted, connected) = meet(&server, &client).await;
    let (mut accepted, mut connected) = (accepted.unwrap(), connected.unwrap());
    talk(&mut accepted, &mut connected).await.unwrap();
    let (accepted, _connected) = meet(&server, &client).await;
    assert!(accepted.is_err(), "a node struck off the list cannot resume");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn raw_keys_and_certificates_do_not_mix() {
    let (dir, ca) = (TempDir::new().unwrap(), TestCa::new("authority"));
    let identity = ca.server(&["server.test"]).write(dir.path(), "server");
    let node = NodeKey::generate().unwrap();

    let raw_client = RawClientTls::new(&node, &options(), |_| true).unwrap();
    let x509_server = ServerTls::load(&ServerTlsConfig::new(identity)).unwrap();
    let (near, far) = duplex(64 * 1024);
    let (accepted, connected) =
        tokio::join!(x509_server.accept(near, HANDSHAKE_LIMIT), raw_client.connect(far, HANDSHAKE_LIMIT));
    assert!(accepted.is_err() && connected.is_err(), "{accepted:?} {connected:?}");

    let raw_server = RawServerTls::new(&node, &options(), |_| true).unwrap();
    let x509_client = ClientTls::load(&ClientTlsConfig::new(ca.roots())).unwrap();
    let (near, far) = duplex(64 * 1024);
    let (accepted, connected) = tokio::join!(
        raw_server.accept(near, HANDSHAKE_LIMIT),
        x509_client.connect(far, "server.test", HANDSHAKE_LIMIT)
    );
    assert!(accepted.is_err() && connected.is_err(), "{accepted:?} {connected:?}");
}

#[tokio::test]
async fn nodes_agree_on_alpn_and_key_exchange() {
    let (alice, bob) = (NodeKey::generate().unwrap(), NodeKey::generate().unwrap());
    let offer = |mode, fallback| RawKeyOptions { alpn: vec![b"mesh/1".to_vec()], pq: Pq { mode, fallback } };
    let server = RawServerTls::new(&alice, &offer(PqMode::Hybrid, PqFallback::Allow), |_| true).unwrap();
    let classical = RawClientTls::new(&bob, &offer(PqMode::Off, PqFallback::Allow), |_| true).unwrap();
    let (accepted, _connected) = meet(&server, &classical).await;
    let accepted = accepted.unwrap();
    assert_eq!((accepted.alpn(), accepted.key_exchange()), (Some(&b"mesh/1"[..]), Some("X25519")));

    let strict = RawServerTls::new(&alice, &offer(PqMode::Hybrid, PqFallback::Deny), |_| true).unwrap();
    let (accepted, connected) = meet(&strict, &classical).await;
    assert!(accepted.is_err() && connected.is_err(), "{accepted:?} {connected:?}");

    let unnamed = RawKeyOptions { alpn: vec![Vec::new()], ..options() };
    let refused = RawServerTls::new(&alice, &unnamed, |_| true).unwrap_err();
    assert!(matches!(refused, TlsError::BadAlpn { length: 0 }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_cut_off() {
    let server = RawServerTls::new(&NodeKey::generate().unwrap(), &options(), |_| true).unwrap();
    let (near, _silent) = duplex(64 * 1024);
    let refused = server.accept(near, Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(refused, HandshakeError::Timeout { .. }), "{refused}");
}

#[test]
fn a_key_is_saved_for_its_owner_alone_and_read_back() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("node.key");
    let key = NodeKey::generate().unwrap();
    key.save(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(NodeKey::load(&path).unwrap().public_key(), key.public_key());
    assert_ne!(NodeKey::generate().unwrap().public_key(), key.public_key());

    let before = fs::read(&path).unwrap();
    let refused = NodeKey::generate().unwrap().save(&path).unwrap_err();
    assert!(matches!(refused, TlsError::Exists { .. }), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before, "a key is never overwritten");
}

#[test]
fn a_key_that_another_tool_wrote_is_read() {
    // The example key of RFC 8410, section 10.3, and its public half from section 10.1.
    let pem = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";
    let public = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
    let dir = TempDir::new().unwrap();
    let key = NodeKey::load(&write_file(dir.path(), "node.key", pem, 0o600)).unwrap();
    assert_eq!(format!("{key:?}"), format!("NodeKey {{ public: PeerKey({public}), .. }}"));
    let copy = dir.path().join("copy.key");
    key.save(&copy).unwrap();
    assert_eq!(fs::read_to_string(copy).unwrap(), pem);
}

#[test]
fn a_certificate_key_of_another_kind_is_no_node_key() {
    let (dir, ca) = (TempDir::new().unwrap(), TestCa::new("authority"));
    let files = ca.server(&["server.test"]).write(dir.path(), "server");
    let refused = NodeKey::load(&files.key_path).unwrap_err();
    let path = files.key_path.display();
    assert_eq!(
        refused.to_string(),
        format!("private key {path} cannot be used; supply an Ed25519 key in PKCS#8")
    );
}

#[test]
fn a_public_key_survives_its_wire_form_and_nothing_else_passes_for_one() {
    let key = NodeKey::generate().unwrap().public_key();
    let spki = key.to_spki();
    assert_eq!(PeerKey::from_spki(&spki), Some(key));
    assert_eq!(PeerKey::from_ed25519(*key.ed25519()), key);
    for length in 0..spki.len() {
        assert_eq!(PeerKey::from_spki(&spki[..length]), None, "cut to {length} bytes");
    }
    assert_eq!(PeerKey::from_spki(&[&spki[..], &[0]].concat()), None, "one byte more");
    for index in 0..12 {
        let mut other = spki.clone();
        other[index] ^= 1;
        assert_eq!(PeerKey::from_spki(&other), None, "another header at {index}");
    }
}

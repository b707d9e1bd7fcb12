//! The same nodes over QUIC, alone and beside TCP.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use captoken::{KeyRing, RevocationList};
use ron_kernel::{
    ExitCode,
    config::{Loader, Schema, Sources},
};
use svc_overlay::{OverlayConfig, Subscription};
use tempfile::TempDir;
use types::NodeId;

use crate::{
    secure::{id_of, token},
    support::{Node, eventually},
};

fn lines(more: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nquic_listen = \"127.0.0.1:0\"\nhandshake_timeout = \"30s\"\n\
         peer = {{ max_rps = 0 }}\n{more}"
    )
}

fn quic_addr(node: &Node) -> SocketAddr {
    node.overlay.quic_addr().expect("it listens for QUIC")
}

/// How others write it.
fn over_quic(node: &Node) -> String {
    format!("{}@quic://{}", node.overlay.node(), quic_addr(node))
}

/// Two nodes of which the second dials the first, at the place that is made of the first.
fn pair(more: &str, place: impl Fn(&Node) -> String) -> (Node, Node) {
    let (dir_a, dir_b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let allow = format!("allow = [\"{}\"]\n{more}", id_of(dir_b.path()));
    let a = Node::start_in(Some(dir_a.path()), &lines(&allow));
    let b = Node::start_in(Some(dir_b.path()), &lines(&format!("peers = [\"{}\"]\n{more}", place(&a))));
    a.wait_for_peers(1);
    b.wait_for_peers(1);
    (a, b)
}

/// Published until a neighbour takes part in the topic, and not heard by [`heard`].
const FIRST: &str = "does anybody take part?";

/// Publishes until a neighbour takes part.
fn wait_until_heard(node: &Node) {
    eventually("the neighbour takes part", || node.publish("news", FIRST).accepted);
}

/// The next publication that is not one of the first.
fn heard(node: &Node, subscription: &mut Subscription) -> String {
    loop {
        let text = node.hear(subscription);
        if text != FIRST {
            return text;
        }
    }
}

#[test]
fn listed_nodes_publish_to_each_other_over_quic_with_keys_for_after_quantum_computers() {
    let (a, b) = pair("", over_quic);
    for node in [&a, &b] {
        let peer = &node.overlay.peers()[0];
        assert!(peer.place.contains("quic://"), "{}", peer.place);
        assert_eq!(peer.key_exchange, Some("X25519MLKEM768"));
    }
    let (mut at_b, mut at_a) = (b.subscribe("news"), a.subscribe("news"));
    wait_until_heard(&a);
    assert!(a.publish("news", "one").accepted);
    assert_eq!(heard(&b, &mut at_b), "one");
    // Larger than any packet, and than what is handed over at once.
    let large = "x".repeat(60_000);
    assert!(b.publish("news", &large).accepted);
    assert_eq!(heard(&a, &mut at_a), "one");
    assert!(heard(&a, &mut at_a) == large);
}

#[test]
fn groups_are_agreed_on_over_quic_as_both_are_configured() {
    const OFF: &str = "pq = { mode = \"off\" }";
    const ALLOW: &str = "pq = { mode = \"hybrid\", fallback = \"allow\" }";
    const DENY: &str = "pq = { mode = \"hybrid\", fallback = \"deny\" }";
    let (dir_a, dir_b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let allow = format!("allow = [\"{}\"]", id_of(dir_b.path()));
    for (listener, dialer, agreed) in [
        (ALLOW, OFF, Some("X25519")),
        (DENY, ALLOW, Some("X25519MLKEM768")),
        (DENY, OFF, None),
        (OFF, DENY, None),
    ] {
        let a = Node::start_in(Some(dir_a.path()), &lines(&format!("{allow}\n{listener}")));
        let b = lines(&format!("peers = [\"{}\"]\n{dialer}", over_quic(&a)));
        let b = Node::start_in(Some(dir_b.path()), &b);
        if agreed.is_some() {
            a.wait_for_peers(1);
            b.wait_for_peers(1);
            assert_eq!(a.overlay.peers()[0].key_exchange, agreed, "{listener} {dialer}");
        } else {
            eventually("both refuse", || a.rejects("tls") > 0 && b.rejects("tls") > 0);
            assert!(a.overlay.peers().is_empty() && b.overlay.peers().is_empty(), "{listener} {dialer}");
        }
    }
}

#[test]
fn over_quic_a_node_that_is_not_listed_is_refused_and_so_is_one_that_answers_with_another_key() {
    let dir = TempDir::new().unwrap();
    let a = Node::start(&lines(&format!("allow = [\"{}\"]", id_of(dir.path()))));
    let stranger = Node::start(&lines(&format!("peers = [\"{}\"]", over_quic(&a))));
    eventually("it is refused", || a.rejects("tls") > 0);
    let nobody = NodeId::new([9; 32]);
    let listed = lines(&format!("peers = [\"{nobody}@quic://{}\"]", quic_addr(&a)));
    let listed = Node::start_in(Some(dir.path()), &listed);
    eventually("the other key is refused", || listed.rejects("tls") > 0);
    for node in [&a, &stranger, &listed] {
        assert!(node.overlay.peers().is_empty());
    }
}

#[test]
fn a_token_is_bound_to_a_connection_over_quic_too() {
    let (root, good) = token("overlay.join", &[]);
    let ring = KeyRing::new(vec![root]).unwrap();
    let start = |more: &str| {
        let ring = ring.clone();
        let tokens = Arc::new(move |_: &_| Ok((ring.clone(), RevocationList::default())));
        Node::start_with(None, &lines(&format!("security = \"token\"\n{more}")), tokens)
    };
    let a = start(&format!("token = \"{good}\""));
    let b = start(&format!("peers = [\"quic://{}\"]\ntoken = \"{good}\"", quic_addr(&a)));
    a.wait_for_peers(1);
    b.wait_for_peers(1);
    let without = start(&format!("peers = [\"quic://{}\"]", quic_addr(&a)));
    eventually("none at all is refused", || a.rejects("unauth") > 0);
    assert!(without.overlay.peers().is_empty());
}

#[test]
fn what_is_published_over_quic_is_passed_on_over_tcp() {
    let dirs = [TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap()];
    let allow = format!("allow = [\"{}\", \"{}\"]", id_of(dirs[1].path()), id_of(dirs[2].path()));
    let hub = Node::start_in(Some(dirs[0].path()), &lines(&format!("{allow}\ntopics = [\"news\"]")));
    let by_quic = Node::start_in(Some(dirs[1].path()), &lines(&format!("peers = [\"{}\"]", over_quic(&hub))));
    let by_tcp = Node::start_in(Some(dirs[2].path()), &lines(&format!("peers = [\"{}\"]", hub.peer())));
    hub.wait_for_peers(2);
    let (mut at_tcp, mut at_quic) = (by_tcp.subscribe("news"), by_quic.subscribe("news"));
    wait_until_heard(&by_quic);
    wait_until_heard(&by_tcp);
    assert!(by_quic.publish("news", "from QUIC").accepted);
    assert_eq!(heard(&by_tcp, &mut at_tcp), "from QUIC");
    assert!(by_tcp.publish("news", "from TCP").accepted);
    assert_eq!(heard(&by_quic, &mut at_quic), "from QUIC");
    assert_eq!(heard(&by_quic, &mut at_quic), "from TCP");
}

#[test]
fn a_drain_over_quic_delivers_what_was_accepted_and_ends_in_good_order() {
    const MANY: u32 = 500;
    let (a, b) = pair("", over_quic);
    let mut at_a = a.subscribe("news");
    wait_until_heard(&b);
    let outcomes = b.publish_many("news", MANY);
    assert!(outcomes.iter().all(|(_, outcome)| outcome.as_ref().is_ok()), "{outcomes:?}");
    let exit = b.stop();
    assert_eq!(exit.code, ExitCode::Clean, "{exit}");
    assert!(exit.aborted.is_empty(), "{exit}");
    a.wait_for_peers(0);
    assert_eq!((a.closes("peer_closed"), a.closes("broken")), (1, 0));
    let mut got: Vec<u32> = (0..MANY).map(|_| heard(&a, &mut at_a).parse().unwrap()).collect();
    got.sort_unstable();
    assert!(got.into_iter().eq(0..MANY));
}

/// A translator of addresses between one client and a server: to the server the client is at a port of the translator's, and
/// at another one once the translator has forgotten that.
struct Translator {
    inside: SocketAddr,
    outside: Arc<Mutex<UdpSocket>>,
    server: SocketAddr,
    /// The first byte that the server ever sent.
    first: Arc<OnceLock<u8>>,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Translator {
    fn before(server: SocketAddr) -> Self {
        let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = Arc::new(Mutex::new(None));
        let outside = Arc::new(Mutex::new(outside_of(server)));
        let stop = Arc::new(AtomicBool::new(false));
        let addr = inside.local_addr().unwrap();
        inside.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (to_client, client_seen) = (inside.try_clone().unwrap(), Arc::clone(&client));
        let (sockets, ends) = (Arc::clone(&outside), Arc::clone(&stop));
        let out = thread::spawn(move || {
            let mut packet = [0; 65_536];
            while !ends.load(Relaxed) {
                let Ok((len, from)) = inside.recv_from(&mut packet) else { continue };
                *client_seen.lock().unwrap() = Some(from);
                let _ = sockets.lock().unwrap().send(&packet[..len]);
            }
        });
        let first = Arc::<OnceLock<u8>>::default();
        let (sockets, ends, seen) = (Arc::clone(&outside), Arc::clone(&stop), Arc::clone(&first));
        let back = thread::spawn(move || {
            let mut packet = [0; 65_536];
            while !ends.load(Relaxed) {
                let socket = sockets.lock().unwrap().try_clone().unwrap();
                let Ok(len) = socket.recv(&mut packet) else { continue };
                let _ = seen.set(packet[0]);
                if let Some(client) = *client.lock().unwrap() {
                    let _ = to_client.send_to(&packet[..len], client);
                }
            }
        });
        Self { inside: addr, outside, server, first, stop, threads: vec![out, back] }
    }

    /// From now on the client is at another port.
    fn forget(&self) -> (SocketAddr, SocketAddr) {
        let new = outside_of(self.server);
        let addr = new.local_addr().unwrap();
        let old = std::mem::replace(&mut *self.outside.lock().unwrap(), new);
        (old.local_addr().unwrap(), addr)
    }
}

fn outside_of(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    socket
}

impl Drop for Translator {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Two nodes with a translator between them.
fn translated_pair() -> (Node, Node, Translator) {
    let translator = Mutex::new(None);
    let (a, b) = pair("", |a| {
        let between = Translator::before(quic_addr(a));
        let place = format!("{}@quic://{}", a.overlay.node(), between.inside);
        *translator.lock().unwrap() = Some(between);
        place
    });
    (a, b, translator.into_inner().unwrap().unwrap())
}

#[test]
fn a_newcomer_over_quic_proves_its_address_before_anything_is_done_for_it() {
    let (_a, _b, translator) = translated_pair();
    let first = *translator.first.get().expect("the node has answered");
    // A packet with a long header, of the type Retry (RFC 9000, section 17.2.5); one bit may have any value.
    assert_eq!(first & 0b1011_0000, 0b1011_0000, "{first:#b}");
}

#[test]
fn a_session_over_quic_survives_that_the_dialers_address_changes() {
    let (a, b, translator) = translated_pair();
    let (mut at_a, mut at_b) = (a.subscribe("news"), b.subscribe("news"));
    wait_until_heard(&b);
    for round in 0..3 {
        let (old, new) = translator.forget();
        assert_ne!(old, new);
        let (there, back) = (format!("to a, {round}"), format!("to b, {round}"));
        assert!(b.publish("news", &there).accepted);
        assert_eq!((heard(&a, &mut at_a), heard(&b, &mut at_b)), (there.clone(), there));
        assert!(a.publish("news", &back).accepted);
        assert_eq!((heard(&b, &mut at_b), heard(&a, &mut at_a)), (back.clone(), back));
    }
    let opened = |node: &Node| node.metric("session_open_total");
    assert_eq!((opened(&a), opened(&b)), (1, 1), "the session was never begun anew");
}

/// What is wrong with a configuration.
fn problems(more: &str) -> String {
    let text = format!("[overlay]\nenabled = true\n{more}");
    let sources = Sources { file: Some(("test.toml".into(), text)), ..Sources::default() };
    let loader = Loader::new(Schema::new().table::<OverlayConfig>(), "TEST_");
    loader.load(sources).expect_err("it is refused").render(false)
}

#[test]
fn quic_in_the_clear_or_on_a_unix_socket_is_refused_when_the_configuration_is_read() {
    let report = problems("security = \"plaintext\"\nquic_listen = \"127.0.0.1:0\"");
    assert!(report.contains("QUIC is always encrypted"), "{report}");
    let report = problems("security = \"plaintext\"\npeers = [\"quic://127.0.0.1:1\"]");
    assert!(report.contains("QUIC is always encrypted"), "{report}");
    let report = problems("quic_listen = \"unix:/run/o.sock\"");
    assert!(report.contains("no address and port"), "{report}");
}

//! Processes that reach each other over QUIC, and through a SOCKS5 proxy.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

use super::node::{Home, OverlayNode, command, omnigate};
use crate::support::{PATIENCE, Running, eventually, free_addr, listener_pid, signal};

const LINES: &str = "topics = [\"news\"]\npeer = { max_rps = 0 }\n";

/// Two processes of which the second dials the first over QUIC; the first one's UDP address.
fn pair_over_quic() -> (OverlayNode, OverlayNode) {
    let [one, two] = [Home::new(), Home::new()];
    let udp = free_udp_addr();
    let listens = format!("{LINES}quic_listen = \"{udp}\"\nallow = [\"{}\"]\n", two.id);
    let near = OverlayNode::start(one, &listens);
    let far = OverlayNode::start(two, &format!("{LINES}peers = [\"{}@quic://{udp}\"]\n", near.id));
    near.wait_for_peers(1);
    far.wait_for_peers(1);
    (near, far)
}

fn free_udp_addr() -> SocketAddr {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn processes_publish_to_each_other_over_quic_and_drain_cleanly() {
    let (near, mut far) = pair_over_quic();
    let peers = omnigate(far.node.path(), &["peers", "--config", "omnigate.toml"]);
    assert!(peers.contains("quic://") && peers.contains("X25519MLKEM768"), "{peers}");
    let listening = near.subscribe("news");
    for number in 0..20 {
        assert!(far.publish("news", &format!("number {number}")).1);
    }
    far.node.signal("TERM");
    assert_eq!(far.node.exit_code(), 0);
    for number in 0..20 {
        assert_eq!(listening.next()["text"], format!("number {number}"));
    }
    near.wait_for_peers(0);
    far.node.start_again();
    near.wait_for_peers(1);
}

#[test]
fn a_new_version_takes_the_udp_port_over_once_the_old_one_has_gone() {
    let (mut near, far) = pair_over_quic();
    near.node.signal("USR2");
    assert_eq!(near.node.exit_code(), 0);
    let successor = eventually("the successor has taken over", || listener_pid(near.node.admin.port()));
    let listening = near.subscribe("news");
    eventually("they are connected again", || far.publish("news", "after").1.then_some(()));
    assert_eq!(listening.next()["text"], "after");
    drop(listening);
    signal(successor, "TERM");
    eventually("the successor is gone", || listener_pid(near.node.admin.port()).is_none().then_some(()));
}

#[test]
fn quic_is_among_the_features_that_version_lists() {
    let dir = tempfile::tempdir().unwrap();
    let about = omnigate(dir.path(), &["version", "--json"]);
    let about: serde_json::Value = serde_json::from_str(&about).unwrap();
    assert!(about["features"].as_array().unwrap().contains(&"quic".into()), "{about}");
}

/// A SOCKS5 server, and what it logs. Absent if the program for it is not installed.
fn socks5_server() -> Option<(Running, SocketAddr, mpsc::Receiver<String>)> {
    let addr = free_addr();
    let started = Command::new("microsocks")
        .args(["-i", &addr.ip().to_string(), "-p", &addr.port().to_string()])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let mut server = match started {
        Ok(child) => Running(child),
        Err(error) => {
            eprintln!("skipped: microsocks cannot be started ({error}), so no proxy was tested");
            return None;
        }
    };
    let log = BufReader::new(server.0.stderr.take().unwrap());
    let (tell, lines) = mpsc::channel();
    thread::spawn(move || log.lines().map_while(Result::ok).for_each(|line| _ = tell.send(line)));
    eventually("the proxy listens", || std::net::TcpStream::connect(addr).ok());
    Some((server, addr, lines))
}

#[test]
fn peers_are_dialled_through_a_socks5_proxy_which_resolves_their_names() {
    let Some((_server, proxy, log)) = socks5_server() else { return };
    let [one, two] = [Home::new(), Home::new()];
    let near = OverlayNode::start(one, &format!("{LINES}allow = [\"{}\"]\n", two.id));
    let peer = format!("{}@localhost:{}", near.id, near.addr.port());
    let lines = format!("{LINES}proxy = \"socks5://{proxy}\"\npeers = [\"{peer}\"]\n");
    let far = OverlayNode::start(two, &lines);
    far.wait_for_peers(1);
    let listening = near.subscribe("news");
    eventually("the neighbour takes part", || far.publish("news", "through a proxy").1.then_some(()));
    assert_eq!(listening.next()["text"], "through a proxy");
    // The name as it was written, and not an address: it was resolved there.
    let wanted = format!("connected to localhost:{}", near.addr.port());
    let logged = || log.recv_timeout(PATIENCE).expect("the proxy logs the connection");
    while !logged().contains(&wanted) {}
    // A name that only Tor knows is the proxy's to refuse.
    let onion = format!("{}@{}.onion:9500", near.id, "a".repeat(56));
    far.reload(&format!("{LINES}proxy = \"socks5://{proxy}\"\npeers = [\"{onion}\"]\n"));
    far.wait_for_peers(0);
    far.reload(&lines);
    far.wait_for_peers(1);
}

#[test]
fn a_peer_that_only_tor_knows_needs_a_proxy_and_quic_goes_around_none() {
    let home = Home::new();
    for (lines, why) in [
        (format!("peers = [\"{}@{}.onion:9500\"]", home.id, "a".repeat(56)), "known to Tor alone"),
        (
            format!("proxy = \"socks5://127.0.0.1:9050\"\npeers = [\"{}@quic://127.0.0.1:9500\"]", home.id),
            "QUIC would go around",
        ),
        ("proxy = \"http://127.0.0.1:9050\"".to_owned(), "write socks5://host:port"),
        ("security = \"plaintext\"\nproxy = \"socks5://127.0.0.1:9050\"".to_owned(), "speaks in the clear"),
    ] {
        let file = home.dir.path().join("omnigate.toml");
        std::fs::write(&file, format!("[overlay]\nenabled = true\n{lines}\n")).unwrap();
        let output = command(home.dir.path(), &["check", "--config", "omnigate.toml"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{lines}: {said}");
    }
}

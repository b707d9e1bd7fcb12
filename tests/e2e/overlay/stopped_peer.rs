//! One peer that stops costs the others nothing: what is published meanwhile is delivered to them, as fast as before.
//!
//! `OMNIGATE_STOPPED_PEER_RUNS=50` repeats it as often.

use std::{
    collections::BTreeMap,
    io::Read,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use oap::{Decoder, Entry, Message, Parser, Proof, Publication, Topic};
use ron_transport::tls::raw_key::NodeKey;
use types::NodeId;

use super::{
    drain::{join, say},
    node::{Home, Listening, OverlayNode},
};

/// Publications in all: six seconds of 2,000 a second.
const PUBLISHED: u64 = 12_000;
/// Publications at a time, and how long until the next ones.
const AT_ONCE: u64 = 10;
const PAUSE: Duration = Duration::from_millis(5);

/// Reads what a node says, and counts the publications that it has taken on.
fn count_taken_on(mut socket: TcpStream, taken_on: &AtomicU64) {
    let (mut received, mut room) = (BytesMut::new(), [0; 16 * 1024]);
    let decoder = Decoder::new(oap::FRAME_MAX, false);
    while let Ok(read @ 1..) = socket.read(&mut room) {
        received.extend_from_slice(&room[..read]);
        while let Some(raw) = decoder.next(&mut received).unwrap() {
            if let Message::Accepted(accepted) = Parser::default().parse(raw).unwrap().message {
                taken_on.fetch_add(accepted.seqs.len() as u64, Relaxed);
            }
        }
    }
}

/// Publishes everything at a steady pace. The peer is stopped after a third of it, and goes on after two. Of the third in
/// which it is stopped, nearly as many are taken on meanwhile as of the one before.
fn publish(addr: SocketAddr, peer: &OverlayNode) {
    let (topic, key) = (Topic::new("news").unwrap(), NodeKey::generate().unwrap());
    let publisher = NodeId::of_key(key.public_key().ed25519());
    let mut socket = join(addr, publisher);
    let reading = socket.try_clone().unwrap();
    let taken_on = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&taken_on);
    thread::spawn(move || count_taken_on(reading, &counted));
    let mut before = 0;
    for seq in 1..=PUBLISHED {
        let id = Entry { publisher, incarnation: 1, seq }.in_topic(&topic);
        let proof = Proof { key: *key.public_key().ed25519(), signature: key.sign(&id.head_bytes()) };
        let proof = (seq % AT_ONCE == 1).then_some(proof.into());
        say(
            &mut socket,
            Message::Publish(Publication { proof, ..Publication::new(id, Bytes::from_static(&[7; 200])) }),
        );
        match seq {
            _ if seq == PUBLISHED / 3 => {
                before = taken_on.load(Relaxed);
                peer.node.signal("STOP");
            }
            _ if seq == PUBLISHED * 2 / 3 => {
                let meanwhile = taken_on.load(Relaxed) - before;
                peer.node.signal("CONT");
                println!("taken on: {before} before the stop, {meanwhile} during it");
                assert!(meanwhile * 100 >= before * 95, "{meanwhile} were taken on, and {before} before");
            }
            _ => {}
        }
        if seq % AT_ONCE == 0 {
            thread::sleep(PAUSE);
        }
    }
}

/// What became of the publications at one node.
#[derive(Debug, Default)]
struct Account {
    /// Delivered to the subscriber.
    got: u64,
    /// At the node, and not read by the subscriber in time.
    unread: u64,
    /// Missing at the node, by reason.
    missing: BTreeMap<String, u64>,
}

impl Account {
    fn missing(&self) -> u64 {
        self.missing.values().sum()
    }
}

/// Listens until every publication is accounted for.
fn count(listening: &Listening) -> Account {
    let mut account = Account::default();
    while account.got + account.unread + account.missing() < PUBLISHED {
        let event = listening.next();
        match event["event"].as_str() {
            Some("publication") if event["late"] == true => {
                // It was named before, and is not missing after all.
                account.got += 1;
                if let Some(named) = account.missing.values_mut().find(|named| **named > 0) {
                    *named -= 1;
                }
            }
            Some("publication") => account.got += 1,
            Some("gap") => {
                let named = event["to"].as_u64().unwrap() - event["from"].as_u64().unwrap() + 1;
                *account.missing.entry(event["reason"].as_str().unwrap().to_owned()).or_default() += named;
            }
            _ => account.unread += event["missed"].as_u64().unwrap(),
        }
    }
    account
}

fn run() {
    let lines = "security = \"plaintext\"\ntopics = [\"news\"]\npeer = { max_rps = 0 }\n";
    let mut nodes: Vec<OverlayNode> = Vec::new();
    for _ in 0..4 {
        let peers: Vec<_> = nodes.iter().map(|node| format!("\"{}@{}\"", node.id, node.addr)).collect();
        nodes.push(OverlayNode::start(Home::new(), &format!("{lines}peers = [{}]", peers.join(", "))));
    }
    nodes.iter().for_each(|node| node.wait_for_peers(3));
    let listening: Vec<_> = nodes[2..].iter().map(|node| node.subscribe("news")).collect();
    thread::scope(|scope| {
        scope.spawn(|| publish(nodes[0].addr, &nodes[1]));
        for (listening, node) in listening.iter().zip(&nodes[2..]) {
            let account = count(listening);
            assert!(account.missing() * 1000 <= PUBLISHED, "{account:?} at {}", node.id);
        }
    });
}

#[test]
fn a_peer_that_is_stopped_starves_nobody_else() {
    let runs = std::env::var("OMNIGATE_STOPPED_PEER_RUNS").map_or(1, |runs| runs.parse().unwrap());
    (0..runs).for_each(|_: u32| run());
}

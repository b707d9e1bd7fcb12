//! Three honest nodes in a row, two of which publish to each other while liars are connected to all of them.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use oap::Entry;
use types::NodeId;

use super::liar::Liar;
use crate::{
    overlay_node::{Home, Listening, OverlayNode, omnigate},
    support::{Client, Flag, PATIENCE, eventually},
};

/// What each of the two publishes while it is lied to. None of it may be missing.
const PUBLISHED: u64 = 300;
/// What each publishes before, so that everything has its usual size.
const BEFORE: u64 = 100;
/// A liar waits so long between two lies: it says as much as a node listens to, and leaves the processors to the nodes.
const BETWEEN_LIES: Duration = Duration::from_millis(1);
/// How much a node may grow by: the caches fill, and no more.
const GROWTH: u64 = 96 << 20;

/// What liars know of an honest publisher.
#[derive(Debug)]
pub(super) struct Honest {
    pub(super) publisher: NodeId,
    pub(super) incarnation: u64,
    /// The number of its last publication.
    pub(super) seq: AtomicU64,
}

impl Honest {
    /// The name of a publication so many after its last one.
    pub(super) fn ahead(&self, by: u64) -> Entry {
        let seq = self.seq.load(Relaxed) + by;
        Entry { publisher: self.publisher, incarnation: self.incarnation, seq }
    }
}

/// Honest nodes, and what is heard at the ends of the row.
pub(super) struct Ground {
    nodes: Vec<OverlayNode>,
    heard: [Listening; 2],
}

impl Ground {
    /// Nodes with these further lines of `[overlay]`.
    pub(super) fn start(lines: &str) -> Self {
        Self::start_as(&|_| lines.to_owned())
    }

    /// Nodes that check each other's signatures.
    pub(super) fn signed() -> Self {
        Self::start_as(&|homes| {
            let keys: Vec<_> = homes.iter().map(|home| format!("{:?}", key_of(home))).collect();
            format!("signed_topics = [\"news\"]\npublishers = [{}]\n", keys.join(", "))
        })
    }

    fn start_as(lines: &dyn Fn(&[Home]) -> String) -> Self {
        let homes = [Home::new(), Home::new(), Home::new()];
        let lines = lines(&homes);
        let mut nodes: Vec<OverlayNode> = Vec::new();
        for home in homes {
            let peers = nodes.last().map(|node| format!("peers = [\"{}@{}\"]\n", node.id, node.addr));
            let common = "security = \"plaintext\"\ntopics = [\"news\"]\npeer = { max_rps = 1000 }\n";
            nodes.push(OverlayNode::start(home, &format!("{common}{lines}{}", peers.unwrap_or_default())));
        }
        nodes[1].wait_for_peers(2);
        let heard = [nodes[2].subscribe("news"), nodes[0].subscribe("news")];
        Self { nodes, heard }
    }

    /// Has a liar at every node do `lie` again and again, with a number that grows, while the honest nodes publish. A liar
    /// whose session ends comes back.
    pub(super) fn endure(&self, lie: impl Fn(&mut Liar, &[Honest; 2], u64) -> bool + Sync) {
        let honest = [0, 2].map(|at| publish(&self.nodes[at], BEFORE, None));
        self.hear(&honest, BEFORE);
        let before: Vec<_> = self.nodes.iter().map(|node| node.node.resident_memory()).collect();
        let over = Flag::default();
        let published = BEFORE + PUBLISHED;
        thread::scope(|scope| {
            let _over = over.set_at_the_end();
            for node in &self.nodes {
                scope.spawn(|| lie_to(node.addr, &over, &honest, &lie));
            }
            let nodes = &self.nodes;
            thread::scope(|scope| {
                for (at, whose) in [(0, &honest[0]), (2, &honest[1])] {
                    scope.spawn(move || publish(&nodes[at], PUBLISHED, Some(whose)));
                }
            });
            self.hear(&honest, published);
        });
        for (node, before) in self.nodes.iter().zip(before) {
            let after = node.node.resident_memory();
            assert!(after <= before + GROWTH, "{} grew from {before} to {after} bytes", node.id);
            assert!(!node.node.log().contains("panicked"), "{}", node.node.log());
        }
    }

    /// A topic that somebody joins now works as well.
    pub(super) fn is_usable(&self, topic: &str) {
        let listening = self.nodes[2].subscribe(topic);
        // Nobody but the ends takes part, so what is published reaches the other end by way of nobody.
        let near = self.nodes[1].subscribe(topic);
        eventually("a neighbour takes it on", || {
            let answer = post(&self.nodes[0], topic, "anybody?");
            (answer.0 == 200 && answer.1["verdict"] == "accepted").then_some(())
        });
        for heard in [&near, &listening] {
            while heard.next()["event"] != "publication" {}
        }
    }

    pub(super) fn nodes(&self) -> &[OverlayNode] {
        &self.nodes
    }

    /// Listens at both ends until what the other has published up to a number is heard or named. Nothing else may be heard
    /// in its name, nothing twice, and nothing may be missing.
    fn hear(&self, honest: &[Honest; 2], upto: u64) {
        for (heard, whose) in self.heard.iter().zip(honest) {
            let publisher = whose.publisher.to_string();
            let (mut seqs, mut missing) = (BTreeSet::new(), BTreeSet::new());
            let first = if upto == BEFORE { 1 } else { BEFORE + 1 };
            let all: BTreeSet<u64> = (first..=upto).collect();
            while !all.is_subset(&(&seqs | &missing)) {
                let event = heard.next_within(PATIENCE).unwrap_or_else(|| {
                    let left: Vec<_> = all.iter().filter(|seq| !seqs.contains(*seq)).collect();
                    panic!("of {publisher}, {} did not come: {left:?}", left.len())
                });
                if event["publisher"] != publisher.as_str() {
                    continue;
                }
                match event["event"].as_str() {
                    Some("publication") => {
                        let seq = event["seq"].as_u64().unwrap();
                        assert_eq!(event["incarnation"].as_u64(), Some(whose.incarnation), "{event}");
                        assert_eq!(event["text"], format!("honest {seq}"), "{event}");
                        assert!(seqs.insert(seq), "twice: {event}");
                    }
                    Some("gap") => {
                        let run = event["from"].as_u64().unwrap()..=event["to"].as_u64().unwrap();
                        assert!(*run.end() <= upto, "invented: {event}");
                        missing.extend(run);
                    }
                    _ => panic!("{event}"),
                }
            }
            let lost = all.difference(&seqs).count();
            // Whoever publishes first may not know yet who takes part.
            assert!(first == 1 || lost == 0, "{lost} of {} are missing: {missing:?}", all.len());
        }
    }
}

/// The public key of the node in a folder.
fn key_of(home: &Home) -> String {
    omnigate(home.dir.path(), &["node", "key", "--config", "id.toml"]).trim().to_owned()
}

fn lie_to(
    addr: SocketAddr,
    over: &Flag,
    honest: &[Honest; 2],
    lie: &impl Fn(&mut Liar, &[Honest; 2], u64) -> bool,
) {
    let mut number = 0;
    while !over.is_set() {
        let Some(mut liar) = Liar::join(addr) else {
            thread::park_timeout(Duration::from_millis(5));
            continue;
        };
        while !over.is_set() && lie(&mut liar, honest, number) {
            number += 1;
            thread::park_timeout(BETWEEN_LIES);
        }
        number += 1;
    }
}

/// Publishes so many, each once the node takes it; who publishes, as liars may know it.
fn publish(node: &OverlayNode, count: u64, known: Option<&Honest>) -> Honest {
    let (mut last, mut client) = (None, None);
    for _ in 0..count {
        let next = known.map_or(0, |known| known.seq.load(Relaxed));
        let seq = last.as_ref().map_or(next, |honest: &Honest| honest.seq.load(Relaxed)) + 1;
        let answer = eventually("the node takes it", || {
            let (status, answer) = post_on(&mut client, node, "news", &format!("honest {seq}"));
            assert!(status == 200 || status == 429, "{status} {answer}");
            (status == 200).then_some(answer)
        });
        assert_eq!(answer["id"]["seq"].as_u64(), Some(seq), "{answer}");
        if let Some(known) = known {
            known.seq.store(seq, Relaxed);
        }
        last = Some(Honest {
            publisher: answer["id"]["publisher"].as_str().unwrap().parse().unwrap(),
            incarnation: answer["id"]["incarnation"].as_u64().unwrap(),
            seq: AtomicU64::new(seq),
        });
    }
    last.unwrap()
}

fn post(node: &OverlayNode, topic: &str, body: &str) -> (u16, serde_json::Value) {
    post_on(&mut None, node, topic, body)
}

/// The same on a connection that is kept.
fn post_on(
    client: &mut Option<Client>,
    node: &OverlayNode,
    topic: &str,
    body: &str,
) -> (u16, serde_json::Value) {
    let client = client.get_or_insert_with(|| Client::connect(node.node.admin).unwrap());
    let head = format!("POST /overlay/pub/{topic} HTTP/1.1\r\nhost: localhost\r\nx-omnigate: 1\r\n");
    let answer = client.ask(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).unwrap();
    (answer.status, answer.json())
}

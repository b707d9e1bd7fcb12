//! What a drain costs is said at its end: a node that is stopped while a peer does not read names what that peer will miss.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use bytes::{Bytes, BytesMut};
use oap::{Decoder, Entry, Features, Frame, Hello, Message, Parser, Proof, Publication, Topic};
use ron_transport::tls::raw_key::NodeKey;
use types::NodeId;

use crate::support::{Node, PATIENCE, eventually, free_addr};

/// More than the peer's box and the system's buffers hold.
const PUBLISHED: u32 = 600;
const BODY: usize = 30 * 1024;

/// A peer that has introduced itself as that node.
pub(super) fn join(addr: SocketAddr, node: NodeId) -> TcpStream {
    let mut socket = eventually("the node listens", || TcpStream::connect(addr).ok());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let hello = Hello {
        version: oap::VERSION,
        node,
        features: Features::NONE,
        max_frame: oap::FRAME_MAX,
        credit: oap::CREDIT_FLOOR,
        max_streams: 1,
        rate: 0,
        token: None,
        topics: Vec::new(),
    };
    say(&mut socket, Message::Hello(hello));
    let (mut received, mut room) = (BytesMut::new(), [0; 1024]);
    let answer = loop {
        if let Some(raw) = Decoder::default().next(&mut received).unwrap() {
            break Parser::default().parse(raw).unwrap().message;
        }
        let read = socket.read(&mut room).unwrap();
        assert!(read > 0, "the node closed the connection");
        received.extend_from_slice(&room[..read]);
    };
    assert!(matches!(answer, Message::Hello(_)), "{answer:?}");
    socket
}

pub(super) fn say(socket: &mut TcpStream, message: Message) {
    socket.write_all(&Frame::connection(message).to_bytes().unwrap()).unwrap();
}

#[test]
fn a_drain_says_how_many_publications_of_which_topic_it_gave_up() {
    let addr = free_addr();
    let mut node = Node::start(&format!(
        "enabled = false\n[node]\namnesia = true\ndrain_deadline = \"1s\"\n[overlay]\nenabled = true\nlisten = \"{addr}\"\n\
         security = \"plaintext\"\ntopics = [\"news\"]\ntimeouts = {{ read = \"60s\", write = \"60s\", idle = \"10m\" }}\n\
         peer = {{ max_rps = 0 }}\n"
    ));
    let (news, key) = (Topic::new("news").unwrap(), NodeKey::generate().unwrap());
    let publisher = NodeId::of_key(key.public_key().ed25519());
    let mut deaf = join(addr, NodeId::new([2; 32]));
    say(&mut deaf, Message::Subscribe(news.clone()));
    let received =
        |node: &Node| node.metric("gossip_frames_total{node=\"omnigate\",service=\"overlay\",dir=\"rx\"}");
    eventually("it takes part", || (received(&node) >= 1.0).then_some(()));
    let (mut socket, body) = (join(addr, publisher), Bytes::from(vec![7; BODY]));
    for seq in 1..=u64::from(PUBLISHED) {
        let id = Entry { publisher, incarnation: 1, seq }.in_topic(&news);
        let proof = Proof { key: *key.public_key().ed25519(), signature: key.sign(&id.head_bytes()) };
        let publication = Publication { proof: Some(proof.into()), ..Publication::new(id, body.clone()) };
        say(&mut socket, Message::Publish(publication));
    }
    eventually("everything has come", || (received(&node) > f64::from(PUBLISHED)).then_some(()));
    node.signal("TERM");
    node.wait();
    let log = node.log();
    let told: Vec<_> =
        log.lines().filter(|line| line.contains("were given up while the node drained")).collect();
    let [told] = told[..] else { panic!("said once: {log}") };
    let lost = told.split_once("lost=").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok());
    let lost = lost.unwrap_or_else(|| panic!("{told}"));
    assert!((1..=PUBLISHED).contains(&lost) && told.contains(&format!("news {lost}")), "{told}");
}

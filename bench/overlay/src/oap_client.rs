//! A node that says HELLO, takes part in one topic, and answers whether it is still there.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use bytes::{Bytes, BytesMut};
use ed25519_dalek::{Signer, SigningKey};
use oap::{
    CREDIT_FLOOR, Decoder, FRAME_MAX, Features, Frame, Hello, Message, MessageId, Parser, Proof, Publication,
    Topic, VERSION,
};
use types::NodeId;

use crate::{
    Outcome,
    fan::{Got, Publish},
};

/// One publication in so many has a proof, as the specification demands.
const PROVEN_EVERY: u64 = 256;

/// The node that publishes.
const PUBLISHER: u64 = 1;

/// A session that publishes.
pub(crate) struct Publisher {
    topic: Topic,
    incarnation: u64,
    seq: u64,
    buffer: BytesMut,
}

impl Publisher {
    pub(crate) fn new() -> Self {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let incarnation = u64::try_from(since.as_millis()).unwrap_or(1);
        Self { topic: topic(), incarnation, seq: 0, buffer: BytesMut::new() }
    }
}

impl Publish for Publisher {
    fn put(&mut self, body: &[u8], out: &mut Vec<u8>) {
        self.seq += 1;
        let (publisher, topic) = (node(PUBLISHER), self.topic.clone());
        let id = MessageId { publisher, incarnation: self.incarnation, topic, seq: self.seq };
        let proof = (self.seq % PROVEN_EVERY == 1).then(|| prove(&id).into());
        let publication = Publication { proof, ..Publication::new(id, Bytes::copy_from_slice(body)) };
        self.buffer.clear();
        let frame = Frame::connection(Message::Publish(publication));
        frame.encode(&mut self.buffer).expect("a good publication");
        out.extend_from_slice(&self.buffer);
    }
}

/// A session after both HELLOs.
pub(crate) fn connect(addr: SocketAddr, number: u64) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    let hello = Hello {
        version: VERSION,
        node: node(number),
        features: Features::default(),
        max_frame: FRAME_MAX,
        credit: CREDIT_FLOOR,
        max_streams: 1,
        rate: 0,
        token: None,
        topics: Vec::new(),
    };
    stream.write_all(&Frame::connection(Message::Hello(hello)).to_bytes()?)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut rest = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut rest)?;
    let mut received = BytesMut::from(&length[..]);
    received.extend_from_slice(&rest);
    let raw = Decoder::default().next(&mut received)?.ok_or("no frame")?;
    match Parser::default().parse(raw)?.message {
        Message::Hello(_) => Ok(stream),
        other => Err(format!("not let in: {other:?}").into()),
    }
}

/// Takes part in the topic, and counts until the connection ends. The publisher listens too, but is sent nothing of its own.
pub(crate) fn listen(mut stream: TcpStream, got: &Got) -> Outcome<()> {
    stream.write_all(&Frame::connection(Message::Subscribe(topic())).to_bytes()?)?;
    let (decoder, mut parser) = (Decoder::default(), Parser::default());
    let (mut received, mut latencies) = (BytesMut::new(), Vec::new());
    let mut chunk = vec![0; 1 << 17];
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        received.extend_from_slice(&chunk[..read]);
        while let Some(raw) = decoder.next(&mut received)? {
            match parser.parse(raw)?.message {
                Message::Publish(publication) => got.add(&publication.body, &mut latencies),
                Message::Ping(number) => {
                    stream.write_all(&Frame::connection(Message::Pong(number)).to_bytes()?)?;
                }
                _ => {}
            }
        }
    }
}

fn topic() -> Topic {
    Topic::new("bench").expect("a good name")
}

/// The id of the node with this number.
fn node(number: u64) -> NodeId {
    NodeId::of_key(key(number).verifying_key().as_bytes())
}

/// The key of a node; anybody may know it, since nobody else measures.
fn key(number: u64) -> SigningKey {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    SigningKey::from_bytes(&seed)
}

/// The publisher's word that it has got this far.
fn prove(head: &MessageId) -> Proof {
    let key = key(PUBLISHER);
    Proof { key: key.verifying_key().to_bytes(), signature: key.sign(&head.head_bytes()).to_bytes() }
}

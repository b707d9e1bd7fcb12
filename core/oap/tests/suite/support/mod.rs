//! Frames to test with: the examples of the specification, and any others.

use b3tree::{Builder, Prover};
use bytes::{Bytes, BytesMut};
use oap::{
    Accepted, Chunks, Data, Decoder, Entry, ErrorCode, Fault, Features, Frame, Get, Goaway, Graft, Head,
    Hello, IHave, IWant, Message, Parser, Proof, Publication, Start, Token, Topic, VERSION, WantedPattern,
};
use std::sync::Arc;
use types::{NodeId, ObjectId};

pub(crate) const NODE: NodeId = NodeId::new([0xa1; 32]);
pub(crate) const OTHER: NodeId = NodeId::new([0xb2; 32]);

pub(crate) fn topic() -> Topic {
    Topic::new("news/eu").unwrap()
}

pub(crate) fn entry(seq: u64) -> Entry {
    Entry { publisher: NODE, incarnation: 3, seq }
}

pub(crate) fn hello(node: NodeId) -> Hello {
    Hello {
        version: VERSION,
        node,
        features: Features::OBJECTS,
        max_frame: 1024 * 1024,
        credit: 256 * 1024,
        max_streams: 4,
        rate: 500,
        token: None,
        topics: vec![topic()],
    }
}

pub(crate) fn prover(object: &[u8]) -> Prover {
    Prover::new(Arc::new(Builder::new().update(object).finish()))
}

/// What answers a GET.
pub(crate) fn answer(object: &[u8], get: &Get) -> Vec<Data> {
    let prover = prover(object);
    Chunks::of_get(get, object.len() as u64).unwrap().map(|range| chunk(&prover, object, range)).collect()
}

pub(crate) fn chunk(prover: &Prover, object: &[u8], range: std::ops::Range<u64>) -> Data {
    let at = |offset| usize::try_from(offset).unwrap();
    let body = Bytes::copy_from_slice(&object[at(range.start)..at(range.end)]);
    Data::prove(prover, range, body).unwrap()
}

/// The examples of the specification, by their names there.
pub(crate) fn examples() -> Vec<(&'static str, Frame)> {
    let id = ObjectId::new(*blake3::hash(&[0; 16_385]).as_bytes());
    let last = Get { id, offset: 16_384, len: 1, tail: false };
    let data = answer(&[0; 16_385], &last).remove(0);
    let publication = Publication::new(entry(7).in_topic(&topic()), Bytes::from_static(b"hello"));
    let signed = Publication { signature: Some([0x5c; 64]), hops: 2, ..publication.clone() };
    let proof = Proof { key: [0xb2; 32], signature: [0x7d; 64] };
    let proven = Publication { proof: Some(proof.into()), ..publication.clone() };
    let token = Token::new(Bytes::from_static(b"secret"));
    let busy =
        Fault::new(ErrorCode::Busy, "queue full").retry_after_ms(250).about(entry(7).in_topic(&topic()));
    let ihave = IHave {
        topic: topic(),
        entries: vec![entry(6), entry(7)],
        heads: vec![Head { entry: entry(9), proof }],
    };
    let on = |message| Frame::on(1, message);
    let gossip = Frame::connection;
    vec![
        ("hello", gossip(Message::Hello(hello(NODE)))),
        ("hello-token", gossip(Message::Hello(Hello { token, topics: Vec::new(), ..hello(NODE) }))),
        ("start-get", on(Message::Start(Start::Get(last)))),
        ("start-put", on(Message::Start(Start::Put { id, len: 16_385 }))),
        ("data", on(Message::Data(data))),
        ("end", on(Message::End)),
        ("ack", on(Message::Ack { credit: 65_536 })),
        ("error", gossip(Message::Error(busy))),
        ("error-stream", on(Message::Error(Fault::new(ErrorCode::NotFound, "")))),
        ("goaway", gossip(Message::Goaway(Goaway::new(ErrorCode::Draining, 5, "restart")))),
        ("ping", gossip(Message::Ping(7))),
        ("pong", gossip(Message::Pong(7))),
        ("pub", gossip(Message::Publish(publication))),
        ("pub-signed", gossip(Message::Publish(signed))),
        ("pub-proven", gossip(Message::Publish(proven))),
        ("ihave", gossip(Message::IHave(ihave))),
        ("iwant", gossip(Message::IWant(IWant { topic: topic(), entries: vec![entry(6)] }))),
        ("graft", gossip(Message::Graft(Graft { topic: topic(), missing: Some(entry(6)) }))),
        ("graft-bare", gossip(Message::Graft(Graft { topic: topic(), missing: None }))),
        ("prune", gossip(Message::Prune(topic()))),
        ("sub", gossip(Message::Subscribe(topic()))),
        ("unsub", gossip(Message::Unsubscribe(topic()))),
        (
            "patterns",
            gossip(Message::Patterns(vec![
                WantedPattern { pattern: "metrics.*.cpu".into(), hops: 4 },
                WantedPattern { pattern: "news.>".into(), hops: 1 },
            ])),
        ),
        ("puback", gossip(Message::Accepted(Accepted { topic: topic(), incarnation: 3, seqs: vec![7, 8] }))),
    ]
}

pub(crate) fn encode(frame: &Frame) -> BytesMut {
    let mut out = BytesMut::new();
    frame.encode(&mut out).unwrap();
    out
}

/// Everything that can be read from these bytes, and what stopped it.
pub(crate) fn read_all(mut bytes: BytesMut, decoder: Decoder) -> (Vec<Frame>, Option<String>) {
    let (mut parser, mut frames) = (Parser::default(), Vec::new());
    loop {
        match decoder.next(&mut bytes) {
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error.to_string())),
            Ok(Some(raw)) => match parser.parse(raw) {
                Ok(frame) => frames.push(frame),
                Err(error) => return (frames, Some(error.to_string())),
            },
        }
    }
}

//! Any bytes from a peer: refused, or read and written alike, however they are cut; and a session that is told of them
//! keeps its streams within what was agreed.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use oap::{CREDIT_MAX, Decoder, Features, Frame, Hello, Message, Parser, Session, Side, Start, VERSION};
use types::{NodeId, ObjectId};

const MAX_STREAMS: u16 = 3;

fuzz_target!(|input: (bool, u8, &[u8])| {
    let (has_checksums, piece, bytes) = input;
    // As long as a frame may be, so that lengths are refused and not only waited for.
    let decoder = Decoder::new(4096, has_checksums);
    let whole = read(decoder, bytes, bytes.len().max(1));
    assert_eq!(read(decoder, bytes, usize::from(piece).max(1)), whole);
    let mut session = session();
    for frame in whole.0 {
        let _ = session.receive(frame);
        let streams = session.streams().expect("after HELLO");
        assert!(streams.len() <= usize::from(2 * MAX_STREAMS));
        assert!((0..16).all(|stream| streams.sendable(stream).unwrap_or_default() <= CREDIT_MAX.into()));
    }
});

/// All frames, and whether the rest was refused.
fn read(decoder: Decoder, bytes: &[u8], piece: usize) -> (Vec<Frame>, bool) {
    let (mut buffer, mut parser, mut frames) = (BytesMut::new(), Parser::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            let raw = match decoder.next(&mut buffer) {
                Ok(Some(raw)) => raw,
                Ok(None) => break,
                Err(_) => return (frames, true),
            };
            let Ok(frame) = parser.parse(raw.clone()) else { return (frames, true) };
            check_written(&frame, &raw);
            frames.push(frame);
        }
    }
    (frames, false)
}

fn check_written(frame: &Frame, raw: &oap::RawFrame) {
    let mut out = BytesMut::new();
    frame.encode(&mut out).expect("what is read may be written");
    let again = Decoder::new(4096, false).next(&mut out).expect("a frame").expect("all of it");
    match &frame.message {
        // A later version may say more than is understood.
        Message::Hello(hello) if hello.version > VERSION => assert!(raw.header.starts_with(&again.header)),
        _ => assert_eq!(&again, raw),
    }
}

/// After the HELLOs, with a stream of ours open.
fn session() -> Session {
    let hello = |node| Hello {
        version: VERSION,
        node: NodeId::new([node; 32]),
        features: Features::OBJECTS,
        max_frame: 1 << 20,
        credit: 1 << 18,
        max_streams: MAX_STREAMS,
        rate: 0,
        token: None,
        topics: Vec::new(),
    };
    let mut session = Session::new(Side::Dialer, hello(1));
    session.receive(Frame::connection(Message::Hello(hello(2)))).expect("they agree");
    let put = Start::Put { id: ObjectId::new([7; 32]), len: 100_000 };
    session.streams().expect("after HELLO").open(&put).expect("the first");
    session
}

//! Frames however they arrive: cut anywhere, too long, too short, one behind the other.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::support::{encode, entry, examples, hello, read_all, topic};
use bytes::{BufMut, Bytes, BytesMut};
use oap::{
    Data, Decoder, ErrorCode, FRAME_FLOOR, FRAME_MAX, Fault, Frame, FrameError, HEADS_MAX, HELLO_FRAME_MAX,
    HELLO_TOPICS_MAX, Head, IHave, IWant, InvalidMessage, LIST_MAX, Message, PUBLICATION_MAX, Proof,
    Publication, TOPIC_MAX, Topic, put_with_checksum,
};
use proptest::{prelude::*, sample::select};

fn length(len: u32) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_u32(len);
    bytes
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_length_alone() {
    for max in [HELLO_FRAME_MAX, FRAME_MAX] {
        let decoder = Decoder::new(max, false);
        assert_eq!(decoder.next(&mut length(max)), Ok(None));
        assert_eq!(decoder.missing(&length(max)), Ok(max as usize));
        let refused = FrameError::TooLong { len: max + 1, max };
        assert_eq!(decoder.next(&mut length(max + 1)), Err(refused));
        assert_eq!(decoder.missing(&length(u32::MAX)), Err(FrameError::TooLong { len: u32::MAX, max }));
        assert_eq!(refused.code(), ErrorCode::FrameCap);
    }
    let greedy = Decoder::new(u32::MAX, false);
    assert_eq!(
        greedy.next(&mut length(FRAME_MAX + 1)).unwrap_err().code(),
        ErrorCode::FrameCap,
        "whatever is agreed"
    );
}

#[test]
fn a_frame_that_is_too_short_is_refused() {
    for (has_checksums, least) in [(false, 8), (true, 12)] {
        let decoder = Decoder::new(FRAME_MAX, has_checksums);
        assert_eq!(decoder.next(&mut length(least)), Ok(None));
        assert_eq!(decoder.next(&mut length(least - 1)), Err(FrameError::TooShort { len: least - 1 }));
        assert_eq!(decoder.next(&mut length(0)), Err(FrameError::TooShort { len: 0 }));
    }
}

#[test]
fn a_header_ends_within_its_frame() {
    let mut bytes = encode(&Frame::connection(Message::Ping(7)));
    bytes[6..8].copy_from_slice(&9_u16.to_be_bytes());
    assert_eq!(Decoder::default().next(&mut bytes), Err(FrameError::Header));
}

#[test]
fn it_is_known_how_much_is_missing() {
    let whole = encode(&Frame::connection(Message::Ping(7)));
    let decoder = Decoder::default();
    for len in 0..=whole.len() {
        let expected = if len < 4 { 4 - len } else { whole.len() - len };
        assert_eq!(decoder.missing(&BytesMut::from(&whole[..len])), Ok(expected), "{len}");
    }
}

#[test]
fn the_largest_message_of_every_kind_fits_the_least_frame() {
    let longest = Topic::new(&"a".repeat(TOPIC_MAX)).unwrap();
    let entries = vec![entry(1); LIST_MAX];
    let mut hello = hello(crate::support::NODE);
    hello.topics = vec![longest.clone(); HELLO_TOPICS_MAX];
    hello.token = oap::Token::new(Bytes::from(vec![0; oap::TOKEN_MAX]));
    let body = Bytes::from(vec![0; PUBLICATION_MAX]);
    let proof = Proof { key: [0; 32], signature: [0; 64] };
    let publication = Publication {
        signature: Some([0; 64]),
        proof: Some(proof.into()),
        ..Publication::new(entry(1).in_topic(&longest), body)
    };
    let heads = vec![Head { entry: entry(1), proof }; HEADS_MAX];
    let ihave = IHave { topic: longest.clone(), entries, heads };
    let data = Data {
        object_len: u64::MAX,
        offset: 0,
        proof: Bytes::from(vec![0; b3tree::PROOF_MAX]),
        body: Bytes::from(vec![0; oap::CHUNK_MAX]),
    };
    assert!(data.cost() <= oap::CREDIT_FLOOR.into(), "a stream always has credit for a chunk, some time");
    let hello = encode(&Frame::connection(Message::Hello(hello)));
    assert!(hello.len() <= HELLO_FRAME_MAX as usize, "{}", hello.len());
    for frame in [
        Frame::connection(Message::Publish(publication)),
        Frame::connection(Message::IHave(ihave)),
        Frame::on(1, Message::Data(data)),
    ] {
        let mut out = BytesMut::new();
        put_with_checksum(&encode(&frame), &mut out);
        assert!(out.len() <= FRAME_FLOOR as usize, "{}", out.len());
        assert_eq!(read_all(out, Decoder::new(FRAME_FLOOR, true)), (vec![frame], None));
    }
}

#[test]
fn what_a_reader_would_refuse_is_not_written() {
    let entries = |count| IWant { topic: topic(), entries: vec![entry(1); count] };
    let publication = |len| Publication::new(entry(1).in_topic(&topic()), Bytes::from(vec![0; len]));
    let data = |object_len, offset, body, proof| Data {
        object_len,
        offset,
        proof: Bytes::from(vec![0; proof]),
        body: Bytes::from(vec![0; body]),
    };
    let get = |len, tail| {
        let id = types::ObjectId::new([0; 32]);
        Message::Start(oap::Start::Get(oap::Get { id, offset: 0, len, tail }))
    };
    let long = Fault { detail: "a".repeat(257).into(), ..Fault::new(ErrorCode::Busy, "") };
    use InvalidMessage as Rule;
    let table = [
        (1, Message::Ping(1), Err(Rule::Stream)),
        (0, Message::End, Err(Rule::Stream)),
        (0, Message::IWant(entries(0)), Err(Rule::List)),
        (0, Message::IWant(entries(LIST_MAX)), Ok(())),
        (0, Message::IWant(entries(LIST_MAX + 1)), Err(Rule::List)),
        (0, Message::IWant(IWant { entries: vec![entry(0)], ..entries(1) }), Err(Rule::Seq)),
        (0, Message::Publish(publication(PUBLICATION_MAX)), Ok(())),
        (0, Message::Publish(publication(PUBLICATION_MAX + 1)), Err(Rule::Body)),
        (1, Message::Ack { credit: 0 }, Err(Rule::Credit)),
        (0, Message::Error(long), Err(Rule::Detail)),
        (0, Message::Error(Fault::new(ErrorCode::Busy, &"é".repeat(200))), Ok(())),
        (1, get(0, false), Err(Rule::Range)),
        (1, get(0, true), Ok(())),
        (1, Message::Data(data(0, 0, 0, 0)), Ok(())),
        (1, Message::Data(data(1, 0, 0, 0)), Err(Rule::Groups)),
        (1, Message::Data(data(20_000, 0, 16_384, 32)), Ok(())),
        (1, Message::Data(data(20_000, 0, 16_383, 32)), Err(Rule::Groups)),
        (1, Message::Data(data(20_000, 16_384, 3616, 32)), Ok(())),
        (1, Message::Data(data(20_000, 16_384, 3617, 32)), Err(Rule::Groups)),
        (1, Message::Data(data(20_000, 16_383, 3617, 32)), Err(Rule::Groups)),
        (1, Message::Data(data(20_000, 0, 16_384, 33)), Err(Rule::Proof)),
        (1, Message::Data(data(1 << 40, 0, 65_536, b3tree::PROOF_MAX + 32)), Err(Rule::Proof)),
        (1, Message::Data(data(1 << 40, 0, 65_536 + 16_384, 32)), Err(Rule::Body)),
    ];
    for (stream, message, verdict) in table {
        let mut out = BytesMut::from(&b"before"[..]);
        let frame = Frame { stream, message };
        assert_eq!(frame.encode(&mut out), verdict, "{frame:?}");
        assert_eq!(verdict.is_err(), out == b"before"[..]);
    }
}

#[test]
fn topics_have_the_characters_and_lengths_they_may_have() {
    for good in ["a", "news/eu", "a.b_c-9", &"z".repeat(TOPIC_MAX)] {
        assert_eq!(good.parse::<Topic>().unwrap().as_str(), good);
    }
    for bad in ["", "A", "a b", "é", "a\0", "a*", &"z".repeat(TOPIC_MAX + 1)] {
        assert_eq!(bad.parse::<Topic>(), Err(oap::InvalidTopic), "{bad}");
    }
}

#[test]
fn a_token_is_never_shown() {
    let (_, frame) = examples().into_iter().find(|(name, _)| *name == "hello-token").unwrap();
    assert!(!format!("{frame:?}").contains("secret") && format!("{frame:?}").contains("Token(..)"));
}

proptest! {
    /// The frames come out the same however their bytes were cut into pieces, with checksums and without.
    #[test]
    fn any_split_of_the_bytes_gives_the_same_frames(
        frames in prop::collection::vec(select(examples()), 1..6),
        pieces in prop::collection::vec(1..200_usize, 1..40),
        has_checksums in any::<bool>(),
    ) {
        let mut wire = BytesMut::new();
        for (_, frame) in &frames {
            match has_checksums {
                true => put_with_checksum(&encode(frame), &mut wire),
                false => frame.encode(&mut wire).unwrap(),
            }
        }
        let decoder = Decoder::new(FRAME_MAX, has_checksums);
        let (mut parser, mut buffer, mut read) = (oap::Parser::default(), BytesMut::new(), Vec::new());
        let mut sizes = pieces.iter().cycle();
        while !wire.is_empty() {
            let size = (*sizes.next().unwrap()).min(wire.len());
            buffer.unsplit(BytesMut::from(&wire.split_to(size)[..]));
            while let Some(raw) = decoder.next(&mut buffer).unwrap() {
                read.push(parser.parse(raw).unwrap());
            }
        }
        prop_assert_eq!(read, frames.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>());
        prop_assert!(buffer.is_empty());
    }

    /// No bytes make a reader panic, and what it reads is written as it was.
    #[test]
    fn any_bytes_are_refused_or_read_and_written_alike(
        kind in 0..32_u8,
        flags in 0..4_u8,
        stream in 0..3_u32,
        header in prop::collection::vec(any::<u8>(), 0..200),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut wire = BytesMut::new();
        wire.put_u32(u32::try_from(8 + header.len() + body.len()).unwrap());
        wire.put_u8(kind);
        wire.put_u8(flags);
        wire.put_u16(u16::try_from(header.len()).unwrap());
        wire.put_u32(stream);
        wire.put_slice(&header);
        wire.put_slice(&body);
        if let (frames, None) = read_all(wire.clone(), Decoder::default()) {
            prop_assert_eq!(encode(&frames[0]), wire);
        }
    }
}

//! The specification's examples: frames are what `docs/oap-1.md` says, and any change to them is noticed.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, fmt::Write};

use crate::support::{encode, examples, read_all};
use bytes::BytesMut;
use oap::{Decoder, FRAME_MAX, Frame, Message, Parser, put_with_checksum};

const SPECIFICATION: &str = include_str!("../../../../docs/oap-1.md");

/// The blocks fenced as `hex NAME`. What follows `#` in a line is a comment.
fn vectors() -> BTreeMap<String, Vec<u8>> {
    let mut vectors = BTreeMap::new();
    for block in SPECIFICATION.split("```hex ").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap();
        let lines = rest.split("```").next().unwrap().lines();
        let digits: String =
            lines.flat_map(|line| line.split('#').next().unwrap().split_whitespace()).collect();
        let bytes =
            (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
        assert!(vectors.insert(name.trim().to_owned(), bytes.collect()).is_none(), "{name} twice");
    }
    vectors
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn parse(bytes: &[u8]) -> Result<Frame, String> {
    match read_all(bytes.into(), Decoder::default()) {
        (mut frames, None) if frames.len() == 1 => Ok(frames.remove(0)),
        (_, error) => Err(error.unwrap_or_else(|| "not a whole frame".to_owned())),
    }
}

#[test]
fn every_example_is_written_and_read_as_the_specification_says() {
    let mut vectors = vectors();
    for (name, frame) in examples() {
        let written = encode(&frame);
        let vector = vectors.remove(name).unwrap_or_default();
        assert_eq!(hex(&written), hex(&vector), "{name}");
        assert_eq!(parse(&vector), Ok(frame), "{name}");
    }
    let checksummed = vectors.remove("ping-crc32c").unwrap();
    let mut out = BytesMut::new();
    put_with_checksum(&encode(&Frame::connection(Message::Ping(7))), &mut out);
    assert_eq!(hex(&out), hex(&checksummed));
    assert!(vectors.is_empty(), "not tested: {:?}", vectors.keys());
}

#[test]
fn no_prefix_of_an_example_is_a_frame() {
    for (name, vector) in vectors() {
        for len in 0..vector.len() {
            let mut prefix = BytesMut::from(&vector[..len]);
            assert_eq!(Decoder::default().next(&mut prefix), Ok(None), "{len} bytes of {name}");
            assert_eq!(prefix.len(), len, "what is not a whole frame stays");
        }
    }
}

/// Cut off inside and made to look whole: the length is put right, so that the fields have to notice.
#[test]
fn an_example_whose_header_or_body_is_cut_short_is_refused_or_means_something_else() {
    for (name, frame) in examples() {
        let whole = encode(&frame);
        for len in 12..whole.len() {
            let mut cut = BytesMut::from(&whole[..len]);
            cut[..4].copy_from_slice(&u32::try_from(len - 4).unwrap().to_be_bytes());
            let header_len = u16::from_be_bytes([cut[6], cut[7]]).min(u16::try_from(len - 12).unwrap());
            cut[6..8].copy_from_slice(&header_len.to_be_bytes());
            if let Ok(other) = parse(&cut) {
                assert_ne!(other, frame, "{len} bytes of {name}");
                assert_eq!(encode(&other), cut, "{len} bytes of {name}");
            }
        }
    }
}

#[test]
fn a_changed_byte_is_refused_or_means_something_else_and_nothing_is_read_in_two_ways() {
    for (name, frame) in examples() {
        let whole = encode(&frame);
        for at in 0..whole.len() {
            for value in 0..=255 {
                let mut changed = whole.clone();
                if changed[at] == value {
                    continue;
                }
                changed[at] = value;
                let Ok(other) = parse(&changed) else { continue };
                assert_ne!(other, frame, "byte {at} of {name} as {value}");
                // A lower length ends the frame earlier; the rest is the beginning of another.
                assert!(changed.starts_with(&encode(&other)), "byte {at} of {name} as {value}");
            }
        }
    }
}

#[test]
fn with_checksums_no_changed_byte_is_read() {
    let decoder = Decoder::new(FRAME_MAX, true);
    for (name, frame) in examples() {
        let mut whole = BytesMut::new();
        put_with_checksum(&encode(&frame), &mut whole);
        assert_eq!(read_all(whole.clone(), decoder), (vec![frame], None), "{name}");
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(read_all(changed, decoder).0, [], "bit {bit} of byte {at} of {name}");
            }
        }
    }
}

/// Every number of a kind and every flag: what is not in the specification is refused.
#[test]
fn unknown_kinds_and_flags_are_refused() {
    for (name, frame) in examples() {
        let whole = encode(&frame);
        for kind in (0..=255).filter(|kind| !matches!(kind, 1..=9 | 16..=24)) {
            let mut changed = whole.clone();
            changed[4] = kind;
            assert_eq!(parse(&changed), Err(format!("an unknown kind of frame: {kind}")), "{name}");
        }
        let known = if matches!(frame.message, Message::Publish(_)) { 3 } else { 1 };
        for flags in known + 1..=255 {
            let mut changed = whole.clone();
            changed[5] = flags;
            assert_eq!(parse(&changed), Err("an unknown flag".to_owned()), "{name}");
        }
    }
}

#[test]
fn a_hello_of_a_later_version_may_say_more_than_is_understood() {
    let mut whole = encode(&examples()[0].1);
    let header_len = u16::from_be_bytes([whole[6], whole[7]]);
    let end = 12 + usize::from(header_len);
    let rest = whole.split_off(end);
    whole.extend_from_slice(b"more");
    whole.unsplit(rest);
    let len = u32::try_from(whole.len() - 4).unwrap();
    whole[..4].copy_from_slice(&len.to_be_bytes());
    whole[6..8].copy_from_slice(&(header_len + 4).to_be_bytes());
    assert_eq!(parse(&whole), Err("bytes after the last field".to_owned()), "of our own version");
    whole[17] = 2;
    let Ok(Frame { message: Message::Hello(hello), .. }) = parse(&whole) else {
        panic!("of a later version")
    };
    assert_eq!((hello.version, hello.topics.len()), (2, 1));
    whole[17] = 0;
    assert_eq!(parse(&whole), Err("version 0 does not exist".to_owned()));
}

#[test]
fn a_topic_is_shared_between_the_frames_of_a_connection() {
    let mut parser = Parser::default();
    let mut read = || {
        let mut bytes = encode(&Frame::connection(Message::Prune(crate::support::topic())));
        match parser.parse(Decoder::default().next(&mut bytes).unwrap().unwrap()).unwrap().message {
            Message::Prune(topic) => topic,
            other => panic!("{other:?}"),
        }
    };
    let (first, second) = (read(), read());
    assert!(std::ptr::eq(first.as_str(), second.as_str()));
}

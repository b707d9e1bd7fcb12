//! What went in comes out, however it is cut up; what is cut short, damaged or continued is refused.

mod common;

use common::{GENEROUS, KINDS, Outcome, decode, decode_whole, noise};
use decode::{Coding, DecodeError, Decoder, Limits, STEP_MAX};
use proptest::prelude::*;
use types::Reason;

/// Text-like bytes and noise in turns, so that matches, literals and stored blocks all occur.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let run = (any::<u8>(), 1..600_usize).prop_map(|(byte, len)| vec![byte; len]);
    let words = prop::collection::vec(prop::sample::select(vec!["alpha ", "beta ", "γ", "\n"]), 1..80)
        .prop_map(|words| words.concat().into_bytes());
    let random = prop::collection::vec(any::<u8>(), 1..400);
    prop::collection::vec(prop_oneof![run, words, random], 0..12).prop_map(|parts| parts.concat())
}

fn pieces<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for len in lengths.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at((*len).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_body_comes_out_as_it_went_in_at_any_chunking(
        body in bodies(),
        lengths in prop::collection::vec(1..700_usize, 1..6),
        room in 1..3000_usize,
    ) {
        for kind in KINDS {
            let encoded = (kind.encode)(&body);
            let outcome = decode(kind.coding, GENEROUS, pieces(&encoded, &lengths), room);
            prop_assert_eq!(outcome, Outcome { decoded: body.clone(), result: Ok(()) }, "{}", kind.name);
        }
        let plain = decode(Coding::Identity, GENEROUS, pieces(&body, &lengths), room);
        prop_assert_eq!(plain, Outcome { decoded: body, result: Ok(()) });
    }

    #[test]
    fn damage_is_refused_or_harmless_and_never_more_than_the_limits(
        body in bodies(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let limits = Limits { max_ratio: 10, slack: 2048, max_bytes: 6000 };
        for kind in KINDS {
            let mut encoded = (kind.encode)(&body);
            let at = at.index(encoded.len());
            encoded[at] ^= flip;
            let outcome = decode_whole(kind.coding, limits, &encoded);
            prop_assert!(outcome.decoded.len() <= 6000);
            let checked = matches!(kind.coding, Coding::Gzip | Coding::Zstd) || kind.name == "zlib";
            if checked && outcome.result.is_ok() {
                // What their checksums do not cover: a name, a flag, a timestamp.
                prop_assert_eq!(outcome.decoded, body.as_slice(), "{}", kind.name);
            }
        }
    }
}

#[test]
fn single_bytes_in_and_out_are_enough() {
    let body = b"so short, so short, and yet whole".repeat(3);
    for kind in KINDS {
        let encoded = (kind.encode)(&body);
        let outcome = decode(kind.coding, GENEROUS, encoded.chunks(1), 1);
        assert_eq!(outcome, Outcome { decoded: body.clone(), result: Ok(()) }, "{}", kind.name);
    }
}

#[test]
fn an_empty_body_has_an_encoding_too() {
    for kind in KINDS {
        let outcome = decode_whole(kind.coding, GENEROUS, &(kind.encode)(b""));
        assert_eq!(outcome, Outcome { decoded: Vec::new(), result: Ok(()) }, "{}", kind.name);
    }
}

#[test]
fn a_body_cut_short_anywhere_is_refused() {
    let body = [noise(700), b"repeated, ".repeat(40)].concat();
    for kind in KINDS {
        let encoded = (kind.encode)(&body);
        let mut whole_members = 0;
        for cut in 0..encoded.len() {
            let outcome = decode_whole(kind.coding, GENEROUS, &encoded[..cut]);
            match outcome.result {
                // Between two members the first one is a body of its own.
                Ok(()) if kind.name.contains("of two") => {
                    whole_members += 1;
                    assert_eq!(outcome.decoded, body[..body.len() / 2], "{} at {cut}", kind.name);
                }
                other => assert_eq!(other, Err(DecodeError::Truncated), "{} at {cut}", kind.name),
            }
            assert!(body.starts_with(&outcome.decoded), "{} at {cut}", kind.name);
        }
        assert_eq!(whole_members, usize::from(kind.name.contains("of two")), "{}", kind.name);
    }
}

#[test]
fn bytes_behind_the_end_are_refused() {
    for kind in KINDS {
        for garbage in [b"\0".as_slice(), b"garbage", b"\x1f\x8b\x08garbage of a member, or so it seems"] {
            let encoded = [(kind.encode)(b"body").as_slice(), garbage].concat();
            let together = decode_whole(kind.coding, GENEROUS, &encoded);
            let apart = decode(kind.coding, GENEROUS, encoded.chunks(1), 64);
            for outcome in [together, apart] {
                let error = outcome.result.expect_err(kind.name);
                assert_eq!(error.reason(), Reason::Malformed, "{}: {error}", kind.name);
            }
        }
    }
}

#[test]
fn a_stream_of_another_coding_is_malformed() {
    for kind in KINDS {
        for other in KINDS.iter().filter(|other| other.coding != kind.coding) {
            let outcome = decode_whole(kind.coding, GENEROUS, &(other.encode)(&noise(500)));
            let error = outcome.result.expect_err(other.name);
            assert_eq!(error.reason(), Reason::Malformed, "{} as {:?}", other.name, kind.coding);
        }
    }
}

#[test]
fn a_window_beyond_eight_mebibytes_is_refused_for_zstd() {
    use zstd::stream::raw::CParameter;
    let encode = |window: u32| {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("a level that exists");
        // Without the size in its header, a frame has to say how large its window is.
        encoder.set_parameter(CParameter::WindowLog(window)).expect("a window that exists");
        std::io::Write::write_all(&mut encoder, b"small").expect("a vector takes all");
        encoder.finish().expect("a vector takes all")
    };
    assert_eq!(decode_whole(Coding::Zstd, GENEROUS, &encode(23)).result, Ok(()));
    assert_eq!(decode_whole(Coding::Zstd, GENEROUS, &encode(24)).result, Err(DecodeError::Malformed));
}

#[test]
fn a_large_window_is_refused_for_brotli() {
    // The first byte announces a window of the format that is not part of the standard.
    let large = [0x11, 0x1e, 0x03, 0, 0, 0];
    let error = decode_whole(Coding::Brotli, GENEROUS, &large).result.expect_err("not in the standard");
    assert_eq!(error.reason(), Reason::Malformed);
}

#[test]
fn a_step_without_room_or_input_does_nothing() {
    for kind in KINDS {
        let encoded = (kind.encode)(b"body");
        let mut decoder = Decoder::new(kind.coding, GENEROUS);
        for _ in 0..100 {
            let idle = decoder.decode(&encoded, &mut []).expect("no room is no error");
            assert_eq!((idle.consumed, idle.produced), (0, 0));
            let idle = decoder.decode(&[], &mut [0; 64]).expect("no input is no error");
            assert_eq!((idle.consumed, idle.produced), (0, 0));
        }
        let mut output = vec![0; STEP_MAX];
        let mut step = decoder.decode(&encoded, &mut output).expect("it is whole");
        if step.consumed < encoded.len() {
            step = decoder.decode(&encoded[step.consumed..], &mut output).expect("it is whole");
        }
        assert!(step.finished, "{}", kind.name);
    }
}

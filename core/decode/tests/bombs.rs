//! Bodies that expand too much are stopped early, with the reason; those just within the limits are not.

mod common;

use common::{GENEROUS, KINDS, decode, decode_whole, noise};
use decode::{Coding, DecodeError, Decoder, Limits, STEP_INPUT, STEP_MAX};
use types::{Reason, Refusal};

const MIB: usize = 1024 * 1024;

/// Noise with repetitions, so that it compresses to about a third.
fn text(len: usize) -> Vec<u8> {
    noise(len / 3 + 1).iter().flat_map(|byte| [*byte; 3]).take(len).collect()
}

#[test]
fn a_bomb_is_refused_for_its_ratio_long_before_its_end() {
    let zeros = vec![0; 16 * MIB];
    for kind in KINDS {
        let bomb = (kind.encode)(&zeros);
        assert!(bomb.len() < MIB, "{}", kind.name);
        for room in [STEP_MAX, 1000] {
            let outcome = decode(kind.coding, Limits::default(), [bomb.as_slice()], room);
            assert_eq!(outcome.result, Err(DecodeError::Ratio), "{}", kind.name);
            let fair = 10 * bomb.len() + STEP_MAX;
            assert!(outcome.decoded.len() <= fair, "{}: {}", kind.name, outcome.decoded.len());
        }
        let refusal = Refusal::from(DecodeError::Ratio);
        assert_eq!((refusal.reason.as_str(), refusal.reason.status()), ("decoded-ratio", 413));
    }
}

#[test]
fn a_large_body_is_refused_for_its_size_at_the_cap() {
    let body = text(MIB + 2 * STEP_MAX);
    let limits = Limits { max_bytes: MIB as u64, ..Limits::default() };
    for kind in KINDS {
        let encoded = (kind.encode)(&body);
        let outcome = decode(kind.coding, limits, encoded.chunks(16 * 1024), STEP_MAX);
        assert_eq!(outcome.result, Err(DecodeError::Cap), "{}", kind.name);
        assert!(outcome.decoded.len() <= MIB);
        assert!(outcome.decoded.len() > MIB - STEP_MAX, "{}: refused too early", kind.name);
        let refusal = Refusal::from(DecodeError::Cap);
        assert_eq!((refusal.reason.as_str(), refusal.reason.status()), ("decoded-cap", 413));
    }
}

#[test]
fn the_last_byte_within_the_cap_is_the_last_one_allowed() {
    let body = text(100_000);
    for kind in KINDS {
        let encoded = (kind.encode)(&body);
        let limited = |max_bytes| {
            let limits = Limits { max_bytes, ..GENEROUS };
            decode_whole(kind.coding, limits, &encoded).result
        };
        assert_eq!(limited(100_000), Ok(()), "{}", kind.name);
        assert_eq!(limited(99_999), Err(DecodeError::Cap), "{}", kind.name);
    }
}

#[test]
fn the_last_byte_within_the_ratio_is_the_last_one_allowed() {
    // One step decodes all of it, so that only the whole is judged.
    let body = vec![7; 50_000];
    for kind in KINDS.into_iter().filter(|kind| !kind.name.contains("of two")) {
        let encoded = (kind.encode)(&body);
        let limited = |slack| {
            let limits = Limits { max_ratio: 10, slack, max_bytes: u64::MAX };
            decode_whole(kind.coding, limits, &encoded).result
        };
        let free = 50_000 - 10 * encoded.len() as u64;
        assert_eq!(limited(free), Ok(()), "{}", kind.name);
        assert_eq!(limited(free - 1), Err(DecodeError::Ratio), "{}", kind.name);
    }
}

#[test]
fn a_decoder_tells_what_it_holds_and_that_grows_with_what_was_decoded() {
    let body = text(4 * MIB);
    for kind in KINDS {
        let encoded = (kind.encode)(&body);
        let mut decoder = Decoder::new(kind.coding, GENEROUS);
        let least = decoder.memory();
        assert!(least < 512 * 1024, "{}: {least}", kind.name);
        let (mut rest, mut output, mut decoded) = (encoded.as_slice(), vec![0; STEP_MAX], 0);
        while !rest.is_empty() || !decoder.is_drained() {
            let step =
                decoder.decode(rest, &mut output).unwrap_or_else(|error| panic!("{}: {error}", kind.name));
            (rest, decoded) = (&rest[step.consumed..], decoded + step.produced);
            let held = decoder.memory();
            assert!(held >= least, "{}: {held}", kind.name);
            assert!(held <= decoded as u64 + 4 * MIB as u64, "{}: {held} after {decoded}", kind.name);
        }
        let keeps_a_window = matches!(kind.coding, Coding::Brotli | Coding::Zstd);
        assert_eq!(decoder.memory() > 3 * MIB as u64, keeps_a_window, "{}: {}", kind.name, decoder.memory());
    }
}

#[test]
fn the_limits_are_those_of_the_design() {
    let limits = Limits::default();
    let (slack, cap) = (64 * 1024, 8 * 1024 * 1024);
    let table = [
        (0, 0, Ok(())),
        (0, slack, Ok(())),
        (0, slack + 1, Err(DecodeError::Ratio)),
        (1, slack + 10, Ok(())),
        (1, slack + 11, Err(DecodeError::Ratio)),
        (cap, cap, Ok(())),
        (cap, cap + 1, Err(DecodeError::Cap)),
        (0, cap + 1, Err(DecodeError::Cap)),
        (u64::MAX, cap, Ok(())),
    ];
    for (encoded, decoded, verdict) in table {
        assert_eq!(limits.judge(encoded, decoded), verdict, "{decoded} out of {encoded}");
    }
}

#[test]
fn a_plain_body_is_held_to_the_cap_as_well() {
    let limits = Limits { max_bytes: 1000, ..Limits::default() };
    assert_eq!(decode_whole(Coding::Identity, limits, &[1; 1000]).result, Ok(()));
    assert_eq!(decode_whole(Coding::Identity, limits, &[1; 1001]).result, Err(DecodeError::Cap));
}

#[test]
fn a_step_is_bounded_on_both_sides_whatever_the_buffers() {
    // A header of gzip with a file's name in it.
    let long_name = [&b"\x1f\x8b\x08\x08\0\0\0\0\0\xff"[..], &[b'x'; 2 * STEP_INPUT]].concat();
    let mut decoder = Decoder::new(Coding::Gzip, Limits::default());
    let step = decoder.decode(&long_name, &mut [0; 10]).expect("a name may be long");
    assert_eq!((step.consumed, step.produced), (STEP_INPUT, 0));

    let mut decoder = Decoder::new(Coding::Zstd, GENEROUS);
    let (bomb, mut output) = (common::zstd(&vec![0; MIB]), vec![0; MIB]);
    let step = decoder.decode(&bomb, &mut output).expect("all is allowed");
    assert_eq!(step.produced, STEP_MAX);
}

#[test]
fn a_body_has_a_limited_number_of_compressed_parts() {
    for (coding, empty) in [(Coding::Gzip, common::gzip(b"")), (Coding::Zstd, common::zstd(b""))] {
        let outcome = |parts| decode_whole(coding, Limits::default(), &empty.repeat(parts)).result;
        assert_eq!(outcome(250), Ok(()), "{coding:?}");
        assert_eq!(outcome(20_000), Err(DecodeError::Parts), "{coding:?}");
    }
    // Each is long enough for one more.
    let parts = common::gzip(&noise(300)).repeat(2000);
    assert_eq!(decode_whole(Coding::Gzip, Limits::default(), &parts).result, Ok(()));
}

#[test]
fn each_error_has_its_reason() {
    let table = [
        (DecodeError::Cap, Reason::DecodedCap),
        (DecodeError::Ratio, Reason::DecodedRatio),
        (DecodeError::Parts, Reason::DecodedRatio),
        (DecodeError::Malformed, Reason::Malformed),
        (DecodeError::Trailing, Reason::Malformed),
        (DecodeError::Truncated, Reason::Malformed),
    ];
    for (error, reason) in table {
        assert_eq!(error.reason(), reason);
    }
}

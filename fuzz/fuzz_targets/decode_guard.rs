//! A compressed body of any content, in pieces of any size: no step gives or takes more than it may, the whole keeps to the
//! limits, and it ends.

#![no_main]

use decode::{Coding, Decoder, Limits, STEP_MAX};
use libfuzzer_sys::fuzz_target;

/// Small, so that small inputs reach them.
const LIMITS: Limits = Limits { max_ratio: 10, slack: 256, max_bytes: 4096 };

/// What a body may begin with. Chance alone would rarely write it.
const BEGINNINGS: [(Coding, &[u8]); 8] = [
    (Coding::Identity, b""),
    (Coding::Gzip, b""),
    (Coding::Gzip, b"\x1f\x8b\x08\0\0\0\0\0\0\x03"),
    (Coding::Deflate, b""),
    (Coding::Deflate, b"\x78\x9c"),
    (Coding::Brotli, b""),
    (Coding::Zstd, b""),
    (Coding::Zstd, b"\x28\xb5\x2f\xfd"),
];

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (piece, room, body) = input;
    for (coding, beginning) in BEGINNINGS {
        check(coding, &[beginning, body].concat(), usize::from(piece) + 1, usize::from(room) + 1);
    }
});

fn check(coding: Coding, body: &[u8], piece: usize, room: usize) {
    let mut decoder = Decoder::new(coding, LIMITS);
    let mut output = vec![0; room];
    let (mut encoded, mut decoded) = (0, 0);
    for mut input in body.chunks(piece) {
        while !(input.is_empty() && decoder.is_drained()) {
            let Ok(step) = decoder.decode(input, &mut output) else {
                assert!(decoder.finish().is_err() && decoder.decode(input, &mut output).is_err());
                return;
            };
            assert!(step.consumed <= input.len().min(STEP_MAX) && step.produced <= room);
            assert!(step.consumed + step.produced > 0 || decoder.is_drained(), "it would never end");
            assert_eq!(step.finished, decoder.finish().is_ok());
            encoded += step.consumed as u64;
            decoded += step.produced as u64;
            assert_eq!(LIMITS.judge(encoded, decoded), Ok(()), "{decoded} out of {encoded}");
            input = &input[step.consumed..];
        }
    }
    assert_eq!(encoded, body.len() as u64);
}

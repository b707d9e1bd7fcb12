//! Compressors for the tests, and a way to run a decoder as a caller would.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::Write;

use decode::{Coding, DecodeError, Decoder, Limits, STEP_INPUT, STEP_MAX};

/// A coding with the bytes that an encoder makes of some others.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) coding: Coding,
    pub(crate) encode: fn(&[u8]) -> Vec<u8>,
}

/// Every coding, and every form of it that is accepted.
pub(crate) const KINDS: [Kind; 7] = [
    Kind { name: "gzip", coding: Coding::Gzip, encode: gzip },
    Kind { name: "gzip of two members", coding: Coding::Gzip, encode: gzip_twice },
    Kind { name: "zlib", coding: Coding::Deflate, encode: zlib },
    Kind { name: "bare deflate", coding: Coding::Deflate, encode: bare_deflate },
    Kind { name: "brotli", coding: Coding::Brotli, encode: brotli },
    Kind { name: "zstd", coding: Coding::Zstd, encode: zstd },
    Kind { name: "zstd of two frames", coding: Coding::Zstd, encode: zstd_twice },
];

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

pub(crate) fn gzip_twice(data: &[u8]) -> Vec<u8> {
    let (first, second) = data.split_at(data.len() / 2);
    [gzip(first), gzip(second)].concat()
}

pub(crate) fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

pub(crate) fn bare_deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

pub(crate) fn brotli(data: &[u8]) -> Vec<u8> {
    let params = brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() };
    let mut encoded = Vec::new();
    brotli::BrotliCompress(&mut &data[..], &mut encoded, &params).expect("a vector takes all");
    encoded
}

pub(crate) fn zstd(data: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).expect("a level that exists");
    encoder.include_checksum(true).expect("a setting that exists");
    encoder.write_all(data).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

pub(crate) fn zstd_twice(data: &[u8]) -> Vec<u8> {
    let (first, second) = data.split_at(data.len() / 2);
    [zstd(first), zstd(second)].concat()
}

/// Limits that nothing here breaks.
pub(crate) const GENEROUS: Limits = Limits { max_ratio: 1, slack: u64::MAX / 2, max_bytes: u64::MAX / 2 };

/// What a decoder gave before it ended, and how it ended.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) decoded: Vec<u8>,
    pub(crate) result: Result<(), DecodeError>,
}

/// Feeds `pieces` one after the other, with `room` bytes for the output of each step.
pub(crate) fn decode<'a>(
    coding: Coding,
    limits: Limits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    room: usize,
) -> Outcome {
    let mut decoder = Decoder::new(coding, limits);
    let mut decoded = Vec::new();
    let mut output = vec![0; room];
    for mut piece in pieces {
        while !(piece.is_empty() && decoder.is_drained()) {
            let step = match decoder.decode(piece, &mut output) {
                Ok(step) => step,
                Err(error) => {
                    assert_eq!(decoder.finish(), Err(error), "a failed decoder stays so");
                    assert_eq!(decoder.decode(piece, &mut output), Err(error));
                    return Outcome { decoded, result: Err(error) };
                }
            };
            assert!(step.produced <= STEP_MAX && step.consumed <= STEP_INPUT);
            assert_eq!(step.finished, decoder.finish().is_ok());
            piece = &piece[step.consumed..];
            decoded.extend_from_slice(&output[..step.produced]);
        }
    }
    Outcome { decoded, result: decoder.finish() }
}

/// The same with all bytes at once and the largest steps.
pub(crate) fn decode_whole(coding: Coding, limits: Limits, encoded: &[u8]) -> Outcome {
    decode(coding, limits, [encoded], STEP_MAX)
}

/// Bytes that hardly compress, the same every time.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(len).collect()
}

//! The first bytes of a proxied connection: the parser takes no byte too many, never asks for more than the limit,
//! wants more of every prefix of a good header, and understands what our own encoders write.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ron_transport::proxy_protocol::{
    Header, Parsed, Tlv, V2_BLOCK_MAX, Version, encode_v1, encode_v2, parse,
};

/// A version 2 header is the larger one: 16 bytes before its block.
const LONGEST: usize = 16 + V2_BLOCK_MAX;

/// Prefixes are tried one by one up to here, and with strides beyond.
const EACH_UP_TO: usize = 256;

/// What a header begins with. Chance alone would rarely write it.
const BEGINNINGS: [&[u8]; 4] = [b"", b"PROXY TCP4 ", b"PROXY TCP6 ", b"\r\n\r\n\0\r\nQUIT\n"];

fuzz_target!(|input: &[u8]| {
    for beginning in BEGINNINGS {
        check(&[beginning, input].concat());
    }
});

fn check(input: &[u8]) {
    match parse(input) {
        Ok(Parsed::NeedMore { at_least }) => {
            assert!(at_least > 0 && input.len() + at_least <= LONGEST, "{at_least} more");
        }
        Ok(Parsed::Done { consumed, header }) => {
            assert!(consumed <= input.len() && consumed <= LONGEST, "{consumed} bytes");
            every_prefix_is_incomplete(&input[..consumed]);
            reads_back(&header);
        }
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
}

fn every_prefix_is_incomplete(header: &[u8]) {
    let far = (EACH_UP_TO..header.len()).step_by(97);
    for cut in (0..header.len().min(EACH_UP_TO)).chain(far) {
        match parse(&header[..cut]) {
            Ok(Parsed::NeedMore { at_least }) => {
                assert!(cut + at_least <= header.len(), "{at_least} more at {cut}")
            }
            other => panic!("after {cut} bytes: {other:?}"),
        }
    }
}

fn reads_back(header: &Header) {
    let bytes = match header.version {
        Version::V1 => encode_v1(&header.origin),
        Version::V2 => {
            // Checksums are the encoder's own to write.
            let tlvs: Vec<_> = header.tlvs.iter().filter(|tlv| tlv.kind != Tlv::CRC32C).cloned().collect();
            match encode_v2(&header.origin, &tlvs) {
                Ok(bytes) => bytes,
                Err(_) => return, // The checksum it adds may be what no longer fits.
            }
        }
    };
    match parse(&bytes) {
        Ok(Parsed::Done { consumed, header: again }) => {
            assert_eq!((consumed, &again.origin), (bytes.len(), &header.origin));
        }
        other => panic!("{header:?} was written as {bytes:?}, which is {other:?}"),
    }
}

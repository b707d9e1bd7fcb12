//! DER of certificates and OCSP responses: every value is a piece of the bytes, and nothing that is cut off is read.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    ron_transport::fuzzing::der(input);
    // Chance alone would rarely write a length that fits.
    if let Ok(length) = u8::try_from(input.len()) {
        let length = if length < 0x80 { vec![length] } else { vec![0x81, length] };
        ron_transport::fuzzing::der(&[&[0x30], &length[..], input].concat());
    }
});

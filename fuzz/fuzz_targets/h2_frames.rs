//! Frames of HTTP/2 on their way to the library: it does not matter where they are cut, and nothing is changed but the end
//! of trailers that are malformed.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: (u8, Vec<(u8, u8, u8, Vec<u8>)>)| {
    let (cut, frames) = input;
    // A preface, and frames whose heads fit.
    let mut bytes = vec![0; 24];
    for (kind, flags, stream, payload) in frames {
        let Ok(length) = u16::try_from(payload.len()) else { return };
        bytes.push(0);
        bytes.extend(length.to_be_bytes());
        bytes.extend([kind % 10, flags, 0, 0, 0, stream % 8]);
        bytes.extend(payload);
    }
    ron_transport::fuzzing::h2_frames(&bytes, usize::from(cut));
    ron_transport::fuzzing::h2_frames(&bytes[24..], usize::from(cut));
});

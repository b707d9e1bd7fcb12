//! Replies of a quota store: the reader takes no byte too many, and wants more of every prefix of a reply.

#![no_main]

use libfuzzer_sys::fuzz_target;

/// What a reply begins with. Chance alone would rarely write it.
const BEGINNINGS: [&[u8]; 4] = [b"", b"*3\r\n:1\r\n", b"$20\r\n", b"*2\r\n*1\r\n"];

fuzz_target!(|input: &[u8]| {
    for beginning in BEGINNINGS {
        let bytes = [beginning, input].concat();
        match resp::read(&bytes) {
            Ok(Some((_, length))) => {
                assert!(length <= bytes.len());
                for cut in 0..length.min(256) {
                    assert_eq!(resp::read(&bytes[..cut]), Ok(None));
                }
            }
            Ok(None) => {}
            Err(wrong) => assert!(!wrong.to_string().is_empty()),
        }
    }
});

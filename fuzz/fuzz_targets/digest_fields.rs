//! Any `Content-Digest` or `Repr-Digest`: what is read is what was written, and what stands beside it changes nothing.

#![no_main]

use httprules::digest::{Digests, digests};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u8; 32], [u8; 64], &[u8])| {
    let (sha256, sha512, text) = input;
    let read = digests([text]);
    // What was read is written in one way, and means the same.
    let written =
        [read.sha256.map(|hash| field("sha-256", &hash)), read.sha512.map(|hash| field("sha-512", &hash))];
    let written = written.into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(digests(written.iter().map(String::as_bytes)), read);
    // The last of an algorithm counts, whatever stands before it, unless a quote is left open there.
    let ours = [field("sha-256", &sha256), field("sha-512", &sha512)].join(", ");
    let expected = Digests { sha256: Some(sha256), sha512: Some(sha512) };
    assert_eq!(digests([ours.as_bytes()]), expected);
    assert_eq!(digests([format!("{ours};a=1;b").as_bytes()]), expected);
    if !text.contains(&b'"') {
        assert_eq!(digests([text, ours.as_bytes()]), expected);
        assert_eq!(digests([[text, b", ", ours.as_bytes()].concat().as_slice()]), expected);
    }
    // A digit less is no hash.
    let short = field("sha-256", &sha256[1..]);
    assert_eq!(digests([short.as_bytes()]), Digests::default());
});

/// A member of the field, in base64 by another way than it is read.
fn field(algorithm: &str, hash: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in hash.chunks(3) {
        let number = three
            .iter()
            .chain([&0, &0])
            .take(3)
            .fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
        for at in 0..4 {
            let digit = DIGITS[number >> (18 - 6 * at) & 63];
            text.push(if at > three.len() { '=' } else { char::from(digit) });
        }
    }
    format!("{algorithm}=:{text}:")
}

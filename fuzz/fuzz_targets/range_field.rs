//! Any `Range` for any length: never a byte that is not there, and the same verdict however the ranges are ordered.

#![no_main]

use httprules::range::{ContentRange, Verdict, judge};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &[u8])| {
    let (len, value) = input;
    check(value, len);
    // Chance alone would rarely write the unit.
    let value = [b"bytes=", value].concat();
    check(&value, len);
    check(&value, len % 16);
    let turned: Vec<_> = value[6..].split(|byte| *byte == b',').rev().collect();
    let turned = [b"bytes=", turned.join(&b","[..]).as_slice()].concat();
    // Quotes may hide a comma, and then these are not the same ranges.
    if !value.contains(&b'"') {
        assert_eq!(judge(&turned, len), judge(&value, len));
    }
});

fn check(value: &[u8], len: u64) {
    if let Verdict::Part(part) = judge(value, len) {
        assert!(part.start < part.end && part.end <= len, "{part:?} of {len}");
        let told = ContentRange { part: Some(part.clone()), len }.to_string();
        let asked =
            told.split_once('/').map(|(part, _)| part.replacen(' ', "=", 1)).expect("a part of a whole");
        assert_eq!(judge(asked.as_bytes(), len), Verdict::Part(part), "{asked} of {len}");
    }
}

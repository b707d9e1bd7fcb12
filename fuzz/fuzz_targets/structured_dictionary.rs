//! Any dictionary of structured fields: names are keys, each comes once, and numbers are within their range.

#![no_main]

use httpcache::dictionary::{Value, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Some(members) = parse(text) else { return };
    for (at, (name, value)) in members.iter().enumerate() {
        assert!(name.first().is_some_and(|first| first.is_ascii_lowercase() || *first == b'*'));
        assert!(members[..at].iter().all(|(earlier, _)| earlier != name));
        if let Value::Integer(number) = value {
            assert!(number.unsigned_abs() < 1_000_000_000_000_000);
        }
    }
    // What follows a dictionary is one too, and its last words count.
    let doubled = [text, b", ", text].concat();
    if !members.is_empty() {
        assert_eq!(parse(&doubled).map(|doubled| doubled.len()), Some(members.len()));
    }
});

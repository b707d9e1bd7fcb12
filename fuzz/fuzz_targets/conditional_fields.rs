//! Any conditional fields: they are judged without a panic, and only by what is there.

#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use httprules::{
    date,
    etag::ETag,
    precondition::{Current, Outcome, decide},
};
use libfuzzer_sys::fuzz_target;

const NAMES: [HeaderName; 6] = [
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
];

fuzz_target!(|input: (u8, u64, &[u8])| {
    let (choices, now, bytes) = input;
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some((choice, value)) = line.split_first() else { continue };
        let name = &NAMES[usize::from(*choice) % NAMES.len()];
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    let method = [Method::GET, Method::HEAD, Method::PUT][usize::from(choices) % 3].clone();
    let current = Current {
        etag: if choices & 4 == 0 { ETag::strong(b"x") } else { ETag::parse(b"W/\"x\"") },
        last_modified: (choices & 8 == 0).then_some(now / 2),
        dates_are_strong: choices & 16 == 0,
        len: u64::from(choices),
    };
    let reads = method != Method::PUT;
    let has = |name: &HeaderName| headers.contains_key(name);
    match decide(&method, &headers, &current, now) {
        Outcome::Whole => {}
        Outcome::Part(part) => {
            assert!(method == Method::GET && has(&header::RANGE));
            assert!(part.start < part.end && part.end <= current.len);
        }
        Outcome::NotModified => {
            assert!(reads && (has(&header::IF_NONE_MATCH) || has(&header::IF_MODIFIED_SINCE)));
        }
        Outcome::Failed => assert!(
            has(&header::IF_MATCH)
                || has(&header::IF_UNMODIFIED_SINCE)
                || !reads && has(&header::IF_NONE_MATCH)
        ),
        Outcome::Unsatisfiable => assert!(method == Method::GET && has(&header::RANGE)),
    }
    if let Some(moment) = date::parse(bytes, now) {
        assert_eq!(date::parse(&date::format(moment), 0), Some(moment));
    }
});

//! Any `Content-Range`, and any two parts of a representation: never a byte at another place than its own.

#![no_main]

use http::{HeaderMap, HeaderValue, header};
use httpcache::{
    answer::Part,
    partial::{Joined, join, missing},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8], [u8; 4], u8)| {
    let (value, whole, [a, b, c, d], most) = input;
    if let Ok(value) = HeaderValue::from_bytes(value) {
        let headers = HeaderMap::from_iter([(header::CONTENT_RANGE, value)]);
        for len in [0, 1, u64::from(most), whole.len() as u64] {
            if let Some(part) = Part::of(&headers, len) {
                assert!(part.range.end - part.range.start == len && part.range.end <= part.len && len > 0);
            }
        }
    }
    let (Some(one), Some(other)) = (part(whole, a, b), part(whole, c, d)) else { return };
    let bytes = |part: &Part| &whole[part.range.start as usize..part.range.end as usize];
    match join((&one, bytes(&one)), (&other, bytes(&other)), u64::from(most)) {
        Joined::One(both, joined) => {
            assert_eq!(bytes(&both), joined);
            assert!(both.range.end - both.range.start <= u64::from(most));
            if let Some(missing) = missing(&both) {
                assert_eq!(missing.end - missing.start + joined.len() as u64, both.len);
            }
        }
        Joined::Apart => {}
        Joined::Contradiction => panic!("{one:?} and {other:?} are of the same bytes"),
    }
});

fn part(whole: &[u8], from: u8, to: u8) -> Option<Part> {
    let range = u64::from(from)..u64::from(to).min(whole.len() as u64);
    (range.start < range.end).then_some(Part { range, len: whole.len() as u64 })
}

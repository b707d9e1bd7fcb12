//! The header of a pack, from any bytes: what is taken is written as it was read, and its sections are where it says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmtiles::{HEADER_LEN, Header, ROOT_END};

/// What a header begins with, and a root directory where it has to be. Chance alone would rarely write it.
const BEGINNING: &[u8] = b"PMTiles\x03\x7f\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0";

fuzz_target!(|input: (u64, &[u8])| {
    let (file, bytes) = input;
    check(bytes, file);
    check(&[BEGINNING, bytes].concat(), file);
});

fn check(bytes: &[u8], file: u64) {
    let Ok(header) = Header::parse(bytes) else { return };
    assert_eq!(header.encode(), bytes[..HEADER_LEN]);
    assert!(header.root.range().end <= ROOT_END && header.min_zoom <= header.max_zoom);
    if header.fits(file).is_ok() {
        for section in [header.root, header.metadata, header.leaves, header.tiles] {
            assert!(section.len == 0 || section.range().end <= file);
            assert_eq!(section.inner(0, section.len), Some(section.range()));
        }
    }
}

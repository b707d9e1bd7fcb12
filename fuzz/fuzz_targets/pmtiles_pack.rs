//! A whole pack of any content: its check ends, reads nothing outside of it, and what passes leads to no place outside.

#![no_main]

use std::ops::Range;

use decode::Coding;
use libfuzzer_sys::fuzz_target;
use pmtiles::{Directory, DirectoryError, Header, Limits, Section, TileId, TileType, check, find};

/// The parts of a pack that has a sound header. Chance alone would rarely write one.
type Parts<'a> = (u8, &'a [u8], &'a [u8], &'a [u8], &'a [u8]);

fuzz_target!(|input: (Parts, u64)| {
    let ((coding, root, metadata, leaves, tiles), tile) = input;
    whole(tiles, tile);
    let mut end = 127;
    let mut section = |bytes: &[u8]| {
        let section = Section { offset: end, len: bytes.len() as u64 };
        end += section.len;
        section
    };
    let header = Header {
        root: section(root),
        metadata: section(metadata),
        leaves: section(leaves),
        tiles: section(tiles),
        addressed_tiles: 0,
        tile_entries: 0,
        tile_contents: 0,
        clustered: coding & 128 != 0,
        internal: [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd][usize::from(coding % 4)],
        tile_coding: None,
        tile_type: TileType::Png,
        min_zoom: 0,
        max_zoom: 31,
        bounds: [0; 4],
        center_zoom: 0,
        center: [0; 2],
    };
    whole(&[&header.encode()[..], root, metadata, leaves, tiles].concat(), tile);
});

fn whole(pack: &[u8], tile: u64) {
    let limits = Limits { directory_bytes: 1 << 16, metadata_bytes: 1 << 16, ..Limits::default() };
    let at = |range: Range<u64>| {
        let inside = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        pack.get(inside).unwrap_or_else(|| panic!("{range:?} is outside"))
    };
    let Ok(checked) = check::<_, ()>(pack.len() as u64, &limits, |range| Ok(at(range))) else { return };
    let Some(tile) = TileId::new(tile) else { return };
    let header = &checked.header;
    let leaf = |range| Directory::decode(at(range), header.internal, &limits);
    let found: Result<_, DirectoryError> = find(header, &checked.root, tile, leaf);
    if let Some(range) = found.expect("the pack was checked") {
        assert!(range.end - range.start <= checked.largest_tile.into());
        at(range);
    }
}

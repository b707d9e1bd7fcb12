//! The header: what it says comes back, and what is wrong with it is told.

#![expect(clippy::unwrap_used, reason = "tests: a failure may panic")]

use crate::common::{Parts, tile};
use decode::Coding;
use pmtiles::{HEADER_LEN, Header, HeaderError, Part, ROOT_END, Section, TileType};
use proptest::prelude::*;

fn sound() -> Header {
    Parts::with_root(&[tile(0, 0, 10, 1)]).placed()
}

/// Parses a header that was changed as `change` does it.
fn parsed(change: impl FnOnce(&mut Header)) -> Result<Header, HeaderError> {
    let mut header = sound();
    change(&mut header);
    Header::parse(&header.encode())
}

/// Parses a header with one other byte.
fn with_byte(at: usize, byte: u8) -> Result<Header, HeaderError> {
    let mut bytes = sound().encode();
    bytes[at] = byte;
    Header::parse(&bytes)
}

#[test]
fn a_header_that_is_cut_short_anywhere_is_refused() {
    let bytes = sound().encode();
    for len in 0..HEADER_LEN {
        assert_eq!(Header::parse(&bytes[..len]), Err(HeaderError::Short(len)));
    }
    assert_eq!(Header::parse(&bytes), Ok(sound()));
    assert_eq!(Header::parse(&[&bytes[..], b"more"].concat()), Ok(sound()));
}

#[test]
fn something_else_or_another_version_is_refused() {
    for at in 0..7 {
        assert_eq!(with_byte(at, b'x'), Err(HeaderError::Magic));
    }
    for version in [0, 1, 2, 4, b'3', 255] {
        assert_eq!(with_byte(7, version), Err(HeaderError::Version(version)));
    }
}

#[test]
fn only_codings_and_flags_that_have_a_meaning_are_taken() {
    assert_eq!(with_byte(97, 0), Err(HeaderError::InternalUnknown));
    assert_eq!(with_byte(98, 0).map(|header| header.tile_coding), Ok(None));
    let codings = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];
    for (number, coding) in (1..).zip(codings) {
        assert_eq!(with_byte(97, number).map(|header| header.internal), Ok(coding));
        assert_eq!(with_byte(98, number).map(|header| header.tile_coding), Ok(Some(coding)));
    }
    for at in [97, 98] {
        assert_eq!(with_byte(at, 5), Err(HeaderError::Compression(5)));
        assert_eq!(with_byte(at, 255), Err(HeaderError::Compression(255)));
    }
    assert_eq!(with_byte(96, 1).map(|header| header.clustered), Ok(true));
    assert_eq!(with_byte(96, 2), Err(HeaderError::Clustered(2)));
}

#[test]
fn tile_types_have_their_numbers_and_unknown_ones_are_kept() {
    let table = [
        (0, TileType::Other(0), "bin"),
        (1, TileType::Mvt, "mvt"),
        (2, TileType::Png, "png"),
        (3, TileType::Jpeg, "jpg"),
        (4, TileType::Webp, "webp"),
        (5, TileType::Avif, "avif"),
        (6, TileType::Mlt, "mlt"),
        (7, TileType::Other(7), "bin"),
        (255, TileType::Other(255), "bin"),
    ];
    for (number, tile_type, name) in table {
        let header = with_byte(99, number).unwrap();
        assert_eq!((header.tile_type, header.tile_type.name()), (tile_type, name));
        assert_eq!(header.encode()[99], number);
    }
    assert_eq!(TileType::Png.media_type(), "image/png");
}

#[test]
fn zooms_are_in_order_and_not_beyond_the_last() {
    let zooms = |min, max, center| {
        parsed(|header| (header.min_zoom, header.max_zoom, header.center_zoom) = (min, max, center)).map(drop)
    };
    for (min, max, center) in [(0, 0, 0), (31, 31, 31), (3, 3, 31), (0, 31, 0)] {
        assert_eq!(zooms(min, max, center), Ok(()));
    }
    for (min, max, center) in [(1, 0, 0), (0, 32, 0), (0, 31, 32), (255, 255, 0)] {
        assert_eq!(zooms(min, max, center), Err(HeaderError::Zooms { min, max, center }));
    }
}

#[test]
fn bounds_and_centre_are_on_this_planet() {
    let bounds =
        |bounds, center| parsed(|header| (header.bounds, header.center) = (bounds, center)).map(drop);
    const EAST: i32 = 1_800_000_000;
    const POLE: i32 = 900_000_000;
    assert_eq!(bounds([-EAST, -POLE, EAST, POLE], [EAST, -POLE]), Ok(()));
    assert_eq!(bounds([5, 5, 5, 5], [0, 0]), Ok(()), "a single point");
    let wrong = [
        ([-EAST - 1, 0, 0, 0], [0, 0]),
        ([0, -POLE - 1, 0, 0], [0, 0]),
        ([0, 0, EAST + 1, 0], [0, 0]),
        ([0, 0, 0, POLE + 1], [0, 0]),
        ([1, 0, 0, 0], [0, 0]),
        ([0, 1, 0, 0], [0, 0]),
        ([0, 0, 0, 0], [EAST + 1, 0]),
        ([0, 0, 0, 0], [0, -POLE - 1]),
        ([i32::MIN, 0, i32::MAX, 0], [0, 0]),
    ];
    for (wrong, center) in wrong {
        assert_eq!(bounds(wrong, center), Err(HeaderError::Bounds), "{wrong:?} {center:?}");
    }
}

#[test]
fn the_root_directory_is_where_readers_look_for_it() {
    let root = |offset, len| parsed(|header| header.root = Section { offset, len }).map(drop);
    assert_eq!(root(127, 1), Ok(()));
    assert_eq!(root(127, ROOT_END - 127), Ok(()));
    assert_eq!(root(ROOT_END - 1, 1), Ok(()));
    for (offset, len) in [(127, 0), (126, 5), (0, 5), (127, ROOT_END - 126), (ROOT_END, 1)] {
        assert_eq!(root(offset, len), Err(HeaderError::Root), "{len} at {offset}");
    }
}

#[test]
fn sections_end_where_the_file_does_at_the_latest() {
    let at = |part: Part, offset, len| {
        let mut header = sound();
        let section = match part {
            Part::Root => &mut header.root,
            Part::Metadata => &mut header.metadata,
            Part::Leaves => &mut header.leaves,
            Part::Tiles => &mut header.tiles,
        };
        *section = Section { offset, len };
        header
    };
    for part in [Part::Root, Part::Metadata, Part::Leaves, Part::Tiles] {
        assert_eq!(at(part, 900, 100).fits(1000), Ok(()));
        for (offset, len) in [(900, 101), (1001, 1), (u64::MAX, 1), (1, u64::MAX)] {
            let refused = HeaderError::Outside { part, offset, len, file: 1000 };
            assert_eq!(at(part, offset, len).fits(1000), Err(refused));
            assert!(refused.to_string().contains(&part.to_string()));
        }
    }
    // A section that is not there may be anywhere.
    assert_eq!(at(Part::Leaves, u64::MAX, 0).fits(1000), Ok(()));
    // What no file can have is refused at once.
    let overflow = at(Part::Tiles, u64::MAX, 1).encode();
    assert!(matches!(Header::parse(&overflow), Err(HeaderError::Outside { part: Part::Tiles, .. })));
}

#[test]
fn a_part_of_a_section_lies_inside_of_it() {
    let section = Section { offset: 100, len: 10 };
    assert_eq!(section.range(), 100..110);
    assert_eq!(section.inner(0, 10), Some(100..110));
    assert_eq!(section.inner(10, 0), Some(110..110));
    for (offset, len) in [(0, 11), (10, 1), (u64::MAX, 1), (1, u64::MAX)] {
        assert_eq!(section.inner(offset, len), None);
    }
}

proptest! {
    #[test]
    fn any_header_that_is_taken_is_written_as_it_was_read(mut bytes in prop::collection::vec(any::<u8>(), HEADER_LEN)) {
        // By chance alone hardly any would be taken.
        bytes[..8].copy_from_slice(b"PMTiles\x03");
        bytes[8..24].copy_from_slice(&sound().encode()[8..24]);
        for at in [24, 40, 56] {
            bytes[at + 7] = 0;
            bytes[at + 15] = 0;
        }
        bytes[96] &= 1;
        bytes[97] = bytes[97] % 4 + 1;
        bytes[98] %= 5;
        bytes[100] %= 16;
        bytes[101] = bytes[101] % 16 + 16;
        bytes[118] %= 32;
        for at in [102, 106] {
            bytes[at + 3] = 0xff;
        }
        for at in [110, 114, 119, 123] {
            bytes[at + 3] = 0;
        }
        let header = Header::parse(&bytes);
        prop_assert_eq!(header.map(|header| header.encode().to_vec()), Ok(bytes));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), file in any::<u64>()) {
        if let Ok(header) = Header::parse(&bytes) {
            let _ = header.fits(file);
        }
        let start = [b"PMTiles\x03", &bytes[..]].concat();
        if let Ok(header) = Header::parse(&start) {
            let _ = header.fits(file);
        }
    }
}

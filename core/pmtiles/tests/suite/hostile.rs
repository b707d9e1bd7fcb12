//! Packs that were made to do harm: each is refused with its reason, and nothing outside of it is read.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests: a failure may panic, and the numbers are small"
)]

use crate::common::{Parts, all_tiles, check, check_within, gzip, id, leaf, slice, tile};
use decode::Coding;
use pmtiles::{
    CheckError, Directory, DirectoryError, Entry, Header, HeaderError, Limits, Note, Part, Section, Settings,
    TileId, Writer, find,
};

/// A pack whose root leads to these leaves, one after the other, each at the tile it begins with.
fn with_leaves(leaves: &[&[Entry]]) -> Parts {
    let (mut root, mut bytes) = (Vec::new(), Vec::new());
    for entries in leaves {
        let encoded = Directory::encode(entries);
        root.push(leaf(entries[0].tile_id, bytes.len() as u64, encoded.len() as u32));
        bytes.extend(encoded);
    }
    Parts { leaves: bytes, ..Parts::with_root(&root) }
}

#[test]
fn a_pack_cut_short_anywhere_is_refused() {
    let mut writer = Writer::new(Settings::default());
    for number in 0..50 {
        writer.push(id(number), &[number as u8; 7]).unwrap();
    }
    let pack = writer.finish().unwrap();
    check(&pack).unwrap();
    for len in 0..pack.len() {
        match check(&pack[..len]) {
            Err(CheckError::Header(HeaderError::Short(_) | HeaderError::Outside { .. })) => {}
            other => panic!("{len} of {} bytes: {other:?}", pack.len()),
        }
    }
}

#[test]
fn a_root_cut_short_anywhere_is_refused_even_if_the_header_agrees() {
    let entries = [tile(0, 0, 3, 1), tile(1, 3, 3, 2), tile(9, 6, 4, 1)];
    for coding in [Coding::Identity, Coding::Gzip] {
        let mut parts = Parts::with_root(&entries);
        parts.header.internal = coding;
        if coding == Coding::Gzip {
            (parts.root, parts.metadata) = (gzip(&parts.root), gzip(&parts.metadata));
        }
        check(&parts.bytes()).unwrap();
        let whole = parts.root.clone();
        for len in 1..whole.len() {
            parts.root = whole[..len].to_vec();
            assert!(matches!(check(&parts.bytes()), Err(CheckError::Root(_))), "{coding:?}: {len} bytes");
        }
        parts.root.clear();
        assert_eq!(check(&parts.bytes()), Err(CheckError::Header(HeaderError::Root)));
    }
}

#[test]
fn sections_beyond_the_end_are_refused_by_name() {
    let parts = Parts::with_root(&[tile(0, 0, 10, 1)]);
    let sound = parts.placed();
    let file = parts.bytes().len() as u64;
    let far = Section { offset: file, len: 1 };
    let cases = [
        (Part::Metadata, Header { metadata: far, ..sound.clone() }),
        (Part::Leaves, Header { leaves: far, ..sound.clone() }),
        (Part::Tiles, Header { tiles: far, ..sound.clone() }),
    ];
    for (part, header) in cases {
        let refused = HeaderError::Outside { part, offset: file, len: 1, file };
        assert_eq!(check(&parts.under(&header)), Err(CheckError::Header(refused)));
    }
}

#[test]
fn a_tile_ends_where_the_tile_data_does_at_the_latest() {
    let outside = |entry: Entry| check(&Parts::with_root(&[entry]).bytes()).map(drop);
    assert_eq!(outside(tile(3, 0, 10, 1)), Ok(()));
    assert_eq!(outside(tile(3, 9, 1, 1)), Ok(()));
    for (offset, len) in [(0, 11), (10, 1), (1 << 62, 1), (u64::MAX - 8, 7), (0, u32::MAX)] {
        assert_eq!(outside(tile(3, offset, len, 1)), Err(CheckError::TileOutside { tile: 3 }));
    }
}

#[test]
fn a_tile_is_as_large_as_allowed_at_most() {
    let pack = Parts::with_root(&[tile(0, 0, 9, 1), tile(4, 0, 10, 1)]).bytes();
    let with = |tile_bytes| check_within(&pack, &Limits { tile_bytes, ..Limits::default() }).map(drop);
    assert_eq!(with(10), Ok(()));
    assert_eq!(with(9), Err(CheckError::TileTooLarge { tile: 4, len: 10 }));
}

#[test]
fn a_leaf_ends_where_the_leaves_do_at_the_latest() {
    let entries = [tile(0, 0, 10, 1)];
    let mut parts = with_leaves(&[&entries]);
    check(&parts.bytes()).unwrap();
    let len = parts.leaves.len() as u32;
    for (offset, len) in [(0, len + 1), (1, len), (u64::MAX - 8, 7), (1 << 40, 1)] {
        parts.root = Directory::encode(&[leaf(0, offset, len)]);
        assert_eq!(check(&parts.bytes()), Err(CheckError::LeafOutside { tile: 0 }));
    }
}

#[test]
fn a_leaf_that_leads_to_itself_is_not_followed_forever() {
    // Its own entry is its only one, so its length is known beforehand.
    let circle = Directory::encode(&[leaf(0, 0, 5)]);
    assert_eq!(circle.len(), 5);
    let mut parts = Parts::with_root(&[leaf(0, 0, 5)]);
    parts.leaves = circle;
    assert_eq!(check(&parts.bytes()), Err(CheckError::TooDeep(4)));
    // Whoever looks up without having checked is not caught either.
    let (header, mut asked) = (parts.placed(), 0);
    let root = Directory::decode(&parts.root, Coding::Identity, &Limits::default()).unwrap();
    let pack = parts.bytes();
    let found = find(&header, &root, id(0), |range| {
        asked += 1;
        Directory::decode(slice(&pack, range).unwrap(), Coding::Identity, &Limits::default())
    });
    assert_eq!((found, asked), (Err(DirectoryError::Place), 3));
}

#[test]
fn leaves_that_lead_to_each_other_in_two_ways_are_refused_at_the_first_stray() {
    // Two entries that lead back to the same leaf would double the work at every step.
    let twice = Directory::encode(&[leaf(0, 0, 9), leaf(1, 0, 9)]);
    assert_eq!(twice.len(), 9);
    let mut parts = Parts::with_root(&[leaf(0, 0, 9)]);
    parts.leaves = twice;
    let at = parts.placed().leaves.offset;
    assert_eq!(check(&parts.bytes()), Err(CheckError::Strays { at }));
}

#[test]
fn a_leaf_has_only_tiles_between_its_own_entry_and_the_next() {
    let sound = with_leaves(&[&[tile(4, 0, 5, 2), tile(6, 5, 5, 2)], &[tile(8, 0, 5, 1)]]);
    let checked = check(&sound.bytes()).unwrap();
    assert_eq!((checked.tiles, checked.leaves, checked.depth), (5, 2, 2));
    assert_eq!(all_tiles(&sound.bytes(), &checked).into_keys().collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
    let over = with_leaves(&[&[tile(4, 0, 5, 2), tile(6, 5, 5, 3)], &[tile(8, 0, 5, 1)]]);
    let at = over.placed().leaves.offset;
    assert_eq!(check(&over.bytes()), Err(CheckError::Strays { at }));
    let mut under = with_leaves(&[&[tile(4, 0, 5, 1)]]);
    under.root = Directory::encode(&[leaf(5, 0, under.leaves.len() as u32)]);
    let at = under.placed().leaves.offset;
    assert_eq!(check(&under.bytes()), Err(CheckError::Strays { at }));
}

/// A pack with `depth` directories one above the other, the last of which has the tile.
fn nested(depth: usize) -> Parts {
    let mut leaves = Vec::new();
    let mut entry = tile(7, 0, 10, 1);
    for _ in 1..depth {
        let directory = Directory::encode(&[entry]);
        entry = leaf(7, leaves.len() as u64, directory.len() as u32);
        leaves.extend(directory);
    }
    Parts { leaves, ..Parts::with_root(&[entry]) }
}

#[test]
fn four_directories_on_the_way_to_a_tile_are_enough() {
    for depth in 1..=4 {
        let pack = nested(depth).bytes();
        let checked = check(&pack).unwrap();
        assert_eq!((checked.depth, checked.leaves), (depth, depth as u64 - 1));
        assert_eq!(all_tiles(&pack, &checked), [(7, b"0123456789".to_vec())].into());
    }
    for depth in [5, 6, 100] {
        assert_eq!(check(&nested(depth).bytes()), Err(CheckError::TooDeep(4)));
    }
    let shallow = Limits { depth: 2, ..Limits::default() };
    assert!(check_within(&nested(2).bytes(), &shallow).is_ok());
    assert_eq!(check_within(&nested(3).bytes(), &shallow), Err(CheckError::TooDeep(2)));
}

#[test]
fn a_leaf_that_is_damaged_or_a_bomb_is_refused_with_its_place() {
    let mut parts = with_leaves(&[&[tile(0, 0, 10, 1)]]);
    let at = parts.placed().leaves.offset;
    parts.leaves[0] = 0;
    assert_eq!(check(&parts.bytes()), Err(CheckError::Leaf { at, error: DirectoryError::Empty }));

    let bomb = gzip(&vec![0; 17 << 20]);
    let mut parts = Parts::with_root(&[leaf(0, 0, bomb.len() as u32)]);
    parts.header.internal = Coding::Gzip;
    (parts.root, parts.metadata, parts.leaves) = (gzip(&parts.root), gzip(&parts.metadata), bomb);
    let at = parts.placed().leaves.offset;
    assert_eq!(check(&parts.bytes()), Err(CheckError::Leaf { at, error: DirectoryError::TooLarge }));
}

#[test]
fn metadata_that_is_a_bomb_or_too_long_is_refused() {
    let mut parts = Parts::with_root(&[tile(0, 0, 10, 1)]);
    parts.header.internal = Coding::Gzip;
    parts.root = gzip(&parts.root);
    parts.metadata = gzip(&vec![b' '; 9 << 20]);
    assert_eq!(check(&parts.bytes()), Err(CheckError::Metadata(DirectoryError::TooLarge)));
    parts.metadata = gzip(&vec![b' '; 8 << 20]);
    assert_eq!(check(&parts.bytes()).unwrap().metadata.len(), 8 << 20);
    parts.metadata = vec![b' '; (8 << 20) + 1];
    assert_eq!(check(&parts.bytes()), Err(CheckError::Metadata(DirectoryError::TooLarge)));
    parts.metadata.clear();
    assert_eq!(check(&parts.bytes()).unwrap().metadata, "");
}

#[test]
fn all_entries_together_are_limited() {
    let pack = with_leaves(&[&[tile(0, 0, 1, 1), tile(1, 0, 2, 1)], &[tile(2, 0, 3, 1)]]).bytes();
    let with = |entries| check_within(&pack, &Limits { entries, ..Limits::default() }).map(drop);
    assert_eq!(with(5), Ok(()));
    assert_eq!(with(4), Err(CheckError::TooManyEntries(4)));
}

#[test]
fn the_last_tile_of_all_is_a_tile_like_any_other() {
    let last = TileId::MAX.number();
    let mut parts = Parts::with_root(&[tile(last, 0, 10, 1)]);
    (parts.header.min_zoom, parts.header.max_zoom) = (31, 31);
    let checked = check(&parts.bytes()).unwrap();
    assert_eq!(checked.notes, []);
    assert_eq!(all_tiles(&parts.bytes(), &checked), [(last, b"0123456789".to_vec())].into());
}

#[test]
fn what_a_pack_says_wrongly_of_itself_is_noted() {
    let mut parts = Parts::with_root(&[tile(0, 4, 2, 1), tile(5, 0, 2, 3)]);
    parts.header.clustered = true;
    (parts.header.addressed_tiles, parts.header.tile_entries) = (5, 1);
    (parts.header.min_zoom, parts.header.max_zoom) = (1, 2);
    let notes = check(&parts.bytes()).unwrap().notes;
    assert_eq!(
        notes,
        [
            Note::Tiles { said: 5, found: 4 },
            Note::Entries { said: 1, found: 2 },
            Note::Zooms { said: (1, 2), found: (0, 2) },
            Note::NotClustered,
        ]
    );
    assert_eq!(notes[0].to_string(), "the header says 5 tiles, and there are 4");
}

#[test]
fn a_reader_that_fails_is_heard() {
    let pack = Parts::with_root(&[tile(0, 0, 10, 1)]).bytes();
    let len = pack.len() as u64;
    for (nth, _) in ["header and root", "metadata"].iter().enumerate() {
        let mut calls = 0;
        let failed = pmtiles::check(len, &Limits::default(), |range| {
            calls += 1;
            if calls > nth { Err("disk") } else { Ok(slice(&pack, range).unwrap()) }
        });
        assert_eq!(failed.map(drop), Err(CheckError::Read("disk")));
    }
}

//! Whole packs: what the writer makes passes the check, and every tile comes back.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests: a failure may panic, and the numbers are small"
)]

use std::collections::BTreeMap;

use crate::common::{all_tiles, check, content, id};
use decode::Coding;
use pmtiles::{Coord, ROOT_END, Settings, TileType, WriteError, Writer};
use proptest::prelude::*;

fn pack(tiles: &BTreeMap<u64, Vec<u8>>) -> Vec<u8> {
    let mut writer = Writer::new(Settings::default());
    for (number, content) in tiles {
        writer.push(id(*number), content).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_pack_says_of_itself_what_it_was_told_and_what_its_tiles_tell() {
    let settings = Settings {
        tile_type: TileType::Mvt,
        tile_coding: Some(Coding::Gzip),
        bounds: [-10, -20, 30, 40],
        center_zoom: 3,
        center: [1, 2],
        metadata: r#"{"name":"small"}"#.to_owned(),
    };
    let mut writer = Writer::new(settings.clone());
    for (z, x, y) in [(1, 0, 0), (1, 0, 1), (1, 1, 1), (3, 5, 6)] {
        let content = if z == 1 { "water" } else { "land" };
        writer.push(Coord::new(z, x, y).unwrap().id(), content.as_bytes()).unwrap();
    }
    let pack = writer.finish().unwrap();
    let checked = check(&pack).unwrap();
    let header = &checked.header;
    assert_eq!((header.tile_type, header.tile_coding), (settings.tile_type, settings.tile_coding));
    assert_eq!((header.bounds, header.center_zoom, header.center), ([-10, -20, 30, 40], 3, [1, 2]));
    assert_eq!((header.min_zoom, header.max_zoom), (1, 3));
    assert_eq!((header.addressed_tiles, header.tile_entries, header.tile_contents), (4, 2, 2));
    assert_eq!(header.tiles.len, "waterland".len() as u64);
    assert_eq!((checked.tiles, checked.entries, checked.leaves, checked.depth), (4, 2, 0, 1));
    assert_eq!((checked.metadata.as_str(), checked.largest_tile), (r#"{"name":"small"}"#, 5));
    assert_eq!(checked.notes, []);
}

#[test]
fn equal_tiles_are_stored_once_wherever_they_are() {
    let contents = ["sea", "sea", "isle", "sea", "isle", "isle"];
    let tiles = (0..).zip(contents.map(|content| content.as_bytes().to_vec())).collect();
    let pack = pack(&tiles);
    let checked = check(&pack).unwrap();
    assert_eq!(checked.header.tiles.len, "seaisle".len() as u64);
    assert_eq!((checked.entries, checked.header.tile_contents), (4, 2));
    assert_eq!(all_tiles(&pack, &checked), tiles);
}

#[test]
fn a_root_that_would_be_too_large_gets_leaves() {
    // Gaps and lengths that do not compress.
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut tiles = BTreeMap::new();
    let mut number = 0;
    for at in 0..12_000_u64 {
        tiles.insert(number, vec![(at % 251) as u8; 1 + random(500) as usize]);
        number += 1 + random(1000);
    }
    let pack = pack(&tiles);
    let checked = check(&pack).unwrap();
    assert!(checked.leaves > 1 && checked.depth == 2, "{} leaves", checked.leaves);
    assert!(checked.header.root.range().end <= ROOT_END);
    assert_eq!((checked.tiles, checked.notes.as_slice()), (12_000, &[][..]));
    assert_eq!(all_tiles(&pack, &checked), tiles);
    let gap = (0..).find(|number| !tiles.contains_key(number)).unwrap();
    assert_eq!(content(&pack, &checked, id(gap)), None);
}

#[test]
fn tiles_come_in_order_once_and_with_bytes() {
    let mut writer = Writer::new(Settings::default());
    assert_eq!(writer.push(id(5), b""), Err(WriteError::Size(5)));
    writer.push(id(5), b"a").unwrap();
    assert_eq!(writer.push(id(5), b"b"), Err(WriteError::Order(5)));
    assert_eq!(writer.push(id(4), b"b"), Err(WriteError::Order(4)));
    writer.push(id(6), b"a").unwrap();
    assert_eq!(writer.push(id(6), b"a"), Err(WriteError::Order(6)));
    let pack = writer.finish().unwrap();
    assert_eq!(all_tiles(&pack, &check(&pack).unwrap()), [(5, b"a".to_vec()), (6, b"a".to_vec())].into());
}

#[test]
fn a_pack_without_tiles_or_off_the_map_is_not_written() {
    assert_eq!(Writer::new(Settings::default()).finish(), Err(WriteError::Empty));
    let mut writer = Writer::new(Settings { bounds: [1, 0, 0, 0], ..Settings::default() });
    writer.push(id(0), b"a").unwrap();
    assert!(matches!(writer.finish(), Err(WriteError::Settings(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_tile_of_any_pack_comes_back(
        tiles in prop::collection::btree_map(0..2000_u64, prop::collection::vec(0..3_u8, 1..4), 1..300),
        missing in 0..2000_u64,
    ) {
        let pack = pack(&tiles);
        let checked = check(&pack).unwrap();
        prop_assert_eq!(checked.tiles, tiles.len() as u64);
        prop_assert_eq!(&checked.notes, &[]);
        prop_assert_eq!(all_tiles(&pack, &checked), tiles.clone());
        let found = content(&pack, &checked, id(missing));
        prop_assert_eq!(found.as_ref(), tiles.get(&missing));
    }

    #[test]
    fn damage_is_refused_or_leaves_every_tile_inside(
        tiles in prop::collection::btree_map(0..400_u64, prop::collection::vec(any::<u8>(), 1..4), 1..60),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let mut pack = pack(&tiles);
        let at = at.index(pack.len());
        pack[at] ^= flip;
        if let Ok(checked) = check(&pack) {
            all_tiles(&pack, &checked);
        }
    }

    #[test]
    fn ids_and_coordinates_are_two_names_of_the_same_tile(z in 0..=31_u8, x in any::<u32>(), y in any::<u32>()) {
        let side = 1_u64 << z;
        let coord = Coord::new(z, (u64::from(x) % side) as u32, (u64::from(y) % side) as u32).unwrap();
        prop_assert_eq!(coord.id().coord(), coord);
        prop_assert_eq!(coord.id().zoom(), z);
    }
}

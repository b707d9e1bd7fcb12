//! Packs that another implementation wrote. `vectors.py` beside them says how, and shares no code with this crate.

#![expect(clippy::unwrap_used, reason = "tests: a failure may panic")]

use std::collections::BTreeMap;

use crate::common::{all_tiles, check};
use decode::Coding;
use pmtiles::{Checked, Coord, TileType};
use serde_json::Value;

const FLAT: &[u8] = include_bytes!("../vectors/flat.pmtiles");
const LEAVES: &[u8] = include_bytes!("../vectors/leaves.pmtiles");

/// The tiles that `vectors.py` puts into a pack.
fn expected(count: usize, spread: u64) -> BTreeMap<u64, Vec<u8>> {
    let (mut number, mut state) = (0_u64, 1_u64);
    let mut tiles = BTreeMap::new();
    for _ in 0..count {
        let content = if number % 5 == 0 { "sea".to_owned() } else { (number * number).to_string() };
        tiles.insert(number, content.into_bytes());
        state = (state * 1_103_515_245 + 12_345) % (1 << 31);
        number += 1 + (state >> 16) % spread;
    }
    tiles
}

fn assert_sound(pack: &[u8], tiles: &BTreeMap<u64, Vec<u8>>) -> Checked {
    let checked = check(pack).unwrap();
    assert_eq!(checked.notes, []);
    assert_eq!(&all_tiles(pack, &checked), tiles);
    let header = &checked.header;
    assert_eq!((header.tile_type, header.tile_coding), (TileType::Mvt, Some(Coding::Gzip)));
    assert_eq!(header.bounds, [-100_000_000, -200_000_000, 300_000_000, 400_000_000]);
    assert_eq!((header.center_zoom, header.center), (2, [10_000_000, -20_000_000]));
    checked
}

#[test]
fn a_small_pack_of_another_writer_is_read_as_it_was_meant() {
    let checked = assert_sound(FLAT, &expected(100, 1));
    assert_eq!((checked.depth, checked.header.max_zoom), (1, 4));
}

#[test]
fn a_pack_with_leaves_of_another_writer_is_read_as_it_was_meant() {
    let checked = assert_sound(LEAVES, &expected(8000, 700));
    assert_eq!((checked.depth, checked.leaves), (2, 2));
}

#[test]
fn tile_ids_are_those_of_another_implementation() {
    let checked = check(FLAT).unwrap();
    let metadata: Value = serde_json::from_str(&checked.metadata).unwrap();
    let ids = metadata["ids"].as_array().unwrap();
    assert!(ids.len() > 300);
    for row in ids {
        let [z, x, y, number] = [0, 1, 2, 3].map(|at| row[at].as_u64().unwrap());
        let coord = Coord::new(z.try_into().unwrap(), x.try_into().unwrap(), y.try_into().unwrap()).unwrap();
        assert_eq!(coord.id().number(), number, "{coord}");
        assert_eq!(coord.id().coord(), coord);
    }
}

//! A directory of any bytes in any coding: refused, or in order and within the limits.

#![no_main]

use decode::Coding;
use libfuzzer_sys::fuzz_target;
use pmtiles::{Directory, Entry, Limits, Target, TileId, metadata};

/// Small, so that small inputs reach them.
const LIMITS: Limits = Limits {
    directory_entries: 100,
    directory_bytes: 2000,
    depth: 4,
    entries: 1000,
    tile_bytes: 1000,
    metadata_bytes: 2000,
};

fuzz_target!(|input: (u64, &[u8])| {
    let (tile, bytes) = input;
    for coding in [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        check(bytes, coding, tile);
        if let Ok(text) = metadata(bytes, coding, &LIMITS) {
            assert!(text.len() as u64 <= LIMITS.metadata_bytes);
        }
    }
});

fn check(bytes: &[u8], coding: Coding, tile: u64) {
    let Ok(directory) = Directory::decode(bytes, coding, &LIMITS) else { return };
    let entries = directory.entries();
    assert!(!entries.is_empty() && entries.len() <= LIMITS.directory_entries);
    let apart = |pair: &[Entry]| pair[0].tile_id + u64::from(pair[0].run.max(1)) <= pair[1].tile_id;
    assert!(entries.windows(2).all(apart) && entries.iter().all(|entry| entry.len > 0));
    let again = Directory::decode(&Directory::encode(entries), Coding::Identity, &LIMITS);
    assert_eq!(again.map(|again| again.entries().to_vec()), Ok(entries.to_vec()));
    if let Some(tile) = TileId::new(tile) {
        match directory.find(tile) {
            Some(Target::Tile(entry)) => assert!(tile.number() - entry.tile_id < entry.run.into()),
            Some(Target::Leaf(entry)) => assert!(tile.number() >= entry.tile_id && entry.run == 0),
            None => {}
        }
    }
}

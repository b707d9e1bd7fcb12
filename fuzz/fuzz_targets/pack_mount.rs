//! A PMTiles and an MBTiles pack with any bytes changed: the mount ends, and what is mounted is served as it was mounted.

#![no_main]

use std::{fs, path::PathBuf, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use packs::{Coord, Format, MountOptions, Pack, PackError};
use pmtiles::{Settings, Writer};
use tempfile::TempDir;

/// Sound packs to begin with, and where the changed ones are written.
static SOUND: LazyLock<(TempDir, [Vec<u8>; 2])> = LazyLock::new(|| {
    let dir = TempDir::new().unwrap();
    let packs = [pmtiles(), mbtiles(&dir.path().join("sound.mbtiles"))];
    (dir, packs)
});

fuzz_target!(|input: (Vec<(u16, u8)>, Option<u16>)| {
    let (changes, cut) = input;
    let (dir, packs) = &*SOUND;
    for (pack, name) in packs.iter().zip(["pmtiles", "mbtiles"]) {
        let mut changed = pack.clone();
        for (at, byte) in &changes {
            let at = usize::from(*at) % changed.len();
            changed[at] ^= byte;
        }
        if let Some(cut) = cut {
            changed.truncate(usize::from(cut));
        }
        serve(dir.path().join(name), &changed);
    }
});

fn serve(path: PathBuf, bytes: &[u8]) {
    fs::write(&path, bytes).unwrap();
    let Ok(pack) = Pack::mount(&path, MountOptions::default()) else { return };
    assert_eq!(pack.info().size, bytes.len() as u64);
    let mut found = 0;
    for (z, x, y) in (0..4).flat_map(|z| (0..1 << z).flat_map(move |x| (0..1 << z).map(move |y| (z, x, y)))) {
        match pack.tile(z, x, y) {
            Ok(tile) => found += u64::from(tile.is_some()),
            // Of a database's index a mount tries a part.
            Err(PackError::Corrupt) if pack.info().format == Format::Mbtiles => found += 1,
            Err(error) => panic!("{z}/{x}/{y} was mounted: {error}"),
        }
    }
    assert!(found <= pack.info().tiles);
    assert!(pack.unchanged());
}

fn tiles() -> impl Iterator<Item = (Coord, Vec<u8>)> {
    let coords = (0..3)
        .flat_map(|z| (0..1 << z).flat_map(move |x| (0..1 << z).map(move |y| Coord::new(z, x, y).unwrap())));
    coords.map(|coord| (coord, coord.to_string().repeat(20).into_bytes()))
}

fn pmtiles() -> Vec<u8> {
    let mut sorted: Vec<_> = tiles().map(|(coord, content)| (coord.id(), content)).collect();
    sorted.sort();
    let mut writer = Writer::new(Settings::default());
    for (id, content) in sorted {
        writer.push(id, &content).unwrap();
    }
    writer.finish().unwrap()
}

fn mbtiles(path: &std::path::Path) -> Vec<u8> {
    let database = rusqlite::Connection::open(path).unwrap();
    let schema = "PRAGMA page_size = 512; CREATE TABLE metadata (name text, value text);
        CREATE TABLE tiles (zoom_level integer, tile_column integer, tile_row integer, tile_data blob);
        CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);
        INSERT INTO metadata VALUES ('name', 'a'), ('format', 'png');";
    database.execute_batch(schema).unwrap();
    for (coord, content) in tiles() {
        let row = (coord.z(), coord.x(), coord.tms_row(), content);
        database.execute("INSERT INTO tiles VALUES (?1, ?2, ?3, ?4)", row).unwrap();
    }
    drop(database);
    fs::read(path).unwrap()
}

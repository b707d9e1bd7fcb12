//! Packs and bytes to serve.

use std::{io::Write, path::Path};

use decode::Coding;
use pmtiles::{Coord, Settings, TileType, Writer};

/// A tile's place: zoom, column, row.
pub(super) type Place = (u8, u32, u32);

/// Bytes that look like chance and are the same every time.
pub(super) fn noise(seed: usize, len: usize) -> Vec<u8> {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The tag of these bytes.
pub(super) fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", id(bytes))
}

/// The content id of these bytes.
pub(super) fn id(bytes: &[u8]) -> String {
    format!("b3:{}", blake3::hash(bytes).to_hex())
}

pub(super) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Every place up to a zoom, in the order of packs.
pub(super) fn places(max_zoom: u8) -> Vec<Place> {
    let of_zoom = |zoom: u8| {
        (0..1_u32 << zoom).flat_map(move |column| (0..1 << zoom).map(move |row| (zoom, column, row)))
    };
    let mut all: Vec<Place> = (0..=max_zoom).flat_map(of_zoom).collect();
    all.sort_by_key(|(zoom, column, row)| Coord::new(*zoom, *column, *row).unwrap().id().number());
    all
}

/// A PMTiles pack of plain tiles.
pub(super) fn pmtiles_pack(max_zoom: u8, tile: impl Fn(Place) -> Vec<u8>) -> Vec<u8> {
    let settings = Settings {
        tile_type: TileType::Png,
        tile_coding: Some(Coding::Identity),
        metadata: r#"{"name":"proof"}"#.to_owned(),
        ..Settings::default()
    };
    let mut writer = Writer::new(settings);
    for place in places(max_zoom) {
        let (zoom, column, row) = place;
        writer.push(Coord::new(zoom, column, row).unwrap().id(), &tile(place)).unwrap();
    }
    writer.finish().unwrap()
}

/// An MBTiles pack of tiles of this format, in a file.
pub(super) fn mbtiles_pack(path: &Path, format: &str, max_zoom: u8, tile: impl Fn(Place) -> Vec<u8>) {
    let mut database = rusqlite::Connection::open(path).unwrap();
    let work = database.transaction().unwrap();
    work.execute_batch(
        "CREATE TABLE metadata (name TEXT, value TEXT);
         CREATE TABLE tiles (zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_data BLOB);
         CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);
         INSERT INTO metadata VALUES ('name', 'proof');",
    )
    .unwrap();
    work.execute("INSERT INTO metadata VALUES ('format', ?1)", [format]).unwrap();
    for place in places(max_zoom) {
        let (zoom, column, row) = place;
        let from_below = (1_u32 << zoom) - 1 - row;
        work.execute("INSERT INTO tiles VALUES (?1, ?2, ?3, ?4)", (zoom, column, from_below, tile(place)))
            .unwrap();
    }
    work.commit().unwrap();
}

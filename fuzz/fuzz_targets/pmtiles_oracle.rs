//! Packs of ours as the `pmtiles` crate reads them, and packs of its making as we read them: the same tiles.

#![no_main]

use std::{collections::BTreeMap, io::Cursor, ops::Range};

use bytes::Bytes;
use decode::Coding;
use futures_util::FutureExt;
use libfuzzer_sys::fuzz_target;
use pmtiles::{Coord, Directory, Limits, Settings, TileId, Writer, check, find};
use pmtiles_oracle as oracle;

fuzz_target!(|input: (Vec<(u16, u8)>, u32, &[u8])| {
    let (steps, asked, bytes) = input;
    same_entries(bytes, asked);
    let mut tiles = BTreeMap::new();
    let mut number = u64::from(asked % 3);
    for (gap, content) in steps {
        // Few contents, so that some are equal.
        tiles.insert(number, vec![content % 5; 1 + usize::from(content % 3)]);
        number += 1 + u64::from(gap);
    }
    if !tiles.is_empty() {
        read_by_the_other(&tiles, asked.into());
        written_by_the_other(&tiles);
    }
});

/// What we take for a directory, the other takes for the same.
fn same_entries(bytes: &[u8], asked: u32) {
    let Ok(ours) = Directory::decode(bytes, Coding::Identity, &Limits::default()) else { return };
    let theirs = oracle::Directory::try_from(Bytes::copy_from_slice(bytes)).expect("we took it");
    let entries = ours.entries().iter();
    for number in
        entries.flat_map(|entry| [entry.tile_id, entry.tile_id + u64::from(entry.run)]).chain([asked.into()])
    {
        let Some(tile) = TileId::new(number) else { continue };
        let found = theirs.find_tile_id(oracle::TileId::new(number).unwrap());
        assert_eq!(ours.find(tile).is_some(), found.is_some(), "{number}");
    }
}

fn read_by_the_other(tiles: &BTreeMap<u64, Vec<u8>>, asked: u64) {
    let mut writer = Writer::new(Settings { metadata: r#"{"a":1}"#.to_owned(), ..Settings::default() });
    for (number, content) in tiles {
        writer.push(TileId::new(*number).unwrap(), content).unwrap();
    }
    let pack = Memory(Bytes::from(writer.finish().unwrap()));
    let reader = now(oracle::AsyncPmTilesReader::try_from_source(pack)).expect("our pack is sound");
    assert_eq!(now(reader.get_metadata()).unwrap(), r#"{"a":1}"#);
    for number in tiles.keys().copied().chain([asked]) {
        let coord = TileId::new(number).unwrap().coord();
        let theirs = oracle::TileCoord::new(coord.z(), coord.x(), coord.y()).unwrap();
        assert_eq!(oracle::TileId::from(theirs).value(), number);
        let read = now(reader.get_tile(theirs)).unwrap();
        assert_eq!(read.as_deref(), tiles.get(&number).map(Vec::as_slice), "{coord}");
    }
}

fn written_by_the_other(tiles: &BTreeMap<u64, Vec<u8>>) {
    let mut pack = Vec::new();
    let writer = oracle::PmTilesWriter::new(oracle::TileType::Png);
    let mut writer = writer.max_zoom(31).create(Cursor::new(&mut pack)).unwrap();
    for (number, content) in tiles {
        writer.add_tile(oracle::TileId::new(*number).unwrap().into(), content).unwrap();
    }
    writer.finalize().unwrap();
    let at =
        |range: Range<u64>| &pack[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
    let limits = Limits::default();
    let checked =
        check::<_, ()>(pack.len() as u64, &limits, |range| Ok(at(range))).expect("their pack is sound");
    assert_eq!(checked.tiles, tiles.len() as u64);
    for (number, content) in tiles {
        let tile = TileId::new(*number).unwrap();
        assert_eq!(Coord::new(tile.coord().z(), tile.coord().x(), tile.coord().y()), Some(tile.coord()));
        let leaf = |range| Directory::decode(at(range), checked.header.internal, &limits);
        let found = find(&checked.header, &checked.root, tile, leaf).unwrap();
        assert_eq!(found.map(at), Some(content.as_slice()));
    }
}

/// A pack in memory, so that no read has to be waited for.
struct Memory(Bytes);

impl oracle::AsyncBackend for Memory {
    async fn read(&self, offset: u64, length: usize) -> oracle::PmtResult<oracle::BackendResponse> {
        let start = usize::try_from(offset).unwrap().min(self.0.len());
        let end = (start + length).min(self.0.len());
        Ok(oracle::BackendResponse::new(self.0.slice(start..end)))
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing here waits")
}

//! Packs to mount: small ones of each kind, and a folder for them.

#![expect(clippy::unwrap_used, reason = "tests: a failure may panic")]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use flate2::{Compression, write::GzEncoder};
use packs::{Coord, MountError, MountOptions, Pack, TileType};
use pmtiles::{Settings, Writer};
use rusqlite::Connection;
use tempfile::TempDir;

/// Tiles by zoom, column and row.
pub(crate) type Tiles = BTreeMap<(u8, u32, u32), Vec<u8>>;

pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a PMTiles pack.
    pub(crate) fn pmtiles(&self, name: &str, tiles: &Tiles) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, pmtiles(tiles)).unwrap();
        path
    }

    /// Writes an MBTiles pack.
    pub(crate) fn mbtiles(&self, name: &str, tiles: &Tiles) -> PathBuf {
        let path = self.path(name);
        mbtiles(&path, tiles);
        path
    }

    /// Runs statements on a new database.
    pub(crate) fn database(&self, name: &str, statements: &str) -> PathBuf {
        let path = self.path(name);
        Connection::open(&path).unwrap().execute_batch(statements).unwrap();
        path
    }

    /// Both kinds of pack with the same tiles.
    pub(crate) fn both(&self, tiles: &Tiles) -> [PathBuf; 2] {
        [self.pmtiles("a.pmtiles", tiles), self.mbtiles("a.mbtiles", tiles)]
    }
}

/// Tiles of the first zooms, each with a content of its own but for the sea.
pub(crate) fn tiles(max_zoom: u8) -> Tiles {
    let mut tiles = Tiles::new();
    for z in 0..=max_zoom {
        for x in 0..1 << z {
            for y in (0..1 << z).filter(|y| (x + y) % 7 != 3) {
                let content = format!("tile {z}/{x}/{y} ").repeat(1 + (x * 5 + y * 11) as usize % 40);
                tiles.insert((z, x, y), if y % 3 == 2 { b"sea".to_vec() } else { content.into_bytes() });
            }
        }
    }
    tiles
}

pub(crate) fn pmtiles(tiles: &Tiles) -> Vec<u8> {
    let sorted: BTreeMap<_, _> =
        tiles.iter().map(|(&(z, x, y), content)| (Coord::new(z, x, y).unwrap().id(), content)).collect();
    let metadata = r#"{"name":"little world","vector_layers":[]}"#.to_owned();
    let mut writer = Writer::new(Settings { tile_type: TileType::Png, metadata, ..Settings::default() });
    for (id, content) in sorted {
        writer.push(id, content).unwrap();
    }
    writer.finish().unwrap()
}

/// The schema that most programs write.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE metadata (name text, value text);
    CREATE TABLE tiles (zoom_level integer, tile_column integer, tile_row integer, tile_data blob);
    CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);
    INSERT INTO metadata VALUES ('name', 'little world'), ('format', 'png'), ('bounds', '-10,-20,30,40'),
        ('center', '1.5,2.5,3'), ('json', '{\"vector_layers\":[]}');";

pub(crate) fn mbtiles(path: &Path, tiles: &Tiles) {
    let mut database = Connection::open(path).unwrap();
    database.execute_batch(SCHEMA).unwrap();
    let transaction = database.transaction().unwrap();
    for (&(z, x, y), content) in tiles {
        let row = (1_u32 << z) - 1 - y;
        transaction.execute("INSERT INTO tiles VALUES (?1, ?2, ?3, ?4)", (z, x, row, content)).unwrap();
    }
    transaction.commit().unwrap();
}

pub(crate) fn mount(path: &Path) -> Result<Pack, MountError> {
    Pack::mount(path, MountOptions::default())
}

/// Why a pack is not mounted.
#[track_caller]
pub(crate) fn refusal(path: &Path) -> String {
    match mount(path) {
        Err(error) => error.to_string(),
        Ok(pack) => panic!("{} was mounted", pack.info().path.display()),
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Makes a file look as if nobody had written to it for an hour.
pub(crate) fn age(path: &Path) {
    set_modified(path, SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
}

pub(crate) fn set_modified(path: &Path, at: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
}

/// Every tile is there, as it was put in, and nothing else.
#[track_caller]
pub(crate) fn assert_serves(pack: &Pack, tiles: &Tiles) {
    for (&(z, x, y), content) in tiles {
        let tile = pack.tile(z, x, y).unwrap().unwrap_or_else(|| panic!("{z}/{x}/{y} is missing"));
        assert_eq!(tile.bytes, content, "{z}/{x}/{y}");
        assert_eq!(tile.id.as_bytes(), blake3::hash(content).as_bytes());
    }
    for z in 0..6_u8 {
        for (x, y) in (0..1 << z).flat_map(|x| (0..1 << z).map(move |y| (x, y))) {
            let there = pack.tile(z, x, y).unwrap().is_some();
            assert_eq!(there, tiles.contains_key(&(z, x, y)), "{z}/{x}/{y}");
        }
    }
}

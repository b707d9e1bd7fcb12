//! MBTiles: tiles in an SQLite database, which is read and never trusted.
//!
//! A database can hold programs: views, triggers, virtual tables, expressions in indexes. So nothing is called that a pack
//! does not need, every query is bounded in steps, strings and memory, and what comes out is compared with its hash. The file is
//! opened as immutable: no lock, no journal, nothing is written beside it.

mod connection;
mod describe;
mod pool;
mod scan;
mod schema;
mod table;

pub(crate) use table::{ROW_LEN, Table};

use std::{ffi::OsString, path::Path};

use pmtiles::Coord;
use types::ObjectId;

use crate::{
    error::{MbtilesError, PackError},
    options::Limits,
};
use connection::Connection;
use pool::Pool;

/// Finds a tile. The columns are those of the specification, whatever stands behind them.
const LOOK_UP: &str =
    "SELECT tile_data FROM tiles WHERE zoom_level = ?1 AND tile_column = ?2 AND tile_row = ?3";

/// Reads all tiles.
const ALL_TILES: &str = "SELECT zoom_level, tile_column, tile_row, tile_data FROM tiles";

/// Reads what the pack says of itself.
const ALL_METADATA: &str = "SELECT name, value FROM metadata";

/// An open MBTiles database.
#[derive(Debug)]
pub(crate) struct Database {
    pool: Pool,
    limits: Limits,
}

impl Database {
    /// Opens the database at `path` as often as the limits say, and checks its schema.
    pub(crate) fn open(path: &Path, limits: &Limits) -> Result<Self, MbtilesError> {
        for ending in ["-wal", "-journal"] {
            let mut beside = OsString::from(path);
            beside.push(ending);
            if std::fs::metadata(&beside).is_ok_and(|metadata| metadata.len() > 0) {
                return Err(MbtilesError::Unfinished(Path::new(&beside).display().to_string()));
            }
        }
        let connections = (0..limits.mbtiles_connections.max(1)).map(|_| Connection::open(path, limits));
        let mut connections: Vec<_> = connections.collect::<Result<_, _>>()?;
        for connection in &mut connections {
            schema::check(connection)?;
            connection.restrict()?;
        }
        Ok(Self { pool: Pool::new(connections), limits: *limits })
    }

    /// Reads a tile whose hash is known.
    pub(crate) fn read_as(&self, coord: Coord, id: ObjectId) -> Result<Vec<u8>, PackError> {
        self.pool.with(|connection| match connection.tile(coord) {
            Ok(Some(tile)) if blake3::hash(&tile) == *id.as_bytes() => Ok(tile),
            wrong => {
                // The file may be mended before what was read of it is forgotten.
                connection.forget();
                Err(wrong.err().unwrap_or(PackError::Corrupt))
            }
        })
    }

    /// Reads a tile. Nothing says that it is the right one.
    pub(crate) fn read(&self, coord: Coord) -> Result<Option<Vec<u8>>, PackError> {
        self.pool.with(|connection| connection.tile(coord))
    }
}

//! Why a pack is not mounted, and why a tile of a mounted one is not given out.

use std::io;

use cas::ReadError;
use pmtiles::CheckError;
use types::ObjectId;

use crate::signature::SignatureError;

/// Why a pack is not mounted, in words for the operator.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no such file, or it may not be read.
    #[error("it cannot be opened: {0}")]
    Open(io::Error),
    /// The disk does not give its bytes.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// A folder, a device, a pipe.
    #[error("it is not a file")]
    NotAFile,
    /// The file is neither PMTiles nor MBTiles.
    #[error("it is neither PMTiles nor MBTiles, by its first bytes")]
    NotAPack,
    /// Not as a PMTiles pack has to be.
    #[error("{0}")]
    Pmtiles(CheckError<ReadError>),
    /// Not as an MBTiles pack has to be.
    #[error("{0}")]
    Mbtiles(#[from] MbtilesError),
    /// Metadata that readers could not use.
    #[error("the metadata is not a JSON object: {0}")]
    Metadata(String),
    /// Not the file that was meant.
    #[error("its content is {found}, but {expected} was asked for")]
    OtherContent {
        /// The expected hash.
        expected: ObjectId,
        /// The hash of the file.
        found: ObjectId,
    },
    /// Not signed as it has to be.
    #[error("{0}")]
    Signature(#[from] SignatureError),
    /// Somebody writes to it.
    #[error("it was changed while it was being mounted: replace packs by renaming, and do not write to them")]
    Changed,
    /// The outboard says that its bytes were others.
    #[error(
        "its bytes are not those that were hashed earlier, though nobody has written to it: the disk may be failing"
    )]
    Rotten,
    /// The observer of the progress cancelled it.
    #[error("the mount was stopped")]
    Stopped,
}

/// What is wrong with an MBTiles pack.
#[derive(Debug, thiserror::Error)]
pub enum MbtilesError {
    /// The database cannot be used.
    #[error("the database is refused: {0}")]
    Database(#[from] rusqlite::Error),
    /// Somebody is in the middle of writing, or was when the machine went down.
    #[error(
        "{0} lies beside it: the database is being written, or was not closed; open it with sqlite3 once"
    )]
    Unfinished(String),
    /// The end is missing.
    #[error("the database has {size} bytes and should have {said}: it is cut short")]
    CutShort {
        /// How many it says it has.
        said: u64,
        /// The size of the file in bytes.
        size: u64,
    },
    /// Programs inside of the database.
    #[error("it has a {0}, which a pack does not need")]
    Active(&'static str),
    /// Not the schema of a pack.
    #[error("it has no table or view `{0}` with the columns {1}")]
    Schema(&'static str, &'static str),
    /// More objects than any pack has.
    #[error("it has more than {0} tables, views and indexes")]
    SchemaSize(usize),
    /// Each lookup would read the whole table.
    #[error(
        "its tiles cannot be looked up without reading all of them; make an index: \
         CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row)"
    )]
    NoIndex,
    /// A view that keeps rows in memory.
    #[error("reading `{table}` would collect rows in memory ({step}), which a pack does not need")]
    Collects {
        /// The name of the table or view.
        table: &'static str,
        /// The step of the query, in SQLite's words.
        step: String,
    },
    /// A query that does not come to an end.
    #[error("a query takes too long")]
    TooSlow,
    /// A column with something else in it.
    #[error("{column} of a row of `{table}` is not {expected}")]
    Type {
        /// The name of the table.
        table: &'static str,
        /// The name of the column.
        column: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// A tile that is too large.
    #[error("tile {tile} has {len} bytes, more than {max}")]
    TileTooLarge {
        /// The tile, if it is one.
        tile: String,
        /// The length in bytes.
        len: usize,
        /// The maximum length in bytes.
        max: u32,
    },
    /// A tile that is there and not found.
    #[error("tile {0} is in the table, but cannot be looked up: the index is damaged")]
    Lost(String),
    /// Two tiles in one place.
    #[error("tile {0} is there twice, with different contents")]
    Twice(String),
    /// More tiles than there is memory for.
    #[error("it has more than {0} tiles; larger packs are better kept as PMTiles, or raise the limit")]
    TooManyTiles(usize),
    /// More metadata than allowed.
    #[error("its metadata is larger than allowed")]
    MetadataSize,
    /// The pack has no tiles.
    #[error("it has no tiles")]
    Empty,
}

/// Why a tile is not given out.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The system could not read it; it may be able to later.
    #[error("the pack cannot be read: {0}")]
    Io(io::Error),
    /// These are not the bytes that were mounted, and nobody has written to the file: the disk is failing.
    #[error("the pack is damaged: its bytes are not those that were mounted")]
    Corrupt,
    /// Somebody has written to the file or has cut it short.
    #[error("the pack was changed after it was mounted")]
    Changed,
    /// The database did not find it within bounds.
    #[error("the tile could not be looked up in time")]
    Slow,
}

impl From<CheckError<ReadError>> for MountError {
    fn from(error: CheckError<ReadError>) -> Self {
        match error {
            CheckError::Read(ReadError::Io(error)) => Self::Read(error),
            CheckError::Read(ReadError::Corrupt { .. } | ReadError::OutOfRange) => Self::Rotten,
            other => Self::Pmtiles(other),
        }
    }
}

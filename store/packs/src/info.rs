//! What is known of a mounted pack, and what is given out of it.

use std::{
    fmt,
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use bytes::Bytes;
use decode::Coding;
use pmtiles::TileType;
use serde_json::{Map, Value};
use types::ObjectId;

use crate::{mount::open_regular, sniff};

/// The file format of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// PMTiles version 3.
    Pmtiles,
    /// MBTiles: an SQLite database.
    Mbtiles,
}

impl Format {
    /// What a file is by how it begins; `None` if it is no pack. Blocking.
    ///
    /// # Errors
    /// Whatever the file system reports.
    pub fn of_file(path: &Path) -> io::Result<Option<Self>> {
        let mut beginning = Vec::new();
        let Some(file) = open_regular(path)? else { return Ok(None) };
        file.take(sniff::BEGINNING as u64).read_to_end(&mut beginning)?;
        Ok(sniff::format(&beginning))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pmtiles => "pmtiles",
            Self::Mbtiles => "mbtiles",
        })
    }
}

/// What is known of a mounted pack.
#[derive(Clone, Debug)]
pub struct PackInfo {
    /// The path that the pack was mounted from.
    pub path: PathBuf,
    /// What its metadata call it, else the name of its file without the extension.
    pub name: String,
    /// The file format of the pack.
    pub format: Format,
    /// The hash of the whole file.
    pub id: ObjectId,
    /// The bytes of the file.
    pub size: u64,
    /// When the file was last written.
    pub modified: SystemTime,
    /// Tiles that can be asked for.
    pub tiles: u64,
    /// The format of the tiles.
    pub tile_type: TileType,
    /// How they are encoded, if they all are in one way that is known.
    pub coding: Option<Coding>,
    /// The lowest zoom level.
    pub min_zoom: u8,
    /// The highest zoom level.
    pub max_zoom: u8,
    /// West, south, east, north, in degrees.
    pub bounds: [f64; 4],
    /// Longitude and latitude in degrees and the zoom to begin with.
    pub center: Option<(f64, f64, u8)>,
    /// The metadata, as they are in the pack.
    pub metadata: Map<String, Value>,
    /// What is odd about the pack, but does no harm.
    pub notes: Vec<String>,
}

/// What a pack says of itself.
pub(crate) struct Described {
    pub(crate) metadata: Map<String, Value>,
    pub(crate) tiles: u64,
    pub(crate) tile_type: TileType,
    pub(crate) coding: Option<Coding>,
    pub(crate) min_zoom: u8,
    pub(crate) max_zoom: u8,
    pub(crate) bounds: [f64; 4],
    pub(crate) center: Option<(f64, f64, u8)>,
    pub(crate) notes: Vec<String>,
}

/// A tile, compared with what was mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Its bytes, encoded as they are in the pack.
    pub bytes: Bytes,
    /// The hash of the tile's bytes.
    pub id: ObjectId,
    /// How they are encoded; `None` if they are not.
    pub coding: Option<Coding>,
    /// The media type of the decoded bytes.
    pub media_type: &'static str,
}

impl Tile {
    /// A tile of this type. What its pack says of the coding counts, else what its first bytes show.
    pub(crate) fn new(bytes: Bytes, id: ObjectId, tile_type: TileType, coding: Option<Coding>) -> Self {
        let coding = coding.or_else(|| sniff::coding(tile_type, &bytes));
        let coding = coding.filter(|coding| *coding != Coding::Identity);
        Self { bytes, id, coding, media_type: tile_type.media_type() }
    }
}

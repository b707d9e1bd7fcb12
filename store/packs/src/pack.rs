//! A mounted pack.

use std::{fs::File, io, path::Path, sync::Arc};

use bytes::Bytes;
use cas::{ReadError, Verified};
use pmtiles::Coord;
use types::ObjectId;

use crate::{
    error::{MountError, PackError},
    info::{PackInfo, Tile},
    mbtiles::{Database, Table},
    mount,
    options::MountOptions,
    pmtiles_pack::Directories,
    stamp::{FileState, Stamp},
};

/// A mounted pack. Whatever becomes of its file, what is read is what was mounted, or nothing.
#[derive(Debug)]
pub struct Pack {
    info: PackInfo,
    stamp: Stamp,
    /// The file once more, to ask what became of it.
    handle: File,
    file: Arc<Verified>,
    tiles: Tiles,
}

/// The index of a pack's tiles.
#[derive(Debug)]
pub(crate) enum Tiles {
    Pmtiles(Directories),
    Mbtiles(Database, Table),
}

impl Pack {
    /// Mounts a pack, PMTiles or MBTiles by its content. Blocks for as long as it takes to read the file once (twice for
    /// MBTiles), or for a moment if its hashes were kept.
    ///
    /// # Errors
    /// [`MountError`] for whatever is wrong with it.
    pub fn mount(path: &Path, options: MountOptions<'_>) -> Result<Self, MountError> {
        mount::mount(path, options)
    }

    pub(crate) fn new(info: PackInfo, stamp: Stamp, handle: File, file: Arc<Verified>, tiles: Tiles) -> Self {
        Self { info, stamp, handle, file, tiles }
    }

    /// Returns the metadata of the pack.
    #[must_use]
    pub fn info(&self) -> &PackInfo {
        &self.info
    }

    /// The bytes of its file.
    #[must_use]
    pub fn file(&self) -> &Arc<Verified> {
        &self.file
    }

    /// Reads a tile; `None` if the pack does not have it, or if there can be no such tile. Blocks.
    ///
    /// # Errors
    /// [`PackError`] if the tile that was mounted cannot be read.
    pub fn tile(&self, z: u8, x: u32, y: u32) -> Result<Option<Tile>, PackError> {
        let Some(coord) = Coord::new(z, x, y) else { return Ok(None) };
        let found = match &self.tiles {
            Tiles::Pmtiles(directories) => {
                let bytes = directories.read(&self.file, coord.id()).map_err(|error| self.judged(error))?;
                bytes.map(|bytes| (ObjectId::new(*blake3::hash(&bytes).as_bytes()), bytes))
            }
            Tiles::Mbtiles(database, table) => match table.get(coord.id()) {
                Some(id) => Some((id, self.checked(database, coord, id)?)),
                None => None,
            },
        };
        let (tile_type, coding) = (self.info.tile_type, self.info.coding);
        Ok(found.map(|(id, bytes)| Tile::new(bytes, id, tile_type, coding)))
    }

    /// What became of the file that it was mounted from. Blocks for a moment.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn state(&self) -> io::Result<FileState> {
        self.stamp.state_at(&self.info.path)
    }

    /// Whether its path still leads to the same file, and nobody has written to it. Blocks for a moment.
    #[must_use]
    pub fn unchanged(&self) -> bool {
        matches!(self.state(), Ok(FileState::Same))
    }

    /// Reads a tile that is known to be there, from the database, which is not trusted.
    fn checked(&self, database: &Database, coord: Coord, id: ObjectId) -> Result<Bytes, PackError> {
        let read = database.read_as(coord, id).map(Bytes::from);
        read.map_err(|error| match (error, self.damage()) {
            (PackError::Corrupt, damage) => damage,
            // To SQLite a file that ends too early is a failing disk.
            (_, PackError::Changed) => PackError::Changed,
            (error, _) => error,
        })
    }

    fn judged(&self, error: ReadError) -> PackError {
        match error {
            ReadError::Io(error) => PackError::Io(error),
            ReadError::Corrupt { .. } | ReadError::OutOfRange => self.damage(),
        }
    }

    /// Bytes are wrong: because somebody has written to the file, or by themselves.
    fn damage(&self) -> PackError {
        match Stamp::of_file(&self.handle) {
            Ok(now) if now.is_as(&self.stamp) => PackError::Corrupt,
            Ok(_) => PackError::Changed,
            Err(error) => PackError::Io(error),
        }
    }
}

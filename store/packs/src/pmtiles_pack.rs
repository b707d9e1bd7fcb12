//! The directories of a mounted PMTiles pack: the root, and those leaves that are used.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use cas::{ReadError, Verified};
use pmtiles::{Directory, DirectoryError, Header, TileId, find};
use quick_cache::{Weighter, sync::Cache};

use crate::options::Limits;

/// The way from a tile's id to its place in the file.
#[derive(Debug)]
pub(crate) struct Directories {
    header: Header,
    root: Directory,
    leaves: Cache<u64, Arc<Directory>, ByMemory>,
    limits: pmtiles::Limits,
}

#[derive(Clone, Debug)]
struct ByMemory;

impl Weighter<u64, Arc<Directory>> for ByMemory {
    fn weight(&self, _: &u64, directory: &Arc<Directory>) -> u64 {
        directory.memory() as u64
    }
}

impl Directories {
    /// The directories of a pack that was checked.
    pub(crate) fn new(header: Header, root: Directory, limits: &Limits) -> Self {
        /// What a leaf of the usual size takes.
        const LEAF: u64 = 4096 * 24;
        let leaves = usize::try_from(limits.directory_cache / LEAF).unwrap_or(usize::MAX).max(1);
        let leaves = Cache::with_weighter(leaves, limits.directory_cache, ByMemory);
        Self { header, root, leaves, limits: limits.pmtiles }
    }

    /// Reads a tile from the file, if it is there.
    pub(crate) fn read(&self, file: &Verified, tile: TileId) -> Result<Option<Bytes>, ReadError> {
        let found = find(&self.header, &self.root, tile, |range| self.leaf(file, range));
        match found {
            Ok(Some(range)) => file.read(range).map(Some),
            Ok(None) => Ok(None),
            Err(LookUp::Read(error)) => Err(error),
            // All directories were checked at mount, and these are the same bytes.
            Err(LookUp::Directory) => Err(ReadError::Corrupt { group: 0 }),
        }
    }

    fn leaf(&self, file: &Verified, range: Range<u64>) -> Result<Arc<Directory>, LookUp> {
        self.leaves.get_or_insert_with(&range.start.clone(), || {
            let bytes = file.read(range)?;
            let directory = Directory::decode(&bytes, self.header.internal, &self.limits)?;
            Ok(Arc::new(directory))
        })
    }
}

/// The reason why the search for a tile failed.
enum LookUp {
    Read(ReadError),
    Directory,
}

impl From<ReadError> for LookUp {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<DirectoryError> for LookUp {
    fn from(_: DirectoryError) -> Self {
        Self::Directory
    }
}

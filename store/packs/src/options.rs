//! What a mount is told, and what it tells while it runs.

use std::{ops::ControlFlow, path::PathBuf};

use types::ObjectId;

use crate::signature::PublicKey;

/// The options of a mount.
#[derive(Default)]
pub struct MountOptions<'a> {
    /// Where hashes are kept, so that a file that did not change is not hashed again. Without it nothing is written.
    pub outboard_dir: Option<PathBuf>,
    /// What the file has to be.
    pub expect: Option<ObjectId>,
    /// Who has to have signed it: the signature is in a file of the same name with `.sig` behind it.
    pub signer: Option<PublicKey>,
    /// How much a pack may ask for.
    pub limits: Limits,
    /// Is told how far the mount is, and says whether to go on.
    pub progress: Option<&'a mut dyn FnMut(Progress) -> ControlFlow<()>>,
}

/// How much a pack may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Those of directories, tiles and metadata; the last two hold for MBTiles as well.
    pub pmtiles: pmtiles::Limits,
    /// Bytes of decoded directories that one PMTiles pack keeps.
    pub directory_cache: u64,
    /// Tiles of one MBTiles pack, which take 40 bytes each.
    pub mbtiles_tiles: usize,
    /// Connections to one MBTiles pack: how many tiles are read from it at once.
    pub mbtiles_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pmtiles: pmtiles::Limits::default(),
            directory_cache: 32 << 20,
            mbtiles_tiles: 1 << 24,
            mbtiles_connections: 4,
        }
    }
}

/// The progress of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current step.
    pub stage: Stage,
    /// Bytes that are done.
    pub done: u64,
    /// The total number of bytes.
    pub total: u64,
}

/// A step of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The file is being hashed.
    Hashing,
    /// Hashing the tiles of an MBTiles pack one by one.
    Tiles,
}

impl MountOptions<'_> {
    /// Tells how far it is; whether to go on.
    pub(crate) fn tell(&mut self, stage: Stage, done: u64, total: u64) -> ControlFlow<()> {
        match &mut self.progress {
            Some(progress) => progress(Progress { stage, done: done.min(total), total }),
            None => ControlFlow::Continue(()),
        }
    }
}

impl std::fmt::Debug for MountOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountOptions")
            .field("outboard_dir", &self.outboard_dir)
            .field("expect", &self.expect)
            .field("signer", &self.signer)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

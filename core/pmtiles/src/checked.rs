//! What a check comes to: what a pack holds, what is odd about it, or why it is refused.

use std::fmt;

use crate::{
    directory::{Directory, DirectoryError},
    header::{Header, HeaderError},
};

/// What a check found out about a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The decoded header.
    pub header: Header,
    /// The decoded root directory.
    pub root: Directory,
    /// The metadata, decoded; empty if there is none.
    pub metadata: String,
    /// Tiles that can be asked for.
    pub tiles: u64,
    /// Entries that lead to tiles.
    pub entries: u64,
    /// Number of leaf directories.
    pub leaves: u64,
    /// Directories on the way from the root to the deepest tile.
    pub depth: usize,
    /// The largest tile, in bytes as stored.
    pub largest_tile: u32,
    /// What is odd about the pack, but does no harm.
    pub notes: Vec<Note>,
}

/// Something that a pack says of itself and that is not so. Nothing here relies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The number of tiles.
    Tiles {
        /// The number in the header.
        said: u64,
        /// The number found in the directories.
        found: u64,
    },
    /// The number of entries.
    Entries {
        /// The number in the header.
        said: u64,
        /// The number found in the directories.
        found: u64,
    },
    /// The lowest and the highest zoom.
    Zooms {
        /// The zoom levels in the header.
        said: (u8, u8),
        /// The zoom levels found in the directories.
        found: (u8, u8),
    },
    /// It says that it is clustered.
    NotClustered,
}

/// The reason why a pack is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError<E> {
    /// Its bytes could not be read.
    #[error("{0}")]
    Read(E),
    /// The header is invalid.
    #[error("the header is refused: {0}")]
    Header(#[from] HeaderError),
    /// The root directory is invalid.
    #[error("the root directory is refused: {0}")]
    Root(DirectoryError),
    /// A leaf directory is invalid.
    #[error("the leaf directory at {at} is refused: {error}")]
    Leaf {
        /// Where it begins in the file.
        at: u64,
        /// The reason why it is invalid.
        error: DirectoryError,
    },
    /// The metadata cannot be decoded.
    #[error("the metadata is refused: {0}")]
    Metadata(DirectoryError),
    /// An entry whose tile is not in the tile section.
    #[error("tile {tile} would lie outside of the tile data")]
    TileOutside {
        /// The id of the tile.
        tile: u64,
    },
    /// A tile that is too large.
    #[error("tile {tile} has {len} bytes, more than allowed")]
    TileTooLarge {
        /// The id of the tile.
        tile: u64,
        /// Length of the tile in bytes.
        len: u32,
    },
    /// An entry whose directory is not in the section of the leaf directories.
    #[error("the leaf directory for tile {tile} would lie outside of the leaf directories")]
    LeafOutside {
        /// The id of the tile.
        tile: u64,
    },
    /// A leaf that knows tiles which are not its business. Every loop but the shortest ends here.
    #[error("the leaf directory at {at} has tiles that belong to others")]
    Strays {
        /// Where it begins in the file.
        at: u64,
    },
    /// Directories that lead on and on.
    #[error(
        "more than {0} directories lead from one to the next: they are nested too deeply, or in a circle"
    )]
    TooDeep(usize),
    /// More entries than allowed.
    #[error("the directories have more than {0} entries")]
    TooManyEntries(u64),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tiles { said, found } => write!(f, "the header says {said} tiles, and there are {found}"),
            Self::Entries { said, found } => {
                write!(f, "the header says {said} entries, and there are {found}")
            }
            Self::Zooms { said, found } => write!(
                f,
                "the header says zooms {} to {}, and there are {} to {}",
                said.0, said.1, found.0, found.1
            ),
            Self::NotClustered => f.write_str("the header says that tiles are in order, and they are not"),
        }
    }
}

//! Following directories from the root to one tile.

use std::ops::Range;

use crate::{
    directory::{Directory, DirectoryError, Entry, Target},
    header::{Header, Section},
    tile_id::TileId,
};

/// How many directories a lookup reads at most, the root among them.
pub(crate) const MAX_DEPTH: usize = 4;

/// Finds where a tile's bytes are in the file; `None` if the pack does not have it.
///
/// `leaf` gets the directory at a place in the file. It is asked three times at most.
///
/// # Errors
/// Those of `leaf`, and [`DirectoryError::Place`] for an entry that leads outside of its section or too deep. A pack that
/// passed [`check`](crate::check()) has none of these.
pub fn find<D, E>(
    header: &Header,
    root: &Directory,
    tile: TileId,
    mut leaf: impl FnMut(Range<u64>) -> Result<D, E>,
) -> Result<Option<Range<u64>>, E>
where
    D: AsRef<Directory>,
    E: From<DirectoryError>,
{
    let place = |section: Section, entry: Entry| {
        section.inner(entry.offset, entry.len.into()).ok_or(DirectoryError::Place)
    };
    let mut target = root.find(tile);
    for _ in 1..MAX_DEPTH {
        let Some(Target::Leaf(entry)) = target else { break };
        target = leaf(place(header.leaves, entry)?)?.as_ref().find(tile);
    }
    match target {
        None => Ok(None),
        Some(Target::Tile(entry)) => Ok(Some(place(header.tiles, entry)?)),
        Some(Target::Leaf(_)) => Err(DirectoryError::Place.into()),
    }
}

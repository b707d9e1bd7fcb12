//! Directories: sorted lists of where tiles, or further directories, are.

use std::ops::Range;

use decode::Coding;

use crate::{
    inflate::inflate,
    limits::Limits,
    tile_id::TileId,
    varint::{put, take},
};

/// One line of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first tile that it is about.
    pub tile_id: u64,
    /// Where the bytes begin in their section: the tiles, or the leaf directories.
    pub offset: u64,
    /// Length of the tile in bytes, never 0.
    pub len: u32,
    /// How many tiles in a row have this content; 0 for a leaf directory.
    pub run: u32,
}

/// What a directory knows about a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The entry of the tile itself.
    Tile(Entry),
    /// The entry of the directory that knows more.
    Leaf(Entry),
}

/// A decoded directory. Its entries are in ascending order, and the tiles of one never reach into the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    entries: Vec<Entry>,
}

/// Why a directory (or the metadata, which is encoded alike) is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// Larger than allowed, encoded or decoded.
    #[error("it is larger than allowed, or decodes to more than allowed")]
    TooLarge,
    /// The bytes are not of the coding.
    #[error("its compressed bytes are damaged or cut short")]
    Coding,
    /// It ends before its entries do, or has numbers of more than their bits.
    #[error("its numbers are damaged or cut short")]
    Numbers,
    /// Bytes behind the last entry.
    #[error("bytes follow its last entry")]
    Trailing,
    /// No entries at all.
    #[error("it has no entries")]
    Empty,
    /// More entries than allowed, or than its bytes could hold.
    #[error("it claims {0} entries, more than allowed or than it has room for")]
    Entries(u64),
    /// Tile ids that do not ascend, or runs that overlap.
    #[error("its tiles are not in ascending order")]
    Order,
    /// A tile id that no zoom has.
    #[error("it has a tile beyond the highest zoom")]
    Beyond,
    /// An entry without bytes, or at an offset that is not a number.
    #[error("an entry has no bytes, or an offset that makes no sense")]
    Place,
    /// Metadata that is not text.
    #[error("it is not text")]
    NotText,
}

impl Directory {
    /// Decodes a directory.
    ///
    /// # Errors
    /// [`DirectoryError`] for the first thing that is wrong; nothing beyond the limits is allocated before that.
    pub fn decode(bytes: &[u8], coding: Coding, limits: &Limits) -> Result<Self, DirectoryError> {
        let decoded = inflate(bytes, coding, limits.directory_bytes)?;
        let mut rest = decoded.as_slice();
        let claimed = take(&mut rest).ok_or(DirectoryError::Numbers)?;
        if claimed == 0 {
            return Err(DirectoryError::Empty);
        }
        // Each entry has four numbers of at least one byte.
        let most = limits.directory_entries.min(rest.len() / 4);
        let count = usize::try_from(claimed).ok().filter(|count| *count <= most);
        let count = count.ok_or(DirectoryError::Entries(claimed))?;
        let mut entries = vec![Entry { tile_id: 0, offset: 0, len: 0, run: 0 }; count];
        read_ids_and_runs(&mut entries, &mut rest)?;
        read_places(&mut entries, &mut rest)?;
        if rest.is_empty() { Ok(Self { entries }) } else { Err(DirectoryError::Trailing) }
    }

    /// The bytes of a directory with these entries, before they are compressed.
    #[must_use]
    pub fn encode(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * entries.len() + 4);
        put(entries.len() as u64, &mut bytes);
        let mut last = 0;
        for entry in entries {
            put(entry.tile_id.wrapping_sub(last), &mut bytes);
            last = entry.tile_id;
        }
        entries.iter().for_each(|entry| put(entry.run.into(), &mut bytes));
        entries.iter().for_each(|entry| put(entry.len.into(), &mut bytes));
        let mut next = None;
        for entry in entries {
            let follows = next == Some(entry.offset);
            put(if follows { 0 } else { entry.offset.wrapping_add(1) }, &mut bytes);
            next = entry.offset.checked_add(entry.len.into());
        }
        bytes
    }

    /// The entries, in ascending order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What is known about a tile; `None` if it is not in the pack.
    #[must_use]
    pub fn find(&self, tile: TileId) -> Option<Target> {
        let after = self.entries.partition_point(|entry| entry.tile_id <= tile.number());
        let entry = *self.entries.get(after.checked_sub(1)?)?;
        match entry.run {
            0 => Some(Target::Leaf(entry)),
            run => (tile.number() - entry.tile_id < run.into()).then_some(Target::Tile(entry)),
        }
    }

    /// Whether all its tiles are among those of `range`.
    #[must_use]
    pub fn lies_within(&self, range: Range<u64>) -> bool {
        let last = |entry: &Entry| entry.tile_id + u64::from(entry.run.max(1)) - 1;
        self.entries.first().is_some_and(|first| first.tile_id >= range.start)
            && self.entries.last().is_some_and(|entry| last(entry) < range.end)
    }

    /// The memory that it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.entries.capacity() * size_of::<Entry>()
    }
}

impl AsRef<Self> for Directory {
    fn as_ref(&self) -> &Self {
        self
    }
}

fn read_ids_and_runs(entries: &mut [Entry], rest: &mut &[u8]) -> Result<(), DirectoryError> {
    let mut last: Option<u64> = None;
    for entry in &mut *entries {
        let step = take(rest).ok_or(DirectoryError::Numbers)?;
        if last.is_some() && step == 0 {
            return Err(DirectoryError::Order);
        }
        entry.tile_id = last.unwrap_or(0).checked_add(step).ok_or(DirectoryError::Beyond)?;
        last = Some(entry.tile_id);
    }
    let mut free = 0;
    for entry in entries {
        entry.run = take_u32(rest)?;
        if entry.tile_id < free {
            return Err(DirectoryError::Order);
        }
        // A leaf is about its first tile at least.
        let last = entry.tile_id.checked_add(u64::from(entry.run.max(1)) - 1);
        if last.is_none_or(|last| last > TileId::MAX.number()) {
            return Err(DirectoryError::Beyond);
        }
        free = entry.tile_id + u64::from(entry.run);
    }
    Ok(())
}

fn read_places(entries: &mut [Entry], rest: &mut &[u8]) -> Result<(), DirectoryError> {
    for entry in &mut *entries {
        entry.len = take_u32(rest)?;
        if entry.len == 0 {
            return Err(DirectoryError::Place);
        }
    }
    let mut next = None;
    for entry in entries {
        entry.offset = match take(rest).ok_or(DirectoryError::Numbers)? {
            // Behind the one before, if there is one.
            0 => next.ok_or(DirectoryError::Place)?,
            above => above - 1,
        };
        next = Some(entry.offset.checked_add(entry.len.into()).ok_or(DirectoryError::Place)?);
    }
    Ok(())
}

fn take_u32(rest: &mut &[u8]) -> Result<u32, DirectoryError> {
    take(rest).and_then(|number| u32::try_from(number).ok()).ok_or(DirectoryError::Numbers)
}

//! Following all directories of a pack once.

use std::ops::Range;

use crate::{
    checked::{CheckError, Checked, Note},
    directory::{Directory, DirectoryError, Entry},
    find::MAX_DEPTH,
    header::{Header, HeaderError, ROOT_END},
    inflate::metadata,
    limits::Limits,
    tile_id::TileId,
};

/// Checks a whole pack of `len` bytes: its header, its metadata, and all its directories, each of which is read once. The
/// tiles themselves are not read.
///
/// What passes keeps every promise that [`find`](crate::find()) needs: each entry leads to a place inside its section,
/// and no way is longer than [`Limits::depth`]. A directory may only have tiles that come before the next entry of the
/// one above it, so none is reached in two ways, and the work is in proportion to the size of the directories.
///
/// # Errors
/// [`CheckError`] for the first thing that is wrong.
pub fn check<B, E>(
    len: u64,
    limits: &Limits,
    mut read: impl FnMut(Range<u64>) -> Result<B, E>,
) -> Result<Checked, CheckError<E>>
where
    B: AsRef<[u8]>,
{
    let first = read(0..len.min(ROOT_END)).map_err(CheckError::Read)?;
    let first = first.as_ref();
    let header = Header::parse(first)?;
    header.fits(len)?;
    // The header keeps its root inside of these bytes, and the file has them all.
    let root = header
        .root
        .inner(0, header.root.len)
        .and_then(|range| first.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?));
    let root = root.ok_or(HeaderError::Root)?;
    let root = Directory::decode(root, header.internal, limits).map_err(CheckError::Root)?;
    let text = text(&header, limits, &mut read)?;
    let mut walk = Walk::new(&header, limits, &mut read);
    walk.directory(&root, TileId::MAX.number() + 1, 1)?;
    let found = walk.found;
    let notes = found.notes(&header);
    let Found { tiles, entries, leaves, depth, largest_tile, .. } = found;
    Ok(Checked { header, root, metadata: text, tiles, entries, leaves, depth, largest_tile, notes })
}

fn text<B: AsRef<[u8]>, E>(
    header: &Header,
    limits: &Limits,
    mut read: impl FnMut(Range<u64>) -> Result<B, E>,
) -> Result<String, CheckError<E>> {
    match header.metadata.len {
        0 => Ok(String::new()),
        len if len > limits.metadata_bytes => Err(CheckError::Metadata(DirectoryError::TooLarge)),
        _ => {
            let text = read(header.metadata.range()).map_err(CheckError::Read)?;
            metadata(text.as_ref(), header.internal, limits).map_err(CheckError::Metadata)
        }
    }
}

/// What was seen on the way.
#[derive(Default)]
struct Found {
    tiles: u64,
    entries: u64,
    leaves: u64,
    depth: usize,
    largest_tile: u32,
    /// The first and the last tile.
    ends: Option<(TileId, TileId)>,
    /// Where the next new content of a clustered pack begins.
    frontier: u64,
    scattered: bool,
}

impl Found {
    fn notes(&self, header: &Header) -> Vec<Note> {
        let mut notes = Vec::new();
        let wrong = |said, found| said != 0 && said != found;
        if wrong(header.addressed_tiles, self.tiles) {
            notes.push(Note::Tiles { said: header.addressed_tiles, found: self.tiles });
        }
        if wrong(header.tile_entries, self.entries) {
            notes.push(Note::Entries { said: header.tile_entries, found: self.entries });
        }
        let said = (header.min_zoom, header.max_zoom);
        let found = self.ends.map(|(first, last)| (first.zoom(), last.zoom()));
        if let Some(found) = found.filter(|found| *found != said) {
            notes.push(Note::Zooms { said, found });
        }
        if header.clustered && self.scattered {
            notes.push(Note::NotClustered);
        }
        notes
    }

    fn tile(&mut self, entry: Entry) {
        self.tiles += u64::from(entry.run);
        self.largest_tile = self.largest_tile.max(entry.len);
        let ends = TileId::new(entry.tile_id).zip(TileId::new(entry.tile_id + u64::from(entry.run) - 1));
        if let Some((first, last)) = ends {
            self.ends = Some((self.ends.map_or(first, |(first, _)| first), last));
        }
        self.scattered |= entry.offset > self.frontier;
        self.frontier = self.frontier.max(entry.offset + u64::from(entry.len));
    }
}

/// The way through all directories, in the order of their tiles.
struct Walk<'a, R> {
    header: &'a Header,
    limits: &'a Limits,
    read: &'a mut R,
    found: Found,
}

impl<'a, R> Walk<'a, R> {
    fn new(header: &'a Header, limits: &'a Limits, read: &'a mut R) -> Self {
        Self { header, limits, read, found: Found::default() }
    }

    /// Goes through a directory whose tiles all come before `end`. Recursion is as deep as the limits allow.
    fn directory<B, E>(&mut self, directory: &Directory, end: u64, depth: usize) -> Result<(), CheckError<E>>
    where
        B: AsRef<[u8]>,
        R: FnMut(Range<u64>) -> Result<B, E>,
    {
        self.found.depth = self.found.depth.max(depth);
        let entries = directory.entries();
        for (at, entry) in entries.iter().enumerate() {
            self.found.entries += u64::from(entry.run > 0);
            if self.found.entries + self.found.leaves > self.limits.entries {
                return Err(CheckError::TooManyEntries(self.limits.entries));
            }
            if entry.run > 0 {
                self.tile(*entry)?;
            } else {
                let next = entries.get(at + 1).map_or(end, |next| next.tile_id);
                self.leaf(*entry, next, depth)?;
            }
        }
        Ok(())
    }

    fn tile<E>(&mut self, entry: Entry) -> Result<(), CheckError<E>> {
        let (tile, len) = (entry.tile_id, entry.len);
        if self.header.tiles.inner(entry.offset, len.into()).is_none() {
            return Err(CheckError::TileOutside { tile });
        }
        if len > self.limits.tile_bytes {
            return Err(CheckError::TileTooLarge { tile, len });
        }
        self.found.tile(entry);
        Ok(())
    }

    fn leaf<B, E>(&mut self, entry: Entry, end: u64, depth: usize) -> Result<(), CheckError<E>>
    where
        B: AsRef<[u8]>,
        R: FnMut(Range<u64>) -> Result<B, E>,
    {
        let deepest = self.limits.depth.min(MAX_DEPTH);
        if depth >= deepest {
            return Err(CheckError::TooDeep(deepest));
        }
        let Some(range) = self.header.leaves.inner(entry.offset, entry.len.into()) else {
            return Err(CheckError::LeafOutside { tile: entry.tile_id });
        };
        let at = range.start;
        if u64::from(entry.len) > self.limits.directory_bytes {
            return Err(CheckError::Leaf { at, error: DirectoryError::TooLarge });
        }
        let bytes = (self.read)(range).map_err(CheckError::Read)?;
        let leaf = Directory::decode(bytes.as_ref(), self.header.internal, self.limits)
            .map_err(|error| CheckError::Leaf { at, error })?;
        drop(bytes);
        if !leaf.lies_within(entry.tile_id..end) {
            return Err(CheckError::Strays { at });
        }
        self.found.leaves += 1;
        self.directory(&leaf, end, depth + 1)
    }
}

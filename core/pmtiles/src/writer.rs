//! Making a pack: tiles in the order of their ids, equal ones stored once, directories as small as readers want them.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hasher},
    io::Write,
    ops::Range,
};

use decode::Coding;
use flate2::{Compression, write::GzEncoder};

use crate::{
    directory::{Directory, Entry},
    header::{HEADER_LEN, Header, ROOT_END, Section, TileType},
    tile_id::TileId,
};

/// How many entries a leaf directory has at least, once there are any.
const LEAF_ENTRIES: usize = 4096;

/// What a pack says about itself, besides what follows from its tiles.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The format of the tiles.
    pub tile_type: TileType,
    /// The content coding of the tiles; `None` if they are not compressed.
    pub tile_coding: Option<Coding>,
    /// West, south, east, north, in ten millionths of a degree.
    pub bounds: [i32; 4],
    /// The zoom to begin with.
    pub center_zoom: u8,
    /// Longitude and latitude to begin with, in ten millionths of a degree.
    pub center: [i32; 2],
    /// The metadata, as a JSON object.
    pub metadata: String,
}

impl Default for Settings {
    /// Plain PNG tiles of the whole world, as far as the Mercator projection reaches.
    fn default() -> Self {
        Self {
            tile_type: TileType::Png,
            tile_coding: Some(Coding::Identity),
            bounds: [-1_800_000_000, -850_511_287, 1_800_000_000, 850_511_287],
            center_zoom: 0,
            center: [0, 0],
            metadata: "{}".to_owned(),
        }
    }
}

/// Why a pack cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Tiles come in the order of their ids, each once.
    #[error("tile {0} comes after one with the same or a higher id")]
    Order(u64),
    /// A tile without bytes, or with more than an entry can say.
    #[error("tile {0} is empty or larger than 4 GiB")]
    Size(u64),
    /// A pack needs a tile.
    #[error("there are no tiles")]
    Empty,
    /// What the settings say makes no header.
    #[error("the header would be refused: {0}")]
    Settings(#[from] crate::header::HeaderError),
}

/// Makes a pack in memory.
#[derive(Debug)]
pub struct Writer {
    settings: Settings,
    entries: Vec<Entry>,
    tiles: Vec<u8>,
    /// Where contents are, by their hashes. Of two with the same hash the first is known: the other is stored again.
    known: BTreeMap<u64, Range<usize>>,
    addressed: u64,
    contents: u64,
}

impl Writer {
    /// A pack without tiles.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let (entries, tiles, known) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { settings, entries, tiles, known, addressed: 0, contents: 0 }
    }

    /// Adds a tile as it is to be stored.
    ///
    /// # Errors
    /// [`WriteError`] if it is out of order, empty or far too large. Nothing was added then.
    pub fn push(&mut self, tile: TileId, content: &[u8]) -> Result<(), WriteError> {
        let tile_id = tile.number();
        let len =
            u32::try_from(content.len()).ok().filter(|len| *len > 0).ok_or(WriteError::Size(tile_id))?;
        let free = self.entries.last().map_or(0, |last| last.tile_id + u64::from(last.run));
        if tile_id < free {
            return Err(WriteError::Order(tile_id));
        }
        self.addressed += 1;
        let offset = self.store(content);
        if let Some(last) = self.entries.last_mut()
            && (tile_id, offset, len) == (free, last.offset, last.len)
            && last.run < u32::MAX
        {
            last.run += 1;
            return Ok(());
        }
        self.entries.push(Entry { tile_id, offset, len, run: 1 });
        Ok(())
    }

    /// The whole pack: header, root directory, metadata, leaf directories, tiles.
    ///
    /// # Errors
    /// [`WriteError`] if there are no tiles, or if the settings are refused.
    pub fn finish(self) -> Result<Vec<u8>, WriteError> {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else {
            return Err(WriteError::Empty);
        };
        let zoom = |number| TileId::new(number).map_or(0, TileId::zoom);
        let (min_zoom, max_zoom) = (zoom(first.tile_id), zoom(last.tile_id + u64::from(last.run) - 1));
        let (root, leaves) = directories(&self.entries);
        let metadata = gzip(self.settings.metadata.as_bytes());
        let mut end = HEADER_LEN as u64;
        let mut section = |bytes: &[u8]| {
            let section = Section { offset: end, len: bytes.len() as u64 };
            end += section.len;
            section
        };
        let header = Header {
            root: section(&root),
            metadata: section(&metadata),
            leaves: section(&leaves),
            tiles: section(&self.tiles),
            addressed_tiles: self.addressed,
            tile_entries: self.entries.len() as u64,
            tile_contents: self.contents,
            clustered: true,
            internal: Coding::Gzip,
            tile_coding: self.settings.tile_coding,
            tile_type: self.settings.tile_type,
            min_zoom,
            max_zoom,
            bounds: self.settings.bounds,
            center_zoom: self.settings.center_zoom,
            center: self.settings.center,
        };
        let encoded = header.encode();
        Header::parse(&encoded)?;
        Ok([&encoded[..], &root, &metadata, &leaves, &self.tiles].concat())
    }

    /// Where the content is, from now on.
    fn store(&mut self, content: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        let hash = hasher.finish();
        if let Some(known) = self.known.get(&hash)
            && self.tiles[known.clone()] == *content
        {
            return known.start as u64;
        }
        let start = self.tiles.len();
        self.tiles.extend_from_slice(content);
        self.known.entry(hash).or_insert(start..self.tiles.len());
        self.contents += 1;
        start as u64
    }
}

/// The root and the leaves, compressed. All entries are in the root if it has room for them, else none is.
fn directories(entries: &[Entry]) -> (Vec<u8>, Vec<u8>) {
    let room = usize::try_from(ROOT_END).unwrap_or(usize::MAX) - HEADER_LEN;
    let root = gzip(&Directory::encode(entries));
    if root.len() <= room {
        return (root, Vec::new());
    }
    let mut size = LEAF_ENTRIES;
    loop {
        let (root, leaves) = split(entries, size);
        // With one leaf the root has one entry, so this ends.
        if root.len() <= room {
            return (root, leaves);
        }
        size += size / 5;
    }
}

/// Leaves of `size` entries each, and the root that knows them.
fn split(entries: &[Entry], size: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut root, mut leaves) = (Vec::new(), Vec::new());
    for part in entries.chunks(size) {
        let leaf = gzip(&Directory::encode(part));
        let len = u32::try_from(leaf.len()).expect("a leaf is far smaller than 4 GiB");
        root.push(Entry { tile_id: part[0].tile_id, offset: leaves.len() as u64, len, run: 0 });
        leaves.extend_from_slice(&leaf);
    }
    (gzip(&Directory::encode(&root)), leaves)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes all bytes");
    encoder.finish().expect("memory takes all bytes")
}

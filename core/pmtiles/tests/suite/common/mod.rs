//! Packs made by hand, so that they can be wrong, and reading them from memory.

#![expect(clippy::unwrap_used, reason = "tests: a failure may panic")]

use std::{collections::BTreeMap, convert::Infallible, io::Write, ops::Range, sync::Arc};

use decode::Coding;
use flate2::{Compression, write::GzEncoder};
use pmtiles::{
    CheckError, Checked, Directory, DirectoryError, Entry, Header, Limits, Section, TileId, TileType, find,
};

/// The parts of a pack, to be put together as they are.
pub(crate) struct Parts {
    pub(crate) header: Header,
    pub(crate) root: Vec<u8>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) leaves: Vec<u8>,
    pub(crate) tiles: Vec<u8>,
}

impl Parts {
    /// A sound pack with this root, ten bytes of tiles, and nothing compressed.
    pub(crate) fn with_root(root: &[Entry]) -> Self {
        let none = Section::default();
        let header = Header {
            root: none,
            metadata: none,
            leaves: none,
            tiles: none,
            addressed_tiles: 0,
            tile_entries: 0,
            tile_contents: 0,
            clustered: false,
            internal: Coding::Identity,
            tile_coding: Some(Coding::Identity),
            tile_type: TileType::Png,
            min_zoom: 0,
            max_zoom: 4,
            bounds: [-1_800_000_000, -850_511_287, 1_800_000_000, 850_511_287],
            center_zoom: 0,
            center: [0, 0],
        };
        let (root, metadata) = (Directory::encode(root), b"{}".to_vec());
        Self { header, root, metadata, leaves: Vec::new(), tiles: b"0123456789".to_vec() }
    }

    /// The header, with the sections where they will be.
    pub(crate) fn placed(&self) -> Header {
        let mut end = 127;
        let mut place = |bytes: &[u8]| {
            let section = Section { offset: end, len: bytes.len() as u64 };
            end += section.len;
            section
        };
        let mut header = self.header.clone();
        header.root = place(&self.root);
        header.metadata = place(&self.metadata);
        header.leaves = place(&self.leaves);
        header.tiles = place(&self.tiles);
        header
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.under(&self.placed())
    }

    /// The same parts under another header.
    pub(crate) fn under(&self, header: &Header) -> Vec<u8> {
        [&header.encode()[..], &self.root, &self.metadata, &self.leaves, &self.tiles].concat()
    }
}

pub(crate) const fn tile(tile_id: u64, offset: u64, len: u32, run: u32) -> Entry {
    Entry { tile_id, offset, len, run }
}

pub(crate) const fn leaf(tile_id: u64, offset: u64, len: u32) -> Entry {
    Entry { tile_id, offset, len, run: 0 }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn id(number: u64) -> TileId {
    TileId::new(number).unwrap()
}

pub(crate) fn slice(pack: &[u8], range: Range<u64>) -> Option<&[u8]> {
    pack.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

/// Checks a pack that is in memory. Whoever reads outside of it panics.
pub(crate) fn check(pack: &[u8]) -> Result<Checked, CheckError<Infallible>> {
    check_within(pack, &Limits::default())
}

pub(crate) fn check_within(pack: &[u8], limits: &Limits) -> Result<Checked, CheckError<Infallible>> {
    pmtiles::check(pack.len() as u64, limits, |range| {
        Ok(slice(pack, range.clone()).unwrap_or_else(|| panic!("{range:?} is read")))
    })
}

/// The content of a tile, as a reader finds it.
pub(crate) fn content(pack: &[u8], checked: &Checked, tile: TileId) -> Option<Vec<u8>> {
    Reader { pack, checked, leaves: BTreeMap::new() }.content(tile)
}

/// All tiles of a pack that was checked, by their ids.
pub(crate) fn all_tiles(pack: &[u8], checked: &Checked) -> BTreeMap<u64, Vec<u8>> {
    let mut reader = Reader { pack, checked, leaves: BTreeMap::new() };
    let mut tiles = BTreeMap::new();
    reader.collect(&checked.root, &mut tiles);
    tiles
}

/// Reads tiles, and decodes each leaf once.
struct Reader<'a> {
    pack: &'a [u8],
    checked: &'a Checked,
    leaves: BTreeMap<u64, Arc<Directory>>,
}

impl Reader<'_> {
    fn leaf(&mut self, range: Range<u64>) -> Arc<Directory> {
        let (pack, coding) = (self.pack, self.checked.header.internal);
        let decode = || Directory::decode(slice(pack, range.clone()).unwrap(), coding, &Limits::default());
        Arc::clone(self.leaves.entry(range.start).or_insert_with(|| Arc::new(decode().unwrap())))
    }

    fn content(&mut self, tile: TileId) -> Option<Vec<u8>> {
        let (pack, checked) = (self.pack, self.checked);
        let leaf = |range| Ok(self.leaf(range));
        let found: Result<_, DirectoryError> = find(&checked.header, &checked.root, tile, leaf);
        found.unwrap().map(|range| slice(pack, range).unwrap().to_vec())
    }

    fn collect(&mut self, directory: &Directory, tiles: &mut BTreeMap<u64, Vec<u8>>) {
        for entry in directory.entries() {
            if entry.run == 0 {
                let range = self.checked.header.leaves.inner(entry.offset, entry.len.into());
                let leaf = self.leaf(range.unwrap());
                self.collect(&leaf, tiles);
            }
            for number in entry.tile_id..entry.tile_id + u64::from(entry.run) {
                let content = self.content(id(number));
                assert!(tiles.insert(number, content.unwrap()).is_none(), "{number} is there twice");
            }
        }
    }
}

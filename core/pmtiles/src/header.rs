//! The header: the first 127 bytes of a pack, which say where everything else is.

use std::{fmt, ops::Range};

use decode::Coding;

use crate::{layout, tile_id::MAX_ZOOM};

/// The length of a header.
pub const HEADER_LEN: usize = 127;

/// Where the root directory ends at the latest, so that one read of a pack's beginning has it.
pub const ROOT_END: u64 = 16 * 1024;

/// A part of a pack's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Where it begins, from the start of the file.
    pub offset: u64,
    /// Length of the section in bytes.
    pub len: u64,
}

impl Section {
    /// The bytes it is made of.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        // A header whose sections overflow is refused when it is parsed; one made by hand ends at the end of all.
        self.offset..self.offset.saturating_add(self.len)
    }

    /// The part of the file that is `len` bytes at `offset` of this section, if it lies inside.
    #[must_use]
    pub fn inner(&self, offset: u64, len: u64) -> Option<Range<u64>> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len)?;
        Some(self.offset.checked_add(offset)?..self.offset.checked_add(end)?)
    }
}

/// The name of a [`Section`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The root directory of the pack.
    Root,
    /// The JSON metadata of the pack.
    Metadata,
    /// The leaf directories of the pack.
    Leaves,
    /// The tile data of the pack.
    Tiles,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root directory",
            Self::Metadata => "metadata",
            Self::Leaves => "leaf directories",
            Self::Tiles => "tile data",
        })
    }
}

/// What the tiles of a pack are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TileType {
    /// Not said, or something newer than this program.
    Other(u8),
    /// Mapbox Vector Tiles.
    Mvt,
    /// Tiles are PNG images.
    #[default]
    Png,
    /// Tiles are JPEG images.
    Jpeg,
    /// Tiles are WebP images.
    Webp,
    /// Tiles are AVIF images.
    Avif,
    /// Tiles are MapLibre Tiles.
    Mlt,
}

/// The header of a pack. Every field is as in the file; angles are in ten millionths of a degree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Position of the root directory.
    pub root: Section,
    /// Position of the JSON metadata.
    pub metadata: Section,
    /// Position of the leaf directories.
    pub leaves: Section,
    /// Position of the tile data.
    pub tiles: Section,
    /// Tiles that can be asked for; 0 if not known.
    pub addressed_tiles: u64,
    /// Entries of all directories that lead to tiles; 0 if not known.
    pub tile_entries: u64,
    /// Tiles that differ from each other; 0 if not known.
    pub tile_contents: u64,
    /// Whether tiles are stored in the order of their ids.
    pub clustered: bool,
    /// The coding of directories and metadata.
    pub internal: Coding,
    /// The coding of tiles, if the pack says so.
    pub tile_coding: Option<Coding>,
    /// The format of the tiles.
    pub tile_type: TileType,
    /// The lowest zoom level.
    pub min_zoom: u8,
    /// The highest zoom, at most [`MAX_ZOOM`].
    pub max_zoom: u8,
    /// West, south, east, north.
    pub bounds: [i32; 4],
    /// The zoom to begin with.
    pub center_zoom: u8,
    /// Longitude and latitude to begin with.
    pub center: [i32; 2],
}

/// The reason why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    #[error("{0} bytes are too few for a PMTiles header, which has {HEADER_LEN}")]
    Short(usize),
    /// The file does not begin with the magic number.
    #[error("it does not begin with \"PMTiles\"")]
    Magic,
    /// The version is not 3.
    #[error("it is PMTiles version {0}, and only version 3 is read")]
    Version(u8),
    /// A coding for directories or tiles that has no meaning.
    #[error("compression {0} means nothing in PMTiles version 3")]
    Compression(u8),
    /// Directories cannot be read if their coding is not known.
    #[error("it does not say how its directories are compressed")]
    InternalUnknown,
    /// Neither true nor false.
    #[error("the clustered flag is {0}, neither 0 nor 1")]
    Clustered(u8),
    /// Zooms that are not in order or beyond all tiles.
    #[error("zooms {min} to {max}, centre {center} are not a range up to {MAX_ZOOM}")]
    Zooms {
        /// The lowest zoom level.
        min: u8,
        /// The highest zoom level.
        max: u8,
        /// That of the centre.
        center: u8,
    },
    /// Bounds that are no part of the world.
    #[error(
        "the bounds or the centre are not on this planet, or west and east or south and north are swapped"
    )]
    Bounds,
    /// The root directory is not where readers look for it.
    #[error("the root directory is empty or not inside the first {ROOT_END} bytes behind the header")]
    Root,
    /// A section that the file does not have.
    #[error(
        "the {part} ({len} bytes at {offset}) would end beyond the end of the file ({file} bytes): it is cut short or damaged"
    )]
    Outside {
        /// The section that is out of bounds.
        part: Part,
        /// Offset of the section in the file.
        offset: u64,
        /// Length of the section in bytes.
        len: u64,
        /// The bytes of the file.
        file: u64,
    },
}

impl Header {
    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`HeaderError`] for the first thing that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(HeaderError::Short(bytes.len()));
        };
        let header = layout::read(bytes)?;
        header.judge()?;
        Ok(header)
    }

    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        layout::write(self)
    }

    /// Judges whether all sections lie inside a file of `len` bytes.
    ///
    /// # Errors
    /// [`HeaderError::Outside`] for the first that does not.
    pub fn fits(&self, len: u64) -> Result<(), HeaderError> {
        let whole = Section { offset: 0, len };
        for (part, section) in self.sections() {
            if section.len > 0 && whole.inner(section.offset, section.len).is_none() {
                let Section { offset, len: wanted } = section;
                return Err(HeaderError::Outside { part, offset, len: wanted, file: len });
            }
        }
        Ok(())
    }

    fn sections(&self) -> [(Part, Section); 4] {
        [
            (Part::Root, self.root),
            (Part::Metadata, self.metadata),
            (Part::Leaves, self.leaves),
            (Part::Tiles, self.tiles),
        ]
    }

    fn judge(&self) -> Result<(), HeaderError> {
        let (min, max, center) = (self.min_zoom, self.max_zoom, self.center_zoom);
        if min > max || max > MAX_ZOOM || center > MAX_ZOOM {
            return Err(HeaderError::Zooms { min, max, center });
        }
        let [west, south, east, north] = self.bounds;
        let [lon, lat] = self.center;
        let on_the_map = [west, east, lon].iter().all(|angle| angle.unsigned_abs() <= 1_800_000_000)
            && [south, north, lat].iter().all(|angle| angle.unsigned_abs() <= 900_000_000);
        if !on_the_map || west > east || south > north {
            return Err(HeaderError::Bounds);
        }
        self.fits(u64::MAX)?;
        let root = self.root.range();
        if root.is_empty() || root.start < HEADER_LEN as u64 || root.end > ROOT_END {
            return Err(HeaderError::Root);
        }
        Ok(())
    }
}

impl TileType {
    /// What a server says the tiles are.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Other(_) => "application/octet-stream",
            Self::Mvt => "application/vnd.mapbox-vector-tile",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Avif => "image/avif",
            Self::Mlt => "application/vnd.maplibre-vector-tile",
        }
    }

    /// The usual extension of such a tile's name, and its name in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other(_) => "bin",
            Self::Mvt => "mvt",
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Webp => "webp",
            Self::Avif => "avif",
            Self::Mlt => "mlt",
        }
    }
}

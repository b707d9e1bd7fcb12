//! PMTiles version 3: packs of map tiles in one file, read within bounds and written.
//!
//! A pack comes from anywhere, and its directories are compressed: a few bytes can claim gigabytes, lead in circles, or
//! point outside of the file. So everything here is decoded within [`Limits`], offsets are checked where they are read,
//! and what breaks a rule is an error that says which. Nothing is read from a file: callers pass bytes, or a closure that
//! gets them.
//!
//! * [`Header`]: the first 127 bytes, and whether its sections lie inside the file.
//! * [`TileId`] and [`Coord`]: a tile's place on the Hilbert curve, and its zoom, column and row.
//! * [`Directory`]: entries by tile id; [`find`] follows them from the root to a tile's bytes.
//! * [`check`]: walks all directories once; a pack that passes has no entry that leads outside.
//! * [`Writer`]: makes a pack, clustered and deduplicated.
//!
//! ```
//! use pmtiles::{Coord, Directory, Header, Limits, Settings, Writer, find};
//!
//! let mut writer = Writer::new(Settings::default());
//! writer.push(Coord::new(0, 0, 0).expect("the world").id(), b"a tile")?;
//! let pack = writer.finish()?;
//!
//! let at = |range: std::ops::Range<u64>| &pack[range.start as usize..range.end as usize];
//! let header = Header::parse(&pack)?;
//! let limits = Limits::default();
//! let root = Directory::decode(at(header.root.range()), header.internal, &limits)?;
//! let leaf = |range| Directory::decode(at(range), header.internal, &limits);
//! let found = find(&header, &root, Coord::new(0, 0, 0).expect("the world").id(), leaf)?;
//! assert_eq!(found.map(at), Some(&b"a tile"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod checked;
mod directory;
mod find;
mod header;
mod inflate;
mod layout;
mod limits;
mod tile_id;
mod varint;
mod writer;

pub use check::check;
pub use checked::{CheckError, Checked, Note};
pub use directory::{Directory, DirectoryError, Entry, Target};
pub use find::find;
pub use header::{HEADER_LEN, Header, HeaderError, Part, ROOT_END, Section, TileType};
pub use inflate::metadata;
pub use limits::Limits;
pub use tile_id::{Coord, MAX_ZOOM, TileId};
pub use writer::{Settings, WriteError, Writer};

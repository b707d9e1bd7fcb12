//! Packs of map tiles, PMTiles or MBTiles, from which no wrong byte is ever read.
//!
//! [`Pack::mount`] checks a file once and completely; from then on every tile is compared with what was mounted. A
//! file that is damaged, truncated or modified gives errors, never other tiles.
//!
//! * A PMTiles pack is hashed into a tree at mount, every directory and every entry is checked, and each read verifies the
//!   groups that it takes from the file.
//! * An MBTiles pack is a database, which is opened read-only, with everything switched off that a hostile one could use.
//!   At mount each tile is read and its hash is kept; each read is compared with that.
//!
//! **Everything here blocks.** Callers on a runtime use the kernel's blocking pool.
//!
//! What a mount costs in memory: 32 bytes per 16 KiB of file, 40 bytes per tile of an MBTiles pack, and the cache of
//! directories of a PMTiles pack ([`Limits::directory_cache`]).

#![expect(clippy::disallowed_methods, reason = "this crate blocks: callers use the kernel's blocking pool")]

mod error;
mod info;
mod mbtiles;
mod mount;
mod options;
mod outboard;
mod pack;
mod pmtiles_pack;
mod signature;
mod sniff;
mod stamp;

pub use error::{MbtilesError, MountError, PackError};
pub use info::{Format, PackInfo, Tile};
pub use options::{Limits, MountOptions, Progress, Stage};
pub use pack::Pack;
pub use pmtiles::{Coord, TileType};
pub use signature::{InvalidKey, PublicKey, SignatureError, signed_text};
pub use stamp::FileState;

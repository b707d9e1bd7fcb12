//! Content-addressed storage that never returns a wrong byte: objects by their BLAKE3 hash, on disk or in memory,
//! within a size limit and with LRU eviction; a RAM tier for hot objects; and an index of the URLs that objects
//! came from.
//!
//! **Everything here blocks.** Callers on a runtime use the kernel's blocking pool, except for [`Hot::get`] and
//! [`Cas::contains`], which are lookups in memory.
//!
//! ```
//! use cas::{Cas, Limits};
//!
//! let cas = Cas::in_memory(Limits::default());
//! let mut writer = cas.begin()?;
//! writer.write(b"hello, ")?;
//! writer.write(b"world")?;
//! let id = writer.commit()?.id;
//! let object = cas.open(id)?.expect("just written");
//! assert_eq!(object.read(7..12)?, "world");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * [`Verified`] is a file with its hash tree, stored here or not: everything that is read from it is verified
//!   first.
//! * [`Cas`] stores objects: [`Cas::begin`] a [`Writer`], [`Cas::open`], [`Cas::quarantine`], [`Cas::scrub`].
//! * [`Tail`] reads an object while it is being written.
//! * [`Hot`] keeps whole objects in RAM, checked once when they are loaded.
//! * [`UrlIndex`] stores metadata of URLs, across restarts and crashes.
//! * [`RecordLog`] stores records of any kind in their order, each with a checksum.

mod backend;
mod files;
mod hot;
mod index;
mod memory;
mod record_log;
mod scrub;
mod shared;
mod store;
mod tail;
mod url_index;
mod verified;
mod writer;

pub use files::OpenError;
pub use hot::{Hot, HotStat};
pub use record_log::{LogEnd, LogError, RecordLog};
pub use scrub::{ScrubProgress, ScrubReport};
pub use store::{Cas, Fate, Limits, Stat};
pub use tail::Tail;
pub use url_index::{Change, IndexError, Start, UrlIndex, UrlRow};
pub use verified::{BuildError, ReadError, Verified};
pub use writer::{Committed, WriteError, Writer};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bytes that are read or hashed at once: large enough for the disk, small enough to be stopped soon.
const PIECE_LEN: usize = 1024 * 1024;

/// What a panic left is still right: nothing behind these locks is changed in steps that a panic could cut in half.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

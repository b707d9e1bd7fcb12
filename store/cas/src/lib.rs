//! Objects by the hash of their bytes, so that no wrong byte is ever read: on disk or in memory, within a cap, with
//! what was not used for longest making room; a tier in RAM for what is hot; and an index of the URLs objects came from.
//!
//! **Everything here blocks.** Callers on a runtime use the kernel's blocking pool, but for [`Hot::get`] and
//! [`Cas::contains`], which are look-ups in memory.
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
//! * [`Verified`] is anything with a tree of hashes, stored here or not: whatever is read from it is checked first.
//! * [`Cas`] stores objects: [`Cas::begin`] a [`Writer`], [`Cas::open`], [`Cas::quarantine`], [`Cas::scrub`].
//! * [`Tail`] reads an object while it is being written.
//! * [`Hot`] keeps whole objects in RAM, checked once when they are loaded.
//! * [`UrlIndex`] keeps what is known of URLs, across restarts and crashes.
//! * [`RecordLog`] keeps records of any kind in their order, each of them sealed.

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

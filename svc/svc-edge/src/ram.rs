//! What is hot: answers that need no disk, kept in RAM up to a number of bytes.

use std::{hash::Hash, sync::Arc};

use quick_cache::{
    DefaultHashBuilder, Equivalent, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};
use types::Moment;

use crate::{
    assets::{FileRecord, Unsettled},
    packs::Mounted,
    serve::{Representation, Source},
};

/// What an entry costs besides its bytes: its fields, its key, its place.
const OVERHEAD: u64 = 512;
/// What an open file counts as, so that there are not too many of them.
const OPEN_FILE: u64 = 64 * 1024;
/// The size that most entries are about; a guess, to size tables by.
const USUAL: u64 = 8 * 1024;
/// The largest entry there usually is: a file that is kept as a whole.
const LARGEST: u64 = 1024 * 1024 + OVERHEAD;
/// RAM for the trees of large files, which take a five hundredth of their length, and for keeping them open.
const TREES: u64 = 64 * 1024 * 1024;
/// Enough that cores seldom meet in one.
const SHARDS_MAX: u64 = 64;

/// What a path names, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Variant {
    /// A file of a root.
    File,
    /// A tile as it is stored.
    Tile,
    /// A tile decoded for a client that does not take the stored coding.
    TileDecoded,
}

/// An answer that is ready, and until when it holds.
#[derive(Debug)]
pub(crate) struct Ready {
    /// `None` says that there is nothing at this path.
    pub(crate) representation: Option<Representation>,
    /// The same in content codings, the shortest first. All of them are in RAM if the representation is.
    pub(crate) coded: Box<[Representation]>,
    pub(crate) of: Of,
}

/// The object that a cached response belongs to.
#[derive(Debug)]
pub(crate) enum Of {
    /// A tile, or a raw pack: holds while this generation of the pack is the one that is served.
    Pack(Arc<Mounted>),
    /// A file of a root: holds for a while after it was last looked at.
    File(Arc<FileRecord>),
}

impl Ready {
    /// Whether it can be served at this moment without another look. Whoever is told no for a file has to look at it.
    pub(crate) fn holds(&self, now: Moment) -> bool {
        match &self.of {
            Of::Pack(mounted) => mounted.is_served(),
            Of::File(record) => record.is_fresh(now),
        }
    }

    /// Hears that a look at a file, which was due, did not take place.
    pub(crate) fn not_looked_at(&self) {
        if let Of::File(record) = &self.of {
            record.not_looked_at();
        }
    }

    /// What has to be done for a file that was written a moment ago; `None` for all else.
    pub(crate) fn unsettled(&self) -> Option<Unsettled> {
        match &self.of {
            Of::Pack(_) => None,
            Of::File(record) => record.unsettled(),
        }
    }

    /// Whether it can be served without a look at a disk.
    pub(crate) fn is_in_ram(&self) -> bool {
        let source = self.representation.as_ref().map(|representation| &representation.source);
        !matches!(source, Some(Source::Disk { .. } | Source::Growing(_)))
    }

    fn weight(&self) -> u64 {
        let weight = |of: &Representation| match &of.source {
            Source::Ram(bytes) => bytes.len() as u64,
            Source::Disk { verified, .. } => OPEN_FILE + 32 * verified.tree().groups(),
            Source::Growing(_) => OPEN_FILE,
        };
        OVERHEAD + self.representation.iter().chain(&self.coded).map(weight).sum::<u64>()
    }
}

/// The RAM tier of tiles and files.
#[derive(Debug)]
pub(crate) struct Ram {
    /// Whether anything is kept: the library keeps the last entry however small its cap is.
    is_on: bool,
    /// Answers whose bytes are here.
    hot: Cache<Key, Arc<Ready>, Weigh>,
    /// Large files, of which only the tree is here: without it they would have to be hashed again for each request.
    large: Cache<Key, Arc<Ready>, Weigh>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    variant: Variant,
    path: Box<str>,
}

/// A key that borrows its path, so that looking it up allocates nothing. It hashes as the key does.
#[derive(Hash)]
struct KeyRef<'a> {
    variant: Variant,
    path: &'a str,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.variant == key.variant && *self.path == *key.path
    }
}

#[derive(Clone, Debug)]
struct Weigh;

impl Weighter<Key, Arc<Ready>> for Weigh {
    fn weight(&self, key: &Key, ready: &Arc<Ready>) -> u64 {
        key.path.len() as u64 + ready.weight()
    }
}

impl Ram {
    /// An empty tier of at most `bytes`, none at all with 0; and of the trees of large files.
    pub(crate) fn new(bytes: u64) -> Self {
        // Each shard has its own lock and its own part of the cap, into which several of the largest have to fit.
        let shards = (bytes / (8 * LARGEST)).clamp(1, SHARDS_MAX);
        Self { is_on: bytes > 0, hot: cache(bytes, 1 << shards.ilog2()), large: cache(TREES, 1) }
    }

    /// What is kept for a path, fresh or not.
    pub(crate) fn get(&self, variant: Variant, path: &str) -> Option<Arc<Ready>> {
        let key = KeyRef { variant, path };
        self.hot.get(&key).or_else(|| if variant == Variant::File { self.large.get(&key) } else { None })
    }

    /// Keeps an answer, if it is worth it.
    pub(crate) fn put(&self, variant: Variant, path: &str, ready: Arc<Ready>) {
        // What was there may have been of the other kind.
        self.forget(variant, path);
        let key = Key { variant, path: path.into() };
        if !ready.is_in_ram() {
            self.large.insert(key, ready);
        } else if self.is_on {
            self.hot.insert(key, ready);
        }
    }

    /// Forgets what is kept for a path.
    pub(crate) fn forget(&self, variant: Variant, path: &str) {
        let key = KeyRef { variant, path };
        self.hot.remove(&key);
        self.large.remove(&key);
    }

    /// Returns the total size of the cached responses in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.hot.weight() + self.large.weight()
    }

    /// How many bytes it may hold, trees of large files among them.
    pub(crate) fn limit(&self) -> u64 {
        self.hot.capacity() + self.large.capacity()
    }

    /// Returns the number of cached responses.
    pub(crate) fn entries(&self) -> usize {
        self.hot.len() + self.large.len()
    }
}

fn cache(bytes: u64, shards: u64) -> Cache<Key, Arc<Ready>, Weigh> {
    let options = OptionsBuilder::new()
        .shards(usize::try_from(shards).unwrap_or(1))
        .estimated_items_capacity(usize::try_from(bytes / USUAL).unwrap_or(usize::MAX).max(1))
        .weight_capacity(bytes)
        .build()
        .expect("both capacities are set");
    Cache::with_options(options, Weigh, DefaultHashBuilder::default(), DefaultLifecycle::default())
}

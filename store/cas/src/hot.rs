//! The RAM tier: whole objects that are asked for often, checked once when they are loaded.

use bytes::Bytes;
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};
use types::ObjectId;

use crate::verified::{ReadError, Verified};

/// What an object takes besides its bytes, about: its name, its place in the map and its allocation.
const OVERHEAD: u64 = 128;

/// The most shards: enough that cores seldom meet in one.
const SHARDS_MAX: u64 = 64;

/// The largest objects that each shard has room for, at least.
const ROOM_PER_SHARD: u64 = 8;

/// The length of an object, for a guess at how many there will be.
const USUAL_LEN: u64 = 16 * 1024;

/// Objects in RAM, within a cap. Look-ups from several cores at once do not wait for each other; what is not asked for
/// again makes room first, so that a walk through everything does not push out what is hot.
#[derive(Debug)]
pub struct Hot {
    objects: Cache<ObjectId, Bytes, ByLength>,
    max_object: u64,
    max_bytes: u64,
}

/// What is in the RAM tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotStat {
    /// Number of objects in RAM.
    pub objects: u64,
    /// The memory in use, in bytes.
    pub taken_bytes: u64,
    /// The memory limit, in bytes.
    pub max_bytes: u64,
}

#[derive(Clone, Debug)]
struct ByLength;

impl Weighter<ObjectId, Bytes> for ByLength {
    fn weight(&self, _: &ObjectId, bytes: &Bytes) -> u64 {
        bytes.len() as u64 + OVERHEAD
    }
}

impl Hot {
    /// An empty tier of at most `max_bytes`, for objects of at most `max_object` bytes. Without room for a few of the
    /// largest, the largest are smaller; without room, nothing is kept.
    #[must_use]
    pub fn new(max_bytes: u64, max_object: u64) -> Self {
        // Each shard has its own lock and its own part of the cap, into which the largest object has to fit.
        let part = max_object.saturating_add(OVERHEAD).saturating_mul(ROOM_PER_SHARD);
        let shards = (max_bytes / part).clamp(1, SHARDS_MAX);
        let shards = 1 << shards.ilog2();
        let part = max_bytes / shards;
        let options = OptionsBuilder::new()
            .shards(usize::try_from(shards).unwrap_or(1))
            .estimated_items_capacity(usize::try_from(max_bytes / USUAL_LEN).unwrap_or(usize::MAX))
            .weight_capacity(part * shards)
            .build()
            .expect("both capacities are set");
        Self {
            objects: Cache::with_options(
                options,
                ByLength,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            max_object: max_object.min((part / 2).saturating_sub(OVERHEAD)),
            max_bytes,
        }
    }

    /// An object's bytes, if they are here. Never blocks for long and allocates nothing.
    #[must_use]
    pub fn get(&self, id: &ObjectId) -> Option<Bytes> {
        self.objects.get(id)
    }

    /// Whether an object of this length would be kept.
    #[must_use]
    pub fn admits(&self, len: u64) -> bool {
        len <= self.max_object
    }

    /// Reads a whole object, checking it, and keeps it; [`None`] if it is too large for that. Blocking.
    ///
    /// # Errors
    /// [`ReadError`], with nothing kept.
    pub fn load(&self, object: &Verified) -> Result<Option<Bytes>, ReadError> {
        if !self.admits(object.len()) {
            return Ok(None);
        }
        let bytes = object.read_all()?;
        self.objects.insert(object.id(), bytes.clone());
        Ok(Some(bytes))
    }

    /// Keeps bytes that the caller has checked to be this object's; says whether it does. They are copied, because a
    /// part of a larger buffer would keep all of it.
    pub fn keep(&self, id: ObjectId, bytes: &[u8]) -> bool {
        debug_assert_eq!(blake3::hash(bytes).as_bytes(), id.as_bytes(), "the caller has checked it");
        let admitted = self.admits(bytes.len() as u64);
        if admitted {
            self.objects.insert(id, Bytes::copy_from_slice(bytes));
        }
        admitted
    }

    /// Lets go of an object.
    pub fn remove(&self, id: &ObjectId) {
        self.objects.remove(id);
    }

    /// Lets go of everything.
    pub fn clear(&self) {
        self.objects.clear();
    }

    /// Returns the current number of objects and their size.
    #[must_use]
    pub fn stat(&self) -> HotStat {
        HotStat {
            objects: self.objects.len() as u64,
            taken_bytes: self.objects.weight(),
            max_bytes: self.max_bytes,
        }
    }
}

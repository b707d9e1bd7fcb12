//! A [`Book`] for many threads: several of them, each behind a lock that is held for one lookup.

use std::{
    hash::{BuildHasher, Hash},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use types::Moment;

use crate::book::{Book, Forgettable, Full};

/// Enough for threads on as many cores as there are to rarely meet; a power of two.
const SHARDS: usize = 16;

/// The least room of a shard: a smaller one would be full by bad luck alone.
const MIN_SHARE: usize = 64;

/// Books under one roof. Keys are spread by their hash, and each book has its share of the capacity, so one may be full a
/// little before all are.
#[derive(Debug)]
pub struct ShardedBook<K, V, S> {
    shards: Box<[Mutex<Book<K, V, S>>]>,
    hasher: S,
}

impl<K, V, S> ShardedBook<K, V, S>
where
    K: Clone + Eq + Hash,
    V: Forgettable,
    S: BuildHasher + Clone,
{
    /// An empty book for at most `capacity` entries in all.
    #[must_use]
    pub fn new(capacity: usize, hasher: S) -> Self {
        let shards = if capacity < SHARDS * MIN_SHARE { 1 } else { SHARDS };
        let share = |shard| capacity / shards + usize::from(shard < capacity % shards);
        let book = |shard| Mutex::new(Book::new(share(shard), hasher.clone()));
        Self { shards: (0..shards).map(book).collect(), hasher }
    }

    /// The entry of `key`, if there is one.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        self.shard(key).get(key)
    }

    /// The entry of `key`, made by `make` if there was none; see [`Book::get_or_insert`].
    ///
    /// # Errors
    /// [`Full`] if there is no room, and nothing to forget among the entries looked at.
    pub fn get_or_insert(&self, key: &K, now: Moment, make: impl FnOnce() -> V) -> Result<Arc<V>, Full> {
        self.shard(key).get_or_insert(key, now, make)
    }

    /// Shows every entry, one book after the other; each is locked meanwhile.
    pub fn visit(&self, mut see: impl FnMut(&K, &V)) {
        self.shards.iter().for_each(|shard| lock(shard).visit(&mut see));
    }

    /// How many entries there are. Locks the books one after the other, so it is a snapshot of none of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Returns true if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of entries.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).capacity()).sum()
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Book<K, V, S>> {
        // The map inside looks at the highest and the lowest bits of the same hash: these are independent of both.
        let [.., high, low, _, _] = self.hasher.hash_one(key).to_be_bytes();
        let bits = usize::from(u16::from_be_bytes([high, low]));
        lock(&self.shards[bits % self.shards.len()])
    }
}

/// A panic in `make` leaves a book without the new entry, and otherwise whole.
fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

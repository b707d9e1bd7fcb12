//! A bounded map from callers to what is kept for each, which forgets only what makes no difference.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
    sync::Arc,
};

use types::Moment;

/// Slots looked at for one insertion into a full book.
const LOOKS: usize = 8;

/// What may be forgotten, and when.
pub trait Forgettable {
    /// Whether at `now` nobody could tell the difference between this and a new one.
    fn is_forgettable(&self, now: Moment) -> bool;
}

/// The book is full of what must not be forgotten: use a shared entry instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("as many callers as there is room for are active")]
pub struct Full;

/// A map of at most `capacity` entries. A newcomer takes the place of an entry that is forgettable and in nobody's hands.
///
/// Each insertion into a full book looks at a few entries, onwards from where the last one stopped, so its cost is
/// bounded, and whatever can be forgotten is found within `capacity / 8` insertions.
///
/// The hasher is the caller's to choose: where keys come from strangers it has to be randomly seeded. The order of
/// hashing shows nowhere.
///
/// A key is kept twice. For keys of 16 bytes and a [`Bucket`](crate::Bucket) each, an entry takes about 100 bytes.
#[derive(Debug)]
pub struct Book<K, V, S> {
    index: HashMap<K, usize, S>,
    slots: Vec<Slot<K, V>>,
    capacity: usize,
    hand: usize,
}

#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    value: Arc<V>,
}

impl<K, V, S> Book<K, V, S>
where
    K: Clone + Eq + Hash,
    V: Forgettable,
    S: BuildHasher,
{
    /// An empty book for `capacity` entries. It takes memory as it fills up.
    #[must_use]
    pub fn new(capacity: usize, hasher: S) -> Self {
        Self { index: HashMap::with_hasher(hasher), slots: Vec::new(), capacity, hand: 0 }
    }

    /// The entry of `key`, if there is one.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        self.index.get(key).map(|slot| Arc::clone(&self.slots[*slot].value))
    }

    /// The entry of `key`, made by `make` if there was none. It is not forgotten as long as its caller holds it.
    ///
    /// # Errors
    /// [`Full`] if there is no room, and nothing to forget among the entries looked at.
    pub fn get_or_insert(&mut self, key: &K, now: Moment, make: impl FnOnce() -> V) -> Result<Arc<V>, Full> {
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        let slot = self.room(now)?;
        let value = Arc::new(make());
        let entry = Slot { key: key.clone(), value: Arc::clone(&value) };
        match self.slots.get_mut(slot) {
            Some(old) => {
                self.index.remove(&old.key);
                *old = entry;
            }
            None => self.slots.push(entry),
        }
        self.index.insert(key.clone(), slot);
        Ok(value)
    }

    /// Shows every entry, in no particular order.
    pub fn visit(&self, mut see: impl FnMut(&K, &V)) {
        self.slots.iter().for_each(|slot| see(&slot.key, &slot.value));
    }

    /// Returns the number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the maximum number of entries.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// A slot for a new entry: the next one, or that of an entry to forget.
    fn room(&mut self, now: Moment) -> Result<usize, Full> {
        if self.slots.len() < self.capacity {
            return Ok(self.slots.len());
        }
        for _ in 0..LOOKS.min(self.capacity) {
            let at = self.hand;
            self.hand = (at + 1) % self.capacity;
            let value = &self.slots[at].value;
            // Entries are handed out under this exclusive borrow alone: what nobody holds now, nobody can come to hold.
            if Arc::strong_count(value) == 1 && value.is_forgettable(now) {
                return Ok(at);
            }
        }
        Err(Full)
    }
}

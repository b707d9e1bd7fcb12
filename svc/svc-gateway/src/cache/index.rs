//! The index of stored responses: by target, then by partition and variant.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{HeaderMap, Method};
use httpcache::{
    answer::decide_answer,
    partial::{self, MAX_PARTS},
    variant::{RequestFields, Selecting},
};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter, sync::Cache};
use ron_kernel::lock::{Ranked, RankedGuard};

use super::{
    entry::{Entry, Head},
    shares::Charge,
};
use crate::locks;

/// Most responses that are stored for one target and partition; the oldest makes room.
const MAX_VARIANTS: usize = 32;
/// Most responses that are stored for one target; the oldest of the partition that has the most makes room.
const MAX_RESPONSES: usize = 512;
/// What a target takes besides its responses, about.
const OVERHEAD: u64 = 512;
/// Locks for changes, each for a part of all targets.
const STRIPES: usize = 64;
/// Parts of all targets whose invalidations are counted together.
const GENERATIONS: usize = 1024;

/// The responses of a target, the newest first.
type Entries = Arc<[Arc<Entry>]>;

/// What a target takes of the index without its responses, in bytes.
pub(super) fn target_weight(key: &str) -> u64 {
    OVERHEAD + key.len() as u64
}

/// The index. Its weight is bounded; what is not used makes room.
#[derive(Debug)]
pub(super) struct Index {
    targets: Cache<Arc<str>, Entries, ByWeight, DefaultHashBuilder, Evictions>,
    /// Held while the responses of a target are changed.
    stripes: Box<[Ranked<()>]>,
    /// How often something of each part was invalidated.
    generations: Box<[AtomicU64]>,
    hasher: RandomState,
}

#[derive(Clone, Debug)]
struct ByWeight;

impl Weighter<Arc<str>, Entries> for ByWeight {
    fn weight(&self, key: &Arc<str>, entries: &Entries) -> u64 {
        target_weight(key) + entries.iter().map(|entry| entry.head.weight()).sum::<u64>()
    }
}

/// What has to make room is removed from the disk as well: nobody could remove it there later.
#[derive(Clone, Debug)]
struct Evictions;

impl Lifecycle<Arc<str>, Entries> for Evictions {
    /// Dropped when nothing is locked any more.
    type RequestState = Vec<Entries>;

    fn on_evict(&self, evicted: &mut Self::RequestState, _: Arc<str>, entries: Entries) {
        for entry in &*entries {
            entry.leave_disk();
        }
        evicted.push(entries);
    }
}

/// What the index has for a request.
#[derive(Debug)]
pub(super) enum Lookup {
    /// A matching stored response.
    Found(Arc<Entry>),
    /// Responses, but for other requests.
    OtherVariants,
    /// No response is stored.
    Nothing,
}

impl Index {
    pub(super) fn new(max_bytes: u64) -> Self {
        let options = OptionsBuilder::new()
            .shards(16)
            .estimated_items_capacity(usize::try_from(max_bytes / 4096).unwrap_or(usize::MAX).max(16))
            .weight_capacity(max_bytes)
            .build()
            .expect("both capacities are set");
        Self {
            targets: Cache::with_options(options, ByWeight, DefaultHashBuilder::default(), Evictions),
            stripes: (0..STRIPES).map(|_| Ranked::new(&locks::CACHE_INDEX, ())).collect(),
            generations: (0..GENERATIONS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// The newest stored response that fits a request.
    pub(super) fn find(
        &self,
        key: &str,
        partition: &[u8],
        (method, fields): (&Method, &RequestFields<'_>),
        now: u64,
    ) -> Lookup {
        let Some(entries) = self.targets.get(key) else { return Lookup::Nothing };
        let selecting = Selecting::new(*fields);
        let fits = |entry: &&Arc<Entry>| {
            *entry.head.partition == *partition
                && entry.head.variant.is_selected(&selecting)
                && suffices(entry, method, fields.headers, now)
        };
        match entries.iter().find(fits) {
            Some(entry) => Lookup::Found(Arc::clone(entry)),
            None => Lookup::OtherVariants,
        }
    }

    /// The parts that are stored for a request, the newest first.
    pub(super) fn parts(&self, key: &str, partition: &[u8], fields: &RequestFields<'_>) -> Vec<Arc<Entry>> {
        let Some(entries) = self.targets.peek(key) else { return Vec::new() };
        let selecting = Selecting::new(*fields);
        let is_part = |entry: &&Arc<Entry>| {
            let head = &entry.head;
            head.part.is_some() && *head.partition == *partition && head.variant.is_selected(&selecting)
        };
        entries.iter().filter(is_part).cloned().collect()
    }

    /// How often something was invalidated that may have been this target.
    pub(super) fn generation(&self, key: &str) -> u64 {
        self.generation_of(key).load(Ordering::Acquire)
    }

    /// Stores a response to a request with these fields, unless its target was invalidated after `generation`. The responses
    /// in whose place it is, if it is stored.
    pub(super) fn insert(
        &self,
        entry: &Arc<Entry>,
        fields: &RequestFields<'_>,
        generation: u64,
    ) -> Option<Vec<Arc<Entry>>> {
        let _turn = self.turn(&entry.key);
        if self.generation(&entry.key) != generation {
            return None;
        }
        let selecting = Selecting::new(*fields);
        Some(self.put_first(entry, |old| old.head.variant.is_selected(&selecting)))
    }

    /// Stores a response that was found on the disk, unless there is a newer one.
    pub(super) fn restore(&self, entry: &Arc<Entry>, is_late: bool) -> bool {
        let _turn = self.turn(&entry.key);
        if is_late && self.targets.peek(&*entry.key).is_some() {
            return false;
        }
        self.put_first(entry, |old| old.head.variant == entry.head.variant);
        true
    }

    /// Puts a response before all others of its target, without those of its kind that are the same to a request. The turn is
    /// the caller's.
    fn put_first(&self, entry: &Arc<Entry>, is_same: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        let known = self.targets.peek(&*entry.key);
        let is_replaced = |old: &Arc<Entry>| {
            old.head.partition == entry.head.partition && is_same(old) && supersedes(&entry.head, &old.head)
        };
        let known = known.iter().flat_map(|known| known.iter()).cloned();
        let (mut replaced, mut entries): (Vec<_>, Vec<_>) = known.partition(is_replaced);
        entries.insert(0, Arc::clone(entry));
        replaced.extend(surplus_part(&entries, entry, is_same).map(|index| entries.remove(index)));
        replaced.extend(surplus(&entries, entry).map(|index| entries.remove(index)));
        for old in &replaced {
            old.leave_disk();
        }
        self.targets.insert(Arc::clone(&entry.key), entries.into());
        replaced
    }

    /// Puts a response in the place of another one, if that is still there; whether it is.
    pub(super) fn replace(&self, old: &Arc<Entry>, new: &Arc<Entry>) -> bool {
        let mut is_there = false;
        self.change(&old.key, |entry| {
            let is_old = Arc::ptr_eq(entry, old);
            is_there |= is_old;
            Some(Arc::clone(if is_old { new } else { entry }))
        });
        is_there
    }

    /// Removes a stored response from the index.
    pub(super) fn remove(&self, gone: &Arc<Entry>) {
        self.change(&gone.key, |entry| (!Arc::ptr_eq(entry, gone)).then(|| Arc::clone(entry)));
    }

    /// Removes what this was charged for.
    pub(super) fn remove_charged(&self, key: &str, charge: &Arc<Charge>) {
        self.change(key, |entry| (!Arc::ptr_eq(&entry.charge, charge)).then(|| Arc::clone(entry)));
    }

    /// Removes all responses of a target, and keeps those from being stored that are on their way. What was removed.
    pub(super) fn invalidate(&self, key: &str) -> Vec<Arc<Entry>> {
        let _turn = self.turn(key);
        self.generation_of(key).fetch_add(1, Ordering::AcqRel);
        self.targets.remove(key).map_or_else(Vec::new, |(_, entries)| entries.to_vec())
    }

    /// Keeps all responses from being stored that are on their way.
    pub(super) fn outdate_all(&self) {
        for generation in &self.generations {
            generation.fetch_add(1, Ordering::AcqRel);
        }
        // One that was found to be of the last generation may be about to be stored: it is, once its turn is over.
        self.stripes.iter().for_each(|stripe| drop(stripe.lock()));
    }

    /// All stored responses, or those of one target.
    pub(super) fn entries(&self, key: Option<&str>) -> Vec<Arc<Entry>> {
        match key {
            Some(key) => self.targets.peek(key).map_or_else(Vec::new, |entries| entries.to_vec()),
            None => self.targets.iter().flat_map(|(_, entries)| entries.to_vec()).collect(),
        }
    }

    /// What all of it takes, and how many targets there are.
    pub(super) fn size(&self) -> (u64, usize) {
        (self.targets.weight(), self.targets.len())
    }

    /// Changes the responses of a target, one by one; those for which there is nothing are removed.
    pub(super) fn change(&self, key: &str, mut change: impl FnMut(&Arc<Entry>) -> Option<Arc<Entry>>) {
        let _turn = self.turn(key);
        let Some(known) = self.targets.peek(key) else { return };
        let entries: Arc<[_]> = known
            .iter()
            .filter_map(|old| {
                let new = change(old);
                if new.as_ref().is_none_or(|new| !Arc::ptr_eq(new, old)) {
                    old.leave_disk();
                }
                new
            })
            .collect();
        if entries.is_empty() {
            self.targets.remove(key);
        } else {
            self.targets.insert(Arc::from(key), entries);
        }
    }

    fn turn(&self, key: &str) -> RankedGuard<'_, ()> {
        let stripe = self.hash(key) % STRIPES;
        self.stripes[stripe].lock()
    }

    fn generation_of(&self, key: &str) -> &AtomicU64 {
        &self.generations[self.hash(key) % GENERATIONS]
    }

    fn hash(&self, key: &str) -> usize {
        usize::try_from(self.hasher.hash_one(key) >> 32).unwrap_or(0)
    }
}

/// Which response makes room for a new one, the first of these; `None` if there is room. Newest first.
fn surplus(entries: &[Arc<Entry>], newest: &Entry) -> Option<usize> {
    let count =
        |entry: &Entry| entries.iter().filter(|other| other.head.partition == entry.head.partition).count();
    let oldest = |of: &Entry| entries.iter().rposition(|other| other.head.partition == of.head.partition);
    if count(newest) > MAX_VARIANTS {
        oldest(newest)
    } else if entries.len() > MAX_RESPONSES {
        entries.iter().max_by_key(|entry| count(entry)).and_then(|most| oldest(most))
    } else {
        None
    }
}

/// Which part makes room for a new one of the same representation; `None` if there is room. Newest first.
fn surplus_part(entries: &[Arc<Entry>], newest: &Entry, is_same: impl Fn(&Entry) -> bool) -> Option<usize> {
    let is_part = |entry: &Arc<Entry>| {
        entry.head.part.is_some() && entry.head.partition == newest.head.partition && is_same(entry)
    };
    let count = entries.iter().filter(|entry| is_part(entry)).count();
    if count > MAX_PARTS { entries.iter().rposition(is_part) } else { None }
}

/// Whether a new response to the same request leaves an older one without use. Other parts of the same representation stay.
fn supersedes(new: &Head, old: &Head) -> bool {
    match (&new.part, &old.part) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(part), Some(older)) => {
            let is_within = part.range.start <= older.range.start && older.range.end <= part.range.end;
            is_within || part.len != older.len || !partial::are_same(&old.headers, &new.headers)
        }
    }
}

/// Whether what is stored is enough for the request; only of a part it may not be.
fn suffices(entry: &Entry, method: &Method, headers: &HeaderMap, now: u64) -> bool {
    let head = &entry.head;
    head.part.is_none() || {
        let stored = (entry.len, head.part.as_ref());
        let answer = decide_answer((method, headers), (head.status, &head.headers), stored, now);
        answer != httpcache::answer::Answer::NotStored
    }
}

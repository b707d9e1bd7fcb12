//! What is stored, in the order of its use: who has to leave, and who may not be touched. Bookkeeping without I/O.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, Weak},
};

use types::ObjectId;

use crate::store::{Limits, Stat};

/// The maximum number of corrupt objects that are kept for inspection.
const ASIDE_MAX: usize = 64;

/// An object's last use is saved when this many others, or a quarter of all, were used since it was saved last. The
/// order that a restart finds is off by no more, and what is used all the time is not written all the time.
const SAVE_AFTER_MIN: u64 = 64;

/// What is known of all objects.
#[derive(Debug)]
pub(crate) struct Index {
    limits: Limits,
    entries: HashMap<ObjectId, Entry>,
    /// The entries, the longest unused first. Keys are unique: each use takes the next.
    by_use: BTreeMap<u64, ObjectId>,
    uses: u64,
    /// The sum of the entries' lengths.
    object_bytes: u64,
    /// What is taken of the cap: by entries, objects set aside, and whoever is about to be published.
    taken: u64,
    aside: VecDeque<(ObjectId, u64)>,
    /// Objects that somebody is writing, removing or setting aside: one at a time.
    claimed: HashSet<ObjectId>,
    evicted: u64,
    evicted_bytes: u64,
}

#[derive(Debug)]
struct Entry {
    len: u64,
    cost: u64,
    last_use: u64,
    saved_use: u64,
    /// How often it was used since without being moved, because it was among the last used already.
    unmoved: u64,
    /// Alive as long as somebody reads the object.
    readers: Weak<()>,
}

/// Somebody who has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) id: ObjectId,
    len: u64,
    cost: u64,
    /// It had been set aside before.
    pub(crate) is_aside: bool,
}

/// An object somebody wants to read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) len: u64,
    /// Keeps the object from being evicted.
    pub(crate) pin: Arc<()>,
    pub(crate) save_use: bool,
}

impl Index {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            object_bytes: 0,
            taken: 0,
            aside: VecDeque::new(),
            claimed: HashSet::new(),
            evicted: 0,
            evicted_bytes: 0,
        }
    }

    pub(crate) fn contains(&self, id: ObjectId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Takes the right to change an object, if nobody has it.
    pub(crate) fn claim(&mut self, id: ObjectId) -> bool {
        self.claimed.insert(id)
    }

    pub(crate) fn unclaim(&mut self, id: ObjectId) {
        self.claimed.remove(&id);
    }

    /// Counts what will take room, or what is found to take it.
    pub(crate) fn take(&mut self, cost: u64) {
        self.taken = self.taken.saturating_add(cost);
    }

    /// Subtracts the size of a removed object.
    pub(crate) fn give_back(&mut self, cost: u64) {
        self.taken = self.taken.saturating_sub(cost);
    }

    /// An object is in its place, as the one used last. What it takes is counted already.
    pub(crate) fn insert(&mut self, id: ObjectId, len: u64, cost: u64) {
        self.uses += 1;
        let entry =
            Entry { len, cost, last_use: self.uses, saved_use: self.uses, unmoved: 0, readers: Weak::new() };
        if let Some(cost) = self.forget(id) {
            self.give_back(cost);
        }
        self.object_bytes += len;
        self.entries.insert(id, entry);
        self.by_use.insert(self.uses, id);
    }

    /// Nobody finds the object from now on. What it takes stays counted until it is gone.
    pub(crate) fn forget(&mut self, id: ObjectId) -> Option<u64> {
        let entry = self.entries.remove(&id)?;
        self.by_use.remove(&entry.last_use);
        self.object_bytes -= entry.len;
        Some(entry.cost)
    }

    /// Somebody is about to read the object.
    pub(crate) fn open(&mut self, id: ObjectId) -> Option<Opened> {
        let save_use = self.touch(id)?;
        let entry = self.entries.get_mut(&id)?;
        let pin = entry.readers.upgrade().unwrap_or_else(|| {
            let pin = Arc::new(());
            entry.readers = Arc::downgrade(&pin);
            pin
        });
        Some(Opened { len: entry.len, pin, save_use })
    }

    /// The object was used. Says whether that ought to be saved.
    pub(crate) fn touch(&mut self, id: ObjectId) -> Option<bool> {
        let quarter = self.entries.len() as u64 / 4;
        let save_after = SAVE_AFTER_MIN.max(quarter);
        let entry = self.entries.get_mut(&id)?;
        if self.uses - entry.last_use <= quarter {
            // It is among the last used already: what is used all the time is not moved all the time.
            entry.unmoved += 1;
            let save = entry.unmoved >= save_after;
            if save {
                entry.unmoved = 0;
            }
            return Some(save);
        }
        entry.unmoved = 0;
        self.uses += 1;
        self.by_use.remove(&entry.last_use);
        self.by_use.insert(self.uses, id);
        entry.last_use = self.uses;
        let save = self.uses - entry.saved_use >= save_after;
        if save {
            entry.saved_use = self.uses;
        }
        Some(save)
    }

    /// Chooses who leaves so that one more object of this cost fits, and forgets and claims them; [`None`], with nothing
    /// changed, if there are not enough who can.
    pub(crate) fn evict_for(&mut self, objects: usize, cost: u64) -> Option<Vec<Victim>> {
        let mut excess = self.taken.saturating_add(cost).saturating_sub(self.limits.max_bytes);
        let mut too_many = (self.entries.len() + objects).saturating_sub(self.limits.max_objects);
        let mut victims = Vec::new();
        for (id, cost) in self.aside.iter().filter(|(id, _)| !self.claimed.contains(id)) {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(*cost);
            victims.push(Victim { id: *id, len: 0, cost: *cost, is_aside: true });
        }
        for id in self.by_use.values() {
            if excess == 0 && too_many == 0 {
                break;
            }
            let entry = self.entries.get(id)?;
            if entry.readers.strong_count() > 0 || self.claimed.contains(id) {
                continue;
            }
            excess = excess.saturating_sub(entry.cost);
            too_many = too_many.saturating_sub(1);
            victims.push(Victim { id: *id, len: entry.len, cost: entry.cost, is_aside: false });
        }
        if excess > 0 || too_many > 0 {
            return None;
        }
        victims.iter().for_each(|victim| self.lead_out(*victim));
        Some(victims)
    }

    fn lead_out(&mut self, victim: Victim) {
        self.claim(victim.id);
        if victim.is_aside {
            self.aside.retain(|(id, _)| *id != victim.id);
        } else {
            self.forget(victim.id);
        }
    }

    /// A victim is gone, and others may use its name again.
    pub(crate) fn evicted(&mut self, victim: Victim) {
        self.unclaim(victim.id);
        self.give_back(victim.cost);
        if !victim.is_aside {
            self.evicted += 1;
            self.evicted_bytes += victim.cost;
        }
    }

    /// A victim could not be removed. It is still there, and not the next to be tried, which may be removable.
    pub(crate) fn spared(&mut self, victim: Victim) {
        self.unclaim(victim.id);
        if victim.is_aside {
            self.aside.push_back((victim.id, victim.cost));
        } else {
            self.insert(victim.id, victim.len, victim.cost);
        }
    }

    /// Remembers a corrupt object; gives back the one that has to be forgotten for it, if there are too many.
    pub(crate) fn set_aside(&mut self, id: ObjectId, cost: u64) -> Option<(ObjectId, u64)> {
        if let Some(at) = self.aside.iter().position(|(known, _)| *known == id) {
            let (_, old) = self.aside.remove(at)?;
            self.give_back(old);
        }
        self.take(cost);
        self.aside.push_back((id, cost));
        if self.aside.len() > ASIDE_MAX { self.aside.pop_front() } else { None }
    }

    pub(crate) fn aside(&self) -> impl Iterator<Item = ObjectId> {
        self.aside.iter().map(|(id, _)| *id)
    }

    /// All objects, the longest unused first.
    pub(crate) fn ids(&self) -> Vec<ObjectId> {
        self.by_use.values().copied().collect()
    }

    pub(crate) fn stat(&self) -> Stat {
        Stat {
            objects: self.entries.len() as u64,
            object_bytes: self.object_bytes,
            taken_bytes: self.taken,
            max_bytes: self.limits.max_bytes,
            quarantined: self.aside.len() as u64,
            evicted: self.evicted,
            evicted_bytes: self.evicted_bytes,
            swept: 0,
        }
    }
}

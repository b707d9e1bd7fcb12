//! The store: finds objects, makes room for new ones, and sets corrupt ones aside.

use std::{
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use types::ObjectId;

use crate::{
    backend::{Backend, Inventory},
    files::{Files, OpenError},
    index::{Index, Victim},
    lock,
    memory::Memory,
    verified::{ReadError, Verified},
    writer::{Committed, WriteError, Writer},
};

/// How much is stored at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes on disk or in memory, trees and rounding to blocks included. What is being written comes on top, until it
    /// is committed.
    pub max_bytes: u64,
    /// Objects. Each takes about 150 bytes of memory for as long as it is stored.
    pub max_objects: usize,
}

impl Default for Limits {
    /// 10 GiB in a million objects.
    fn default() -> Self {
        Self { max_bytes: 10 << 30, max_objects: 1 << 20 }
    }
}

/// What is stored, and what has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Objects that can be read.
    pub objects: u64,
    /// The sum of their lengths.
    pub object_bytes: u64,
    /// What is taken of [`Limits::max_bytes`].
    pub taken_bytes: u64,
    /// [`Limits::max_bytes`].
    pub max_bytes: u64,
    /// Corrupt objects that were set aside.
    pub quarantined: u64,
    /// Objects that made room for others since the start.
    pub evicted: u64,
    /// What they took.
    pub evicted_bytes: u64,
    /// Remains of interrupted writers that were removed at the start.
    pub swept: u64,
}

/// What became of an object that somebody found corrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is not there, or no longer.
    Missing,
    /// It is what it should be: somebody else has replaced it, or the disk has thought better of it.
    Sound,
    /// Its bytes were right and its tree was not; the tree has been made anew.
    Repaired,
    /// It has been set aside and is no longer found.
    Quarantined,
}

/// Objects under the hashes of their bytes.
///
/// Each has one writer at a time; readers need no lock and are never shown a byte that was not stored. Several processes
/// may share a folder, as they do while one takes over from another: each keeps to the cap as far as it knows.
#[derive(Debug)]
pub struct Cas {
    shared: Arc<Shared>,
    swept: u64,
}

/// What the store and its writers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) backend: Box<dyn Backend>,
    index: Mutex<Index>,
    /// Somebody has finished changing an object.
    unclaimed: Condvar,
    /// Held while room is made: what one thread has freed, another must not take before it is free.
    evicting: Mutex<()>,
}

impl Cas {
    /// A store in memory, which ends with the process and writes nothing.
    #[must_use]
    pub fn in_memory(limits: Limits) -> Self {
        Self::new(Box::new(Memory::default()), limits, Inventory::default())
    }

    /// The store in a folder, made if it is not there. What interrupted writers left is removed, and so is what is
    /// beyond the limits.
    ///
    /// # Errors
    /// [`OpenError`] if the folder is something else, or cannot be used.
    pub fn at(folder: &Path, limits: Limits) -> Result<Self, OpenError> {
        let (files, inventory) = Files::at(folder)?;
        let cas = Self::new(Box::new(files), limits, inventory);
        match cas.shared.make_room(0, 0) {
            Ok(_) | Err(WriteError::Full) => Ok(cas),
            Err(WriteError::Io(source)) => Err(OpenError::Io { path: folder.to_owned(), source }),
            Err(error) => Err(OpenError::Io { path: folder.to_owned(), source: io::Error::other(error) }),
        }
    }

    /// Somebody else's store in a folder: nothing is made, swept or evicted at the start.
    ///
    /// # Errors
    /// [`OpenError`] if there is none.
    pub fn visit(folder: &Path, limits: Limits) -> Result<Self, OpenError> {
        let (files, inventory) = Files::visit(folder)?;
        Ok(Self::new(Box::new(files), limits, inventory))
    }

    fn new(backend: Box<dyn Backend>, limits: Limits, inventory: Inventory) -> Self {
        let mut index = Index::new(limits);
        for found in &inventory.objects {
            let cost = backend.cost(found.len);
            index.take(cost);
            index.insert(found.id, found.len, cost);
        }
        let forgotten: Vec<_> =
            inventory.aside.iter().filter_map(|(id, cost)| index.set_aside(*id, *cost)).collect();
        let shared = Shared {
            limits,
            backend,
            index: Mutex::new(index),
            unclaimed: Condvar::new(),
            evicting: Mutex::new(()),
        };
        forgotten.into_iter().for_each(|(id, cost)| shared.drop_aside(id, cost));
        Self { shared: Arc::new(shared), swept: inventory.swept }
    }

    /// Begins an object. Nothing is evicted for it before it is committed.
    ///
    /// # Errors
    /// [`WriteError::Io`] if there is no place to write to.
    pub fn begin(&self) -> Result<Writer, WriteError> {
        Writer::new(Arc::clone(&self.shared))
    }

    /// Stores an object that is in memory.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn put(&self, bytes: &[u8]) -> Result<Committed, WriteError> {
        let mut writer = self.begin()?;
        writer.write(bytes)?;
        writer.commit()
    }

    /// An object, ready to be read and safe from eviction until it is dropped; [`None`] if it is not stored.
    ///
    /// # Errors
    /// [`ReadError::Io`], or [`ReadError::Corrupt`] if what is stored cannot be the object: see [`Cas::quarantine`].
    pub fn open(&self, id: ObjectId) -> Result<Option<Verified>, ReadError> {
        self.shared.open(id)
    }

    /// Whether an object is stored, as far as this process knows. Does not block for long.
    #[must_use]
    pub fn contains(&self, id: ObjectId) -> bool {
        self.shared.index(|index| index.contains(id))
    }

    /// An object was used without being opened, such as from the RAM tier: it is the last to be evicted now.
    pub fn touch(&self, id: ObjectId) {
        if self.shared.index(|index| index.touch(id)) == Some(true) {
            self.shared.backend.save_use(id);
        }
    }

    /// Removes an object; says whether it was there. Those who are reading it read on.
    ///
    /// # Errors
    /// What the system said.
    pub fn remove(&self, id: ObjectId) -> io::Result<bool> {
        let _claim = self.shared.claim(id);
        if !self.shared.is_known(id)? {
            return Ok(false);
        }
        let cost = self.shared.index(|index| index.forget(id));
        self.shared.backend.remove(id)?;
        self.shared.index(|index| index.give_back(cost.unwrap_or_default()));
        Ok(true)
    }

    /// Looks at an object that was found corrupt, and sets it aside if it is: it is no longer found, and can be written
    /// anew. Up to 64 are kept for a look at them, if there is room.
    ///
    /// # Errors
    /// [`ReadError::Io`] if it cannot be looked at or moved.
    pub fn quarantine(&self, id: ObjectId) -> Result<Fate, ReadError> {
        let _claim = self.shared.claim(id);
        match self.shared.open(id).and_then(|found| {
            found.map(|object| object.check(|_| std::ops::ControlFlow::Continue(()))).transpose()
        }) {
            Ok(None) => return Ok(Fate::Missing),
            Ok(Some(_)) => return Ok(Fate::Sound),
            Err(ReadError::Corrupt { .. } | ReadError::OutOfRange) => {}
            Err(error) => return Err(error),
        }
        if self.shared.backend.repair(id)? {
            return Ok(Fate::Repaired);
        }
        let cost = self.shared.index(|index| index.forget(id)).unwrap_or_default();
        let aside = self.shared.backend.set_aside(id)?;
        let forgotten = self.shared.index(|index| {
            index.give_back(cost);
            index.set_aside(id, aside)
        });
        if let Some((id, cost)) = forgotten {
            self.shared.drop_aside(id, cost);
        }
        Ok(Fate::Quarantined)
    }

    /// Corrupt objects that were set aside, the oldest first. They may have been written anew since.
    #[must_use]
    pub fn quarantined(&self) -> Vec<ObjectId> {
        self.shared.index(|index| index.aside().collect())
    }

    /// All objects, the longest unused first.
    #[must_use]
    pub fn ids(&self) -> Vec<ObjectId> {
        self.shared.index(|index| index.ids())
    }

    /// What is stored, and what has been.
    #[must_use]
    pub fn stat(&self) -> Stat {
        Stat { swept: self.swept, ..self.shared.index(|index| index.stat()) }
    }
}

impl Shared {
    /// Looks at the index or changes it.
    pub(crate) fn index<T>(&self, what: impl FnOnce(&mut Index) -> T) -> T {
        what(&mut lock(&self.index))
    }

    fn open(&self, id: ObjectId) -> Result<Option<Verified>, ReadError> {
        if !self.is_known(id)? {
            return Ok(None);
        }
        let Some(opened) = self.index(|index| index.open(id)) else { return Ok(None) };
        if opened.save_use {
            self.backend.save_use(id);
        }
        let found = self.backend.open(id, opened.len)?;
        if found.is_none() {
            // Somebody else has removed it: another process, or a person.
            self.index(|index| index.forget(id).map(|cost| index.give_back(cost)));
        }
        Ok(found.map(|(source, tree)| Verified::stored(source, tree, opened.pin)))
    }

    /// Whether an object is stored. One that another process has put here is known from now on.
    pub(crate) fn is_known(&self, id: ObjectId) -> io::Result<bool> {
        if self.index(|index| index.contains(id)) {
            return Ok(true);
        }
        let Some(len) = self.backend.find(id)? else { return Ok(false) };
        let cost = self.backend.cost(len);
        self.index(|index| {
            if !index.contains(id) {
                index.take(cost);
                index.insert(id, len, cost);
            }
        });
        Ok(true)
    }

    /// Waits until nobody else changes the object, and keeps others from it.
    pub(crate) fn claim(&self, id: ObjectId) -> Claim<'_> {
        let mut index = lock(&self.index);
        while !index.claim(id) {
            index = self.unclaimed.wait(index).unwrap_or_else(PoisonError::into_inner);
        }
        Claim { shared: self, id }
    }

    /// Evicts until `objects` more of this cost fit, counts them, and says who had to leave.
    pub(crate) fn make_room(&self, objects: usize, cost: u64) -> Result<Vec<ObjectId>, WriteError> {
        let _turn = lock(&self.evicting);
        let victims = self.index(|index| index.evict_for(objects, cost)).ok_or(WriteError::Full)?;
        let mut failed = None;
        let mut gone = Vec::with_capacity(victims.len());
        for victim in victims {
            match self.evict(victim) {
                Ok(()) => gone.extend((!victim.is_aside).then_some(victim.id)),
                Err(error) => failed = Some(error),
            }
        }
        self.unclaimed.notify_all();
        match failed {
            Some(error) => Err(error.into()),
            None => {
                self.index(|index| index.take(cost));
                Ok(gone)
            }
        }
    }

    fn evict(&self, victim: Victim) -> io::Result<()> {
        let removed = match victim.is_aside {
            true => self.backend.remove_aside(victim.id),
            false => self.backend.remove(victim.id),
        };
        self.index(|index| if removed.is_ok() { index.evicted(victim) } else { index.spared(victim) });
        removed
    }

    fn drop_aside(&self, id: ObjectId, cost: u64) {
        // If it stays, it takes room that nobody counts until the next start, which tries again.
        let _ = self.backend.remove_aside(id);
        self.index(|index| index.give_back(cost));
    }
}

/// The right to change an object.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    shared: &'a Shared,
    id: ObjectId,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.shared.index(|index| index.unclaim(self.id));
        self.shared.unclaimed.notify_all();
    }
}

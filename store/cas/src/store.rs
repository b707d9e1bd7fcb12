//! The store: finds objects, makes room for new ones, and sets corrupt ones aside.

use std::{io, ops::ControlFlow, path::Path, sync::Arc};

use bytes::Bytes;
use types::ObjectId;

use crate::{
    backend::{Backend, Inventory},
    files::{Files, OpenError},
    index::Index,
    memory::Memory,
    shared::Shared,
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
    /// How much of [`Limits::max_bytes`] is in use.
    pub taken_bytes: u64,
    /// The limit in force, [`Limits::max_bytes`].
    pub max_bytes: u64,
    /// Corrupt objects that were set aside.
    pub quarantined: u64,
    /// Objects that made room for others since the start.
    pub evicted: u64,
    /// Total size of the evicted objects, in bytes.
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
    /// Its bytes were right and its tree was not; the tree has been rebuilt.
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
        Self::in_folder(folder, limits, true)
    }

    /// The same for objects that may be lost: nothing waits for the disk, so that a power cut may leave damaged objects, which
    /// are found when they are read.
    ///
    /// # Errors
    /// [`OpenError`] if the folder is something else, or cannot be used.
    pub fn of_losable_objects_at(folder: &Path, limits: Limits) -> Result<Self, OpenError> {
        Self::in_folder(folder, limits, false)
    }

    fn in_folder(folder: &Path, limits: Limits, syncs: bool) -> Result<Self, OpenError> {
        let (files, inventory) = Files::at(folder, syncs)?;
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
        let shared = Shared::new(limits, backend, index);
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

    /// All bytes of an object, if they are in memory; [`None`] if they are not. They may be evicted meanwhile, and then take
    /// memory that is not counted for as long as they are held: for what is short and given out at once.
    #[must_use]
    pub fn bytes(&self, id: ObjectId) -> Option<Bytes> {
        self.shared.index(|index| index.touch(id))?;
        self.shared.backend.bytes(id)
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
        self.shared.backend.remove(id)?;
        self.shared.forget(id);
        Ok(true)
    }

    /// Looks at an object that was found corrupt, and sets it aside if it is: it is no longer found, and can be written
    /// again. Up to 64 are kept for inspection, if there is room.
    ///
    /// # Errors
    /// [`ReadError::Io`] if it cannot be looked at or moved.
    pub fn quarantine(&self, id: ObjectId) -> Result<Fate, ReadError> {
        let _claim = self.shared.claim(id);
        match self
            .shared
            .open(id)
            .and_then(|found| found.map(|object| object.check(|_| ControlFlow::Continue(()))).transpose())
        {
            Ok(None) => return Ok(Fate::Missing),
            Ok(Some(_)) => return Ok(Fate::Sound),
            Err(ReadError::Corrupt { .. } | ReadError::OutOfRange) => {}
            Err(error) => return Err(error),
        }
        if self.shared.backend.repair(id)? {
            return Ok(Fate::Repaired);
        }
        let aside = self.shared.backend.set_aside(id)?;
        self.shared.forget(id);
        if let Some((id, cost)) = self.shared.index(|index| index.set_aside(id, aside)) {
            self.shared.drop_aside(id, cost);
        }
        Ok(Fate::Quarantined)
    }

    /// Corrupt objects that were set aside, the oldest first. They may have been rewritten since.
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

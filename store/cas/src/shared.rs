//! What the store and its writers share: the index, the place behind it, and who may change what.

use std::{
    io,
    sync::{Condvar, Mutex, PoisonError},
};

use types::ObjectId;

use crate::{
    backend::Backend,
    index::{Index, Victim},
    lock,
    store::Limits,
    verified::{ReadError, Verified},
    writer::WriteError,
};

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

impl Shared {
    pub(crate) fn new(limits: Limits, backend: Box<dyn Backend>, index: Index) -> Self {
        Self {
            limits,
            backend,
            index: Mutex::new(index),
            unclaimed: Condvar::new(),
            evicting: Mutex::new(()),
        }
    }

    /// Looks at the index or changes it.
    pub(crate) fn index<T>(&self, what: impl FnOnce(&mut Index) -> T) -> T {
        what(&mut lock(&self.index))
    }

    pub(crate) fn open(&self, id: ObjectId) -> Result<Option<Verified>, ReadError> {
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
            self.forget(id);
        }
        Ok(found.map(|(source, tree)| Verified::stored(source, tree, opened.pin)))
    }

    /// An object is gone, and what it took with it.
    pub(crate) fn forget(&self, id: ObjectId) {
        self.index(|index| {
            let cost = index.forget(id);
            index.give_back(cost.unwrap_or_default());
        });
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

    pub(crate) fn drop_aside(&self, id: ObjectId, cost: u64) {
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

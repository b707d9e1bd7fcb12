//! Writes an object: hashed as it comes, and in its place only when it is whole.

use std::{io, sync::Arc};

use b3tree::Builder;
use types::ObjectId;

use crate::{backend::Spool, shared::Shared, tail::Tail};

/// Why an object was not stored. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The system could not write it.
    #[error("it cannot be written: {0}")]
    Io(#[from] io::Error),
    /// It is larger than all that may be stored.
    #[error("it is larger than the store")]
    TooLarge,
    /// Everything that is stored is being read or written. Try again later.
    #[error("there is no room: all that is stored is in use")]
    Full,
    /// An earlier write failed.
    #[error("an earlier part of it could not be written")]
    Broken,
}

/// An object that is stored now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The name of the object.
    pub id: ObjectId,
    /// The length of the object in bytes.
    pub len: u64,
    /// Whether it was not stored before.
    pub is_new: bool,
    /// Objects that had to make room for it.
    pub evicted: Vec<ObjectId>,
}

/// An object that is being written. If it is dropped, nothing stays behind.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    /// Boxed, because a hasher is large and a writer moves from thread to thread.
    builder: Box<Builder>,
    /// [`None`] after a write that failed.
    spool: Option<Box<dyn Spool>>,
    /// For those who read what is being written.
    tail: Option<Tail>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self, WriteError> {
        let spool = Some(shared.backend.spool()?);
        Ok(Self { shared, builder: Box::default(), spool, tail: None })
    }

    /// Takes the next bytes. Blocking.
    ///
    /// # Errors
    /// [`WriteError`]; the object can then no longer be committed.
    pub fn write(&mut self, data: &[u8]) -> Result<(), WriteError> {
        let mut spool = self.spool.take().ok_or(WriteError::Broken)?;
        let len = self.len().saturating_add(data.len() as u64);
        if self.shared.backend.cost(len) > self.shared.limits.max_bytes {
            return Err(WriteError::TooLarge);
        }
        spool.write(data)?;
        self.builder.update(data);
        self.spool = Some(spool);
        if let Some(tail) = &self.tail {
            tail.grow(&self.builder);
        }
        Ok(())
    }

    /// What is written, to be read meanwhile and checked as everything is. Blocking.
    ///
    /// # Errors
    /// The system does not let us read it.
    pub fn tail(&mut self) -> Result<Tail, WriteError> {
        if let Some(tail) = &self.tail {
            return Ok(tail.clone());
        }
        let written = self.spool.as_mut().ok_or(WriteError::Broken)?.written()?;
        let tail = Tail::new(written, &self.builder);
        self.tail = Some(tail.clone());
        Ok(tail)
    }

    /// The name of what is written so far.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.builder.clone().finish().root()
    }

    /// The bytes so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.builder.len()
    }

    /// Whether there are no bytes so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.builder.is_empty()
    }

    /// Stores the object, for good when this returns: it survives a crash. Makes room first, if need be. Blocking.
    ///
    /// # Errors
    /// [`WriteError`]; nothing is stored then.
    pub fn commit(mut self) -> Result<Committed, WriteError> {
        let spool = self.spool.take().ok_or(WriteError::Broken)?;
        let (shared, tree) = (&self.shared, Arc::new(self.builder.finish()));
        let (id, len) = (tree.root(), tree.len());
        if let Some(tail) = &self.tail {
            tail.finish(&tree);
        }
        let _claim = shared.claim(id);
        // On disk and whole, not only in the index: a person may have removed it, or the disk lost some of it.
        if shared.backend.find(id)? == Some(len) && shared.is_known(id)? {
            shared.index(|index| index.touch(id));
            return Ok(Committed { id, len, is_new: false, evicted: Vec::new() });
        }
        let cost = shared.backend.cost(len);
        let evicted = shared.make_room(1, cost)?;
        match spool.publish(&tree) {
            Ok(()) => {
                shared.index(|index| index.insert(id, len, cost));
                Ok(Committed { id, len, is_new: true, evicted })
            }
            Err(error) => {
                shared.index(|index| index.give_back(cost));
                Err(error.into())
            }
        }
    }
}

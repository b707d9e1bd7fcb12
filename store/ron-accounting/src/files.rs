//! The files of rows, by the hash of their bytes.

use std::{fmt, io, path::Path, sync::Arc};

use cas::{Cas, Limits, OpenError, WriteError};
use types::ObjectId;

/// Where files of rows can be had, by their address.
pub trait Rows: Send + Sync + fmt::Debug {
    /// The file, verified to be the one of this address; `None` if it is not available. Blocking.
    ///
    /// # Errors
    /// What the place said, if it does not answer.
    fn fetch(&self, object: ObjectId) -> Result<Option<Vec<u8>>, String>;
}

/// The files of rows that are here. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SnapshotFiles(Arc<Cas>);

impl SnapshotFiles {
    /// Those in a folder, made if it is not there.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn at(folder: &Path) -> Result<Self, OpenError> {
        Cas::at(folder, Limits::default()).map(|cas| Self(Arc::new(cas)))
    }

    /// None, and what is kept ends with the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Arc::new(Cas::in_memory(Limits::default())))
    }

    /// Keeps a file; durable when this returns.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn keep(&self, rows: &[u8]) -> Result<ObjectId, WriteError> {
        Ok(self.0.put(rows)?.id)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// What the system said.
    pub fn remove(&self, object: ObjectId) -> io::Result<bool> {
        self.0.remove(object)
    }
}

impl Rows for SnapshotFiles {
    fn fetch(&self, object: ObjectId) -> Result<Option<Vec<u8>>, String> {
        let Some(found) = self.0.open(object).map_err(|error| error.to_string())? else { return Ok(None) };
        found.read_all().map(|bytes| Some(bytes.to_vec())).map_err(|error| error.to_string())
    }
}

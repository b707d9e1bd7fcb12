//! The store behind the streams: opened, read with proofs, and written, all on the blocking pool.

use std::{ops::Range, path::Path, sync::Arc};

use b3tree::Prover;
use bytes::Bytes;
use cas::{Cas, Limits, OpenError, ReadError, Verified, WriteError, Writer};
use oap::{Checker, Data, NotTheObject};
use ron_kernel::blocking::{Blocking, BlockingDrop, BlockingError};
use types::ObjectId;

use crate::ObjectsConfig;

/// Chunks that are read or checked in one go. A stream holds no more of them.
pub(super) const AT_ONCE: usize = 4;

/// Objects of this node.
#[derive(Clone, Debug)]
pub(super) struct Store {
    cas: Arc<Cas>,
    blocking: Blocking,
}

/// Why the store gave or took nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Blocking(#[from] BlockingError),
    #[error(transparent)]
    Object(#[from] NotTheObject),
}

/// An object that is stored here.
#[derive(Clone, Debug)]
pub(super) struct Stored(Arc<Verified>);

/// An object on its way in: checked chunk by chunk, and kept if it is to be.
#[derive(Debug)]
pub(super) struct Arriving {
    pub(super) checker: Checker,
    writer: Option<BlockingDrop<Writer>>,
}

/// Opens the store: in the node's folder, or in memory if nothing may be written. Blocking.
pub(crate) fn open(config: &ObjectsConfig, data_dir: Option<&Path>) -> Result<Cas, OpenError> {
    let limits = |max_bytes| Limits { max_bytes, ..Limits::default() };
    match data_dir {
        Some(data_dir) => Cas::at(&ObjectsConfig::folder(data_dir), limits(config.max_bytes.as_u64())),
        None => Ok(Cas::in_memory(limits(config.ram_bytes.as_u64()))),
    }
}

impl Store {
    pub(super) fn new(cas: Cas, blocking: &Blocking) -> Self {
        Self { cas: Arc::new(cas), blocking: blocking.clone() }
    }

    /// Finds an object. One that is damaged is set aside, and is not there.
    ///
    /// Cancel safe.
    pub(super) async fn find(&self, id: ObjectId) -> Result<Option<Stored>, StoreError> {
        let cas = Arc::clone(&self.cas);
        let open = move || match looked_at(&cas, id, cas.open(id)) {
            Err(ReadError::Corrupt { .. }) => Ok(None),
            opened => opened,
        };
        let opened = self.blocking.run("open an object", open).await??;
        Ok(opened.map(|verified| Stored(Arc::new(verified))))
    }

    /// What proves chunks of an object.
    ///
    /// Cancel safe.
    pub(super) async fn prover(&self, stored: &Stored) -> Result<Arc<Prover>, StoreError> {
        let tree = Arc::clone(stored.0.tree());
        Ok(Arc::new(self.blocking.run("join an object's nodes", move || Prover::new(tree)).await?))
    }

    /// Reads chunks with their proofs.
    ///
    /// Cancel safe.
    pub(super) async fn prove(
        &self,
        stored: &Stored,
        prover: &Arc<Prover>,
        ranges: Vec<Range<u64>>,
    ) -> Result<Vec<Data>, StoreError> {
        let (cas, verified, prover) = (Arc::clone(&self.cas), Arc::clone(&stored.0), Arc::clone(prover));
        let prove = move || {
            let read = ranges.into_iter().map(|range| {
                let body = verified.read(range.clone())?;
                Data::prove(&prover, range, body).map_err(|_| ReadError::OutOfRange)
            });
            looked_at(&cas, verified.id(), read.collect())
        };
        Ok(self.blocking.run("read and prove chunks", prove).await??)
    }

    /// Reads bytes of an object.
    ///
    /// Cancel safe.
    pub(super) async fn read(&self, stored: &Stored, range: Range<u64>) -> Result<Bytes, StoreError> {
        let (cas, verified) = (Arc::clone(&self.cas), Arc::clone(&stored.0));
        let read = move || looked_at(&cas, verified.id(), verified.read(range));
        Ok(self.blocking.run("read a piece", read).await??)
    }

    /// Begins an object. Given up, its file is removed on a thread of the pool.
    ///
    /// Cancel safe.
    pub(super) async fn writer(&self) -> Result<BlockingDrop<Writer>, StoreError> {
        let (cas, blocking) = (Arc::clone(&self.cas), self.blocking.clone());
        let begin = move || cas.begin().map(|writer| blocking.drop_on_pool("give an object up", writer));
        Ok(self.blocking.run("begin an object", begin).await??)
    }

    /// Does something with an object that is being written.
    ///
    /// Cancel safe in that nothing is left behind.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, WriteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.blocking.run("write an object", work).await??)
    }

    /// Begins to take an object from a peer; it is kept if `keeps`.
    ///
    /// Cancel safe.
    pub(super) async fn begin(&self, checker: Checker, keeps: bool) -> Result<Arriving, StoreError> {
        let writer = if keeps { Some(self.writer().await?) } else { None };
        Ok(Arriving { checker, writer })
    }

    /// Checks chunks and keeps them. What was asked for of them comes back, with the object as far as it has come.
    ///
    /// Cancel safe: if it is dropped the object is given up.
    pub(super) async fn take(
        &self,
        mut arriving: Arriving,
        chunks: Vec<Data>,
    ) -> Result<(Arriving, Vec<Bytes>), StoreError> {
        let take = move || {
            let mut pieces = Vec::with_capacity(chunks.len());
            for chunk in &chunks {
                let piece = arriving.checker.check(chunk)?;
                if let Some(writer) = &mut arriving.writer {
                    writer.write(&piece)?;
                }
                pieces.push(piece);
            }
            Ok((arriving, pieces))
        };
        self.blocking.run("check chunks", take).await?
    }

    /// All has come: what is to be kept is stored when this returns.
    ///
    /// Cancel safe in that the object is stored or not; nobody hears which.
    pub(super) async fn finish(&self, arriving: Arriving) -> Result<(), StoreError> {
        arriving.checker.finish()?;
        let Some(writer) = arriving.writer else { return Ok(()) };
        self.write(move || writer.into_inner().commit()).await.map(drop)
    }
}

impl Stored {
    /// Returns the length of the object in bytes.
    pub(super) fn len(&self) -> u64 {
        self.0.len()
    }
}

/// Sets an object aside that was found to be damaged. Blocking.
fn looked_at<T>(cas: &Cas, id: ObjectId, read: Result<T, ReadError>) -> Result<T, ReadError> {
    if let Err(ReadError::Corrupt { .. }) = read {
        match cas.quarantine(id) {
            Ok(fate) => tracing::warn!(%id, ?fate, "an object of the store seems damaged"),
            Err(error) => tracing::error!(%id, %error, "a damaged object could not be quarantined"),
        }
    }
    read
}

//! Bodies that are to be given out: from memory, or read from the disk and verified.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use cas::{Cas, ReadError, Verified};
use ron_kernel::lock::{Ranked, RankedGuard};
use tokio::sync::watch;
use types::ObjectId;

use super::{Entry, ResponseCache};
use crate::{buffers::Reserved, locks, tenant::Tenant};

/// Bodies up to this length are given out without being kept from eviction: the connection buffers as much.
const UNPINNED: u64 = 64 * 1024;

/// The body of a stored response in memory, and what keeps it there.
#[derive(Clone, Debug, Default)]
pub(super) struct Loaded {
    pub(super) bytes: Bytes,
    /// Keeps it from making room; `None` if it is short.
    pub(super) pin: Option<Arc<Verified>>,
    /// What it takes if there was no room for it among the bodies in memory.
    pub(super) reserved: Option<Arc<Reserved>>,
}

/// Bodies that are being read from the disk, each of them once.
#[derive(Debug)]
pub(super) struct Loads(Ranked<HashMap<ObjectId, watch::Receiver<()>>>);

impl Default for Loads {
    fn default() -> Self {
        Self(Ranked::new(&locks::CACHE_LOADS, HashMap::new()))
    }
}

/// The turn to read a body.
struct Turn {
    loads: Arc<Loads>,
    id: ObjectId,
    /// Dropped with the turn, which wakes those who wait.
    _done: watch::Sender<()>,
}

/// What came of reading a body.
enum ReadBody {
    /// The whole body.
    Whole(Bytes, Option<Verified>),
    /// It is not there, or is not what was stored.
    Gone { is_damaged: bool },
    /// The body cannot be read now.
    Unreadable,
}

impl ResponseCache {
    /// A body that is in memory; `None` if it is not.
    pub(super) fn in_memory(&self, entry: &Entry) -> Option<Loaded> {
        let Some(body) = entry.body else { return Some(Loaded::default()) };
        if entry.len <= UNPINNED {
            let bytes = self.bodies.bytes(body).filter(|bytes| bytes.len() as u64 == entry.len)?;
            return Some(Loaded { bytes, pin: None, reserved: None });
        }
        let stored = self.bodies.open(body).ok().flatten().filter(|stored| stored.len() == entry.len)?;
        // In memory nothing blocks: the bytes are here and were checked when they came.
        let bytes = stored.read_all().ok()?;
        Some(Loaded { bytes, pin: Some(Arc::new(stored)), reserved: None })
    }

    /// A body from memory or from the disk; `None` if it cannot be had. What is damaged or gone is removed from the index.
    ///
    /// Cancel safe.
    pub(super) async fn load(&self, entry: &Arc<Entry>, tenant: &Arc<Tenant>) -> Option<Loaded> {
        if let Some(loaded) = self.in_memory(entry) {
            return Some(loaded);
        }
        let (Some(id), Some(disk)) = (entry.body, self.disk.get().filter(|_| entry.is_on_disk())) else {
            // It had to make room for others, and nothing else has it.
            self.index.remove(entry);
            return None;
        };
        let _turn = match self.loads.turn(id) {
            Ok(turn) => Some(turn),
            Err(mut others) => {
                // It ends with an error, when the turn is dropped.
                let _ = others.changed().await;
                if let Some(loaded) = self.in_memory(entry) {
                    return Some(loaded);
                }
                None
            }
        };
        let reserved = self.memory.reserve(tenant, entry.len)?;
        let (disk, bodies, len) = (Arc::clone(disk), Arc::clone(&self.bodies), entry.len);
        let read = self.blocking.run("read the cache", move || read(&disk, &bodies, id, len)).await;
        match read.unwrap_or(ReadBody::Unreadable) {
            ReadBody::Whole(bytes, pin) => {
                self.counts.disk_reads.inc();
                let reserved = pin.is_none().then(|| Arc::new(reserved));
                Some(Loaded { bytes, pin: pin.filter(|_| entry.len > UNPINNED).map(Arc::new), reserved })
            }
            ReadBody::Gone { is_damaged } => {
                if is_damaged {
                    self.counts.damaged_bodies.inc();
                    tracing::warn!(%id, "a stored body was damaged, and was set aside");
                }
                self.index.remove(entry);
                None
            }
            ReadBody::Unreadable => None,
        }
    }
}

impl Loads {
    fn turn(self: &Arc<Self>, id: ObjectId) -> Result<Turn, watch::Receiver<()>> {
        let mut all = self.all();
        if let Some(others) = all.get(&id) {
            return Err(others.clone());
        }
        let (done, others) = watch::channel(());
        all.insert(id, others);
        Ok(Turn { loads: Arc::clone(self), id, _done: done })
    }

    fn all(&self) -> RankedGuard<'_, HashMap<ObjectId, watch::Receiver<()>>> {
        self.0.lock()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.loads.all().remove(&self.id);
    }
}

/// Reads a body from the disk, verified, and keeps it in memory if there is room. Blocking.
fn read(disk: &Cas, bodies: &Cas, id: ObjectId, len: u64) -> ReadBody {
    let read = disk.open(id).and_then(|found| found.map(|object| object.read_all()).transpose());
    match read {
        Ok(Some(bytes)) if bytes.len() as u64 == len => {
            let kept = bodies.put(&bytes).ok().and_then(|_| bodies.open(id).ok().flatten());
            ReadBody::Whole(bytes, kept)
        }
        // The record says another length: one of the two is wrong.
        Ok(Some(_)) => ReadBody::Gone { is_damaged: true },
        Ok(None) => ReadBody::Gone { is_damaged: false },
        Err(ReadError::Io(error)) => {
            tracing::warn!(%error, %id, "a stored body cannot be read");
            ReadBody::Unreadable
        }
        Err(ReadError::Corrupt { .. } | ReadError::OutOfRange) => {
            // Set aside for a look at it, so that it can be rewritten.
            let _ = disk.quarantine(id);
            ReadBody::Gone { is_damaged: true }
        }
    }
}

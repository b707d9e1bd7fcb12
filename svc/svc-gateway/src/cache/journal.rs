//! What the disk has still to be told of stored responses: which are new, and which are gone.
//!
//! Cores change the index in memory and note here what they did; the writer follows. A response that is not written in time
//! is stored in memory alone. A removal is never left out, because what was removed must not come back with the next start.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use cas::Verified;
use ron_kernel::{
    lock::{Ranked, RankedGuard},
    queue::Sender,
    topology::{Policy, QueueSpec},
};
use tokio::sync::{Notify, watch};

use super::entry::Entry;
use crate::locks;

/// The queue of the task that writes responses to disk.
pub(crate) const CACHE_WRITES: QueueSpec = QueueSpec {
    name: "cache_writes",
    capacity: 1024,
    policy: Policy::RejectNew,
    from: "cache_fill",
    to: "cache_writer",
    doc: "responses to be written to the disk, an eighth of the cache's memory at most; responses that do not fit are \
     stored in memory only",
};

/// It is not on the disk.
const UNWRITTEN: u8 = 0;
/// The writer is to write it, or is writing it.
const QUEUED: u8 = 1;
/// The response is on disk.
const WRITTEN: u8 = 2;
/// It is to be removed from the disk, or is not to be written there.
const GONE: u8 = 3;

/// What the disk has still to be told.
#[derive(Debug)]
pub(super) struct Journal {
    writes: Sender<Unwritten>,
    /// Whether the writer task is running.
    is_open: AtomicBool,
    /// Whether nothing is written any more.
    has_ended: AtomicBool,
    /// Whether something was purged before the disk could be used, of which nobody knows whether it has that.
    purged_early: AtomicBool,
    next_id: AtomicU64,
    pending_bytes: AtomicU64,
    max_pending: u64,
    removals: Ranked<Pending>,
    changed: Notify,
    /// Up to which number removals are on the disk.
    settled: watch::Sender<u64>,
}

/// Removals that are to be written. No more than there are responses on the disk.
#[derive(Debug, Default)]
struct Pending {
    ids: Vec<u64>,
    /// Those that the writer has begun with. If it dies, they are begun with again.
    begun: Vec<u64>,
    /// How often somebody has waited for all removals before.
    waits: u64,
    /// Up to which of these waits everything is on the disk.
    settled: u64,
    /// The last wait until everything outlasts a power cut.
    last_sync: u64,
}

/// Removals that are to be written now.
#[derive(Clone, Debug, Default)]
pub(super) struct Removals {
    pub(super) ids: Vec<u64>,
    /// The waits that end with them.
    waits: u64,
    /// Whether somebody waits until they outlast a power cut.
    pub(super) sync: bool,
}

/// A response that is to be written.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) entry: Arc<Entry>,
    /// Its body in memory, which stays there until it is written.
    pub(super) body: Option<Verified>,
    /// The records in whose place it is.
    pub(super) replaces: Vec<u64>,
    journal: Arc<Journal>,
}

/// The place of a response on the disk. When it is dropped, the response is removed there.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: u64,
    state: AtomicU8,
    journal: Arc<Journal>,
}

impl Journal {
    /// A journal of a process that began at this time since 1970. Its records have other numbers than those that it will find on
    /// the disk, because some responses are stored before the disk can be used: no node stores a response every microsecond, so
    /// that one which counts from its microsecond is ahead of all before it.
    pub(super) fn new(writes: Sender<Unwritten>, max_pending: u64, began: Duration) -> Arc<Self> {
        let first = u64::try_from(began.as_micros()).unwrap_or(u64::MAX / 2).max(1);
        Arc::new(Self {
            writes,
            is_open: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            purged_early: AtomicBool::new(false),
            next_id: AtomicU64::new(first),
            pending_bytes: AtomicU64::new(0),
            max_pending,
            removals: Ranked::new(&locks::CACHE_JOURNAL, Pending::default()),
            changed: Notify::new(),
            settled: watch::Sender::new(0),
        })
    }

    /// Says whether somebody writes. Before that and after it nothing is queued.
    pub(super) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Release);
    }

    /// Hears of a purge while the disk cannot be used.
    pub(super) fn purge_early(&self) {
        self.purged_early.store(true, Ordering::SeqCst);
    }

    /// Whether there was a purge while the disk could not be used.
    pub(super) fn was_purged_early(&self) -> bool {
        self.purged_early.load(Ordering::SeqCst)
    }

    /// A place on the disk for a new response.
    pub(super) fn record(self: &Arc<Self>) -> Record {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        Record { id, state: AtomicU8::new(UNWRITTEN), journal: Arc::clone(self) }
    }

    /// The place of a response that was found on the disk.
    pub(super) fn found(self: &Arc<Self>, id: u64) -> Record {
        self.next_id.fetch_max(id + 1, Ordering::Relaxed);
        Record { id, state: AtomicU8::new(WRITTEN), journal: Arc::clone(self) }
    }

    /// Has a response written, if there is room in the queue.
    pub(super) fn write(self: &Arc<Self>, entry: &Arc<Entry>, body: Option<Verified>, replaces: Vec<u64>) {
        let Some(record) = entry.record.as_ref().filter(|_| self.is_open.load(Ordering::Acquire)) else {
            return;
        };
        let pending = self.pending_bytes.fetch_add(entry.len, Ordering::Relaxed) + entry.len;
        let unwritten = Unwritten { entry: Arc::clone(entry), body, replaces, journal: Arc::clone(self) };
        // Dropping it gives the bytes back.
        if pending > self.max_pending || !record.moves(UNWRITTEN, QUEUED) {
            return;
        }
        // What is refused is dropped, and stays in memory.
        let _ = self.writes.try_send(unwritten);
    }

    /// The removals that are to be written, those of a writer that died among them.
    pub(super) fn begin_removals(&self) -> Removals {
        let mut pending = self.removals();
        let Pending { ids, begun, .. } = &mut *pending;
        begun.append(ids);
        let sync = pending.last_sync > pending.settled;
        Removals { ids: pending.begun.clone(), waits: pending.waits, sync }
    }

    /// Waits until there are removals to be written.
    ///
    /// Cancel safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// These removals are on the disk.
    pub(super) fn settle(&self, done: &Removals) {
        let mut pending = self.removals();
        pending.begun.clear();
        pending.settled = done.waits;
        drop(pending);
        self.settled.send_replace(done.waits);
    }

    /// Whether there are removals that are not on the disk yet.
    pub(super) fn is_behind(&self) -> bool {
        let pending = self.removals();
        !pending.ids.is_empty() || !pending.begun.is_empty()
    }

    /// Wakes the writer, which could not do what it had begun with.
    pub(super) fn try_again(&self) {
        self.changed.notify_one();
    }

    /// Nothing is taken any more but what is to be written already.
    pub(super) fn close(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.set_open(false);
    }

    /// Nothing is written any more, and nobody has to wait.
    pub(super) fn end(&self) {
        self.close();
        self.settled.send_replace(u64::MAX);
    }

    /// Has removals written so far outlast the process, and if `sync` a power cut as well; waits until they do. Whether they do: not
    /// if nothing is written any more.
    ///
    /// Cancel safe.
    pub(super) async fn settled(&self, sync: bool) -> bool {
        if !self.is_open.load(Ordering::Acquire) {
            return !self.has_ended.load(Ordering::Acquire);
        }
        let mut settled = self.settled.subscribe();
        let number = {
            let mut pending = self.removals();
            pending.waits += 1;
            if sync {
                pending.last_sync = pending.waits;
            }
            pending.waits
        };
        self.changed.notify_one();
        // An error would say that the journal is gone, which it is not.
        let _ = settled.wait_for(|settled| *settled >= number).await;
        self.removals().settled >= number
    }

    fn remove(&self, id: u64) {
        if !self.is_open.load(Ordering::Acquire) {
            return;
        }
        self.removals().ids.push(id);
        self.changed.notify_one();
    }

    fn removals(&self) -> RankedGuard<'_, Pending> {
        self.removals.lock()
    }
}

impl Record {
    /// Removes the response from the disk, or keeps it from being written; whether there is anything to wait for.
    pub(super) fn remove(&self) -> bool {
        match self.state.swap(GONE, Ordering::AcqRel) {
            WRITTEN => {
                self.journal.remove(self.id);
                true
            }
            state => state == QUEUED,
        }
    }

    /// A place for the response that comes after this one.
    pub(super) fn another(&self) -> Self {
        self.journal.record()
    }

    /// Whether the response is on the disk.
    pub(super) fn is_written(&self) -> bool {
        self.state.load(Ordering::Acquire) == WRITTEN
    }

    /// Whether the writer is still to write it.
    pub(super) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Acquire) == QUEUED
    }

    /// The writer has written the response; false if it was removed meanwhile.
    pub(super) fn written(&self) -> bool {
        self.moves(QUEUED, WRITTEN)
    }

    fn moves(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        if let Some(record) = &self.entry.record {
            record.moves(QUEUED, UNWRITTEN);
        }
        self.journal.pending_bytes.fetch_sub(self.entry.len, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use ron_kernel::Kernel;

    #[test]
    fn what_is_removed_after_the_end_is_not_said_to_be_settled() {
        let kernel = Kernel::builder("test").build().unwrap();
        let (writes, _inbox) = kernel.scope(&crate::TOPOLOGY).queue(&CACHE_WRITES, "");
        let journal = Journal::new(writes, 1, Duration::ZERO);
        kernel.block_on(async {
            assert!(journal.settled(true).await, "nothing is on a disk yet");
            journal.set_open(true);
            let mut waits = Box::pin(journal.settled(true));
            assert!((&mut waits).now_or_never().is_none());
            journal.settle(&journal.begin_removals());
            assert!(waits.await, "it is on the disk");
            let mut late = Box::pin(journal.settled(true));
            assert!((&mut late).now_or_never().is_none());
            journal.end();
            assert!(!late.await, "it was not written any more");
            assert!(!journal.settled(true).await);
        });
    }
}

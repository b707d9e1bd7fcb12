//! The disk behind the cache: bodies in a content store, and a log of what the index says of them.
//!
//! ```text
//! gateway-cache/objects/      bodies, by the hash of their bytes
//! gateway-cache/index.log     which responses were stored and removed, each record sealed
//! gateway-cache/index.key     the key of the hashes that stand in the log for cookies and other values that select responses
//! ```
//!
//! A body is written before the record that names it, so that every record that a crash leaves has its body, or one that had
//! to make room and is fetched again. Nothing of a record is given out without its body having the hash and the length that
//! the record says.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Arc, Weak},
};

use cas::{Cas, Limits, LogEnd, LogError, OpenError, RecordLog, Verified, WriteError};
use httpcache::{
    record::{Change, StoredResponse},
    variant::VariantKey,
};
use types::ObjectId;

use super::{
    entry::Entry,
    journal::{Removals, Unwritten},
};

/// The cache's folder in the node's data.
const FOLDER: &str = "gateway-cache";
/// A log is rewritten when it is this long and most of it is out of date.
const REWRITE_FROM: u64 = 1 << 20;
/// Responses that one record says are removed.
const REMOVED_AT_ONCE: usize = 4096;

/// Why the cache's folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheStoreError {
    /// The content store cannot be used.
    #[error("{0}")]
    Objects(#[from] OpenError),
    /// The index cannot be used.
    #[error("{0}")]
    Index(#[from] LogError),
}

impl CacheStoreError {
    /// Whether it is worth trying again later: another process uses it, or the disk cannot be written to.
    pub(super) fn may_pass(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match self {
            Self::Objects(error) => error.is_full(),
            Self::Index(LogError::InUse { .. }) => true,
            Self::Index(LogError::Io { source, .. }) => {
                matches!(source.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
            }
        }
    }
}

/// What was found on the disk.
#[derive(Debug)]
pub(super) struct Found {
    /// Responses by the numbers of their records, the oldest first.
    pub(super) responses: BTreeMap<u64, StoredResponse>,
    /// Whether removals may be missing, so that each response has to be validated before it is reused.
    pub(super) is_unsure: bool,
    /// Records that were not what was written.
    pub(super) damaged: u64,
    /// The key of the hashes that select them.
    pub(super) key: Arc<VariantKey>,
}

/// The disk as its writer sees it. Everything blocks.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) objects: Arc<Cas>,
    log: RecordLog,
    key: Arc<VariantKey>,
    /// What the log says is stored.
    live: HashMap<u64, Live>,
    /// How many of those have this body.
    references: HashMap<ObjectId, u32>,
    /// What their records take in the log.
    live_bytes: u64,
}

#[derive(Debug)]
struct Live {
    entry: Weak<Entry>,
    body: Option<ObjectId>,
    bytes: u64,
}

impl Disk {
    /// Opens the cache's folder in the node's data.
    ///
    /// # Errors
    /// [`CacheStoreError`].
    #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
    pub(super) fn open(data_dir: &Path, limits: Limits) -> Result<(Self, Found), CacheStoreError> {
        let folder = data_dir.join(FOLDER);
        let refused = |source| OpenError::Io { path: folder.clone(), source };
        std::fs::create_dir_all(&folder).map_err(refused)?;
        let mut found =
            Found { responses: BTreeMap::new(), is_unsure: false, damaged: 0, key: Arc::default() };
        let (log, end) = RecordLog::open(&folder.join("index.log"), |record| found.follow(record))?;
        if let LogEnd::Unsure { is_damaged } = end {
            found.is_unsure = true;
            found.damaged += u64::from(is_damaged);
        }
        // Once the log is open, which only one process has.
        let key = Arc::new(key_of(&folder.join("index.key")).map_err(refused)?);
        found.key = Arc::clone(&key);
        let objects = Arc::new(Cas::of_losable_objects_at(&folder.join("objects"), limits)?);
        let disk =
            Self { objects, log, key, live: HashMap::new(), references: HashMap::new(), live_bytes: 0 };
        Ok((disk, found))
    }

    /// Begins to follow the index, of which these responses were found on the disk: whatever else there is, is removed.
    ///
    /// # Errors
    /// What the system said; then nothing is stored.
    pub(super) fn begin(&mut self, kept: &[Arc<Entry>]) -> io::Result<()> {
        for entry in kept {
            self.adopt(entry, 0);
        }
        self.rewrite().inspect_err(|_| self.forget_all())?;
        for id in self.objects.ids() {
            if !self.references.contains_key(&id) {
                self.objects.remove(id)?;
            }
        }
        Ok(())
    }

    /// Writes what has changed. Responses that could not be written stay in memory; removals are always done, at worst by
    /// forgetting everything that is on the disk.
    ///
    /// # Errors
    /// Why something could not be written.
    pub(super) fn follow(&mut self, removals: &Removals, batch: &[Unwritten]) -> Result<(), String> {
        // Before removals, so that a body that both have stays.
        let written = self.begin_anew().and_then(|()| self.write(batch));
        let removed = self.remove(&removals.ids);
        let synced = if removals.sync && !self.log.is_empty() { self.log.sync() } else { Ok(()) };
        let compacted = self.compact();
        written.and(removed).map_err(|error| error.to_string())?;
        synced.and(compacted).map_err(|error| error.to_string())
    }

    /// Says in the log that it is complete.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn close(self) -> io::Result<()> {
        if self.log.is_empty() { Ok(()) } else { self.log.close() }
    }

    /// Removes responses from the log, and then the bodies that nothing else has.
    fn remove(&mut self, ids: &[u64]) -> Result<(), WriteError> {
        let known: Vec<u64> = ids.iter().copied().filter(|id| self.live.contains_key(id)).collect();
        if known.is_empty() {
            return Ok(());
        }
        let records: Vec<Vec<u8>> =
            known.chunks(REMOVED_AT_ONCE).map(|ids| Change::Remove(ids.to_vec()).encode()).collect();
        if let Err(error) = self.log.append(records.iter().map(Vec::as_slice)) {
            self.forget_all();
            return Err(error.into());
        }
        let mut unused = Vec::new();
        for id in known {
            unused.extend(self.abandon(id));
        }
        for body in unused {
            self.objects.remove(body)?;
        }
        Ok(())
    }

    /// Writes bodies and then the records that name them.
    fn write(&mut self, batch: &[Unwritten]) -> Result<(), WriteError> {
        let (mut records, mut entries, mut failed) = (Vec::new(), Vec::new(), None);
        for Unwritten { entry, body, replaces, .. } in batch {
            let Some(record) = entry.record.as_ref().filter(|record| record.is_wanted()) else { continue };
            let is_there =
                entry.body.is_none_or(|id| self.references.contains_key(&id) && self.objects.contains(id));
            match body {
                _ if is_there => {}
                Some(body) => {
                    if let Err(error) = self.put(body) {
                        // Others may be smaller.
                        failed = Some(error);
                        continue;
                    }
                }
                None => continue,
            }
            let response = Box::new(entry.stored(&self.key));
            records.push(Change::Put { id: record.id, replaces: replaces.clone(), response }.encode());
            entries.push(entry);
        }
        self.log.append(records.iter().map(Vec::as_slice))?;
        let mut gone = Vec::new();
        for (entry, bytes) in entries.into_iter().zip(&records) {
            self.adopt(entry, bytes.len() as u64);
            let record = entry.record.as_ref();
            gone.extend(record.filter(|record| !record.written()).map(|record| record.id));
        }
        self.remove(&gone)?;
        failed.map_or(Ok(()), Err)
    }

    fn put(&self, body: &Verified) -> Result<(), WriteError> {
        let bytes = body.read_all().map_err(io::Error::other)?;
        self.objects.put(&bytes).map(drop)
    }

    fn adopt(&mut self, entry: &Arc<Entry>, bytes: u64) {
        let Some(record) = &entry.record else { return };
        if let Some(body) = entry.body {
            *self.references.entry(body).or_default() += 1;
        }
        self.live_bytes += bytes;
        self.live.insert(record.id, Live { entry: Arc::downgrade(entry), body: entry.body, bytes });
    }

    /// Lets go of a response that is no longer in the log; its body, if nothing else has it.
    fn abandon(&mut self, id: u64) -> Option<ObjectId> {
        let live = self.live.remove(&id)?;
        self.live_bytes = self.live_bytes.saturating_sub(live.bytes);
        let body = live.body?;
        let count = self.references.get_mut(&body)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.references.remove(&body);
        Some(body)
    }

    /// Forgets everything, because a removal could not be written: nothing may come back with the next start.
    fn forget_all(&mut self) {
        if let Err(error) = self.log.clear() {
            tracing::error!(%error, "the index of the cache can neither be written nor emptied");
        }
        self.live.clear();
        self.references.clear();
        self.live_bytes = 0;
        for id in self.objects.ids() {
            // What stays is evicted in its time; nothing leads to it.
            let _ = self.objects.remove(id);
        }
    }

    /// Begins the log again after everything was forgotten.
    fn begin_anew(&mut self) -> Result<(), WriteError> {
        if self.log.is_empty() {
            self.log.rewrite([])?;
        }
        Ok(())
    }

    /// Rewrites the log if most of it is out of date.
    fn compact(&mut self) -> io::Result<()> {
        if self.log.len() < REWRITE_FROM.max(self.live_bytes.saturating_mul(2)) {
            return Ok(());
        }
        self.rewrite()
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let entry_of = |live: &Live| live.entry.upgrade().filter(|entry| entry.is_on_disk());
        let mut kept: Vec<(u64, Arc<Entry>)> =
            self.live.iter().filter_map(|(id, live)| Some((*id, entry_of(live)?))).collect();
        kept.sort_unstable_by_key(|(id, _)| *id);
        let mut bytes = HashMap::with_capacity(kept.len());
        self.log.rewrite(kept.iter().map(|(id, entry)| {
            let response = Box::new(entry.stored(&self.key));
            let record = Change::Put { id: *id, replaces: Vec::new(), response }.encode();
            bytes.insert(*id, record.len() as u64);
            record
        }))?;
        let gone: Vec<u64> = self.live.keys().copied().filter(|id| !bytes.contains_key(id)).collect();
        let mut unused = Vec::new();
        for id in gone {
            unused.extend(self.abandon(id));
        }
        for (id, live) in &mut self.live {
            live.bytes = bytes.get(id).copied().unwrap_or_default();
        }
        self.live_bytes = bytes.values().sum();
        for body in unused {
            self.objects.remove(body)?;
        }
        Ok(())
    }
}

/// The key of hashes, which is rebuilt if there is none: then what was stored before fits no request.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn key_of(file: &Path) -> io::Result<VariantKey> {
    if let Some(key) = std::fs::read(file).ok().and_then(|bytes| bytes.try_into().ok()) {
        return Ok(key);
    }
    let mut key = VariantKey::default();
    aws_lc_rs::rand::fill(&mut key).map_err(io::Error::other)?;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(file)?;
    file.write_all(&key)?;
    Ok(key)
}

impl Found {
    /// Follows a record of the log.
    fn follow(&mut self, record: &[u8]) {
        match Change::decode(record) {
            Some(Change::Put { id, replaces, response }) => {
                for id in replaces {
                    self.responses.remove(&id);
                }
                self.responses.insert(id, *response);
            }
            Some(Change::Remove(ids)) => ids.iter().for_each(|id| drop(self.responses.remove(id))),
            // It is what was written, but not by a version that writes such records.
            None => {
                self.damaged += 1;
                self.is_unsure = true;
            }
        }
    }
}

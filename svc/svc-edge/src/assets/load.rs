//! From a path to a file that can be served: read and hashed at first sight, looked at again once a second.
//!
//! A file's bytes are trusted as they are first seen. From then on, as long as its inode, length and times of creation,
//! modification and change are the same, they must hash to the same: what differs then is damage, and is not served. A file
//! that is written over while it is served is changed, not damaged: what was promised of it breaks off, and the next request
//! gets what is there.

use std::{
    fs::File,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use b3tree::Builder;
use bytes::Bytes;
use cas::{BuildError, Verified};
use http::HeaderValue;
use quick_cache::sync::Cache;
use ron_kernel::{Clock, Scope, Shutdown};
use types::{Moment, ObjectId, Reason, Refusal};

use super::{
    Damages, HashingTurn, Unsettled,
    root::{Found, OpenFile, Root},
    siblings::{Sibling, SiblingKind, decodes_to},
};
use crate::{
    RootConfig,
    file_stat::{FileStat, GRAIN},
    ram::{Of, Ready},
    serve::{Owner, Representation, Source, tag},
};

/// How long a file is served without another look at it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Files up to this length are kept in RAM as a whole.
const SMALL: u64 = 1024 * 1024;
/// How often a file that changes while it is read is read again.
const TRIES: usize = 3;
/// The longest file: its tree takes 32 MiB of RAM.
const LONGEST: u64 = 16 << 30;
/// How many files' hashes are remembered, beyond those that are in RAM. About 150 bytes each.
const REMEMBERED: usize = 65_536;

/// The folders that are served, of one configuration.
#[derive(Debug)]
pub(crate) struct Roots {
    roots: Box<[Root]>,
    /// What each path's file hashed to, and when that was so.
    seen: Cache<Box<str>, (FileStat, ObjectId)>,
    /// Set when another configuration is in force.
    retired: AtomicBool,
    clock: Clock,
    shutdown: Shutdown,
    damages: Arc<Damages>,
}

/// The result of loading a path.
#[derive(Clone, Debug)]
pub(crate) enum Loaded {
    /// A file with its hash tree.
    File(Arc<Ready>),
    /// A large file that has to be hashed, for which nobody has a turn yet.
    Unhashed,
    /// A folder: it is asked for with a slash at its end.
    Folder,
    /// There is no such file.
    Nothing,
}

/// A file that was loaded: by what it is known to be the same, and when that was last looked at.
#[derive(Debug)]
pub(crate) struct FileRecord {
    roots: Arc<Roots>,
    path: Box<str>,
    stat: FileStat,
    /// The siblings that there were, used or not.
    siblings: Box<[(SiblingKind, FileStat)]>,
    /// Whether the times say for sure that the bytes are the same.
    settled: bool,
    looked_at: AtomicU64,
    /// Whether its bytes were found to be others: damaged, or changed.
    outdated: AtomicBool,
}

impl FileRecord {
    /// What the settler needs to hash it once more; `None` if its times have settled.
    pub(crate) fn unsettled(&self) -> Option<Unsettled> {
        if self.settled {
            return None;
        }
        let clock = self.roots.clock;
        let changed = self.siblings.iter().map(|(_, stat)| stat.changed()).chain([self.stat.changed()]);
        let settles = Duration::from_secs(changed.max().unwrap_or_default() + 1) + GRAIN;
        let due = clock.now().after(settles.saturating_sub(clock.unix()));
        Some(Unsettled { roots: Arc::clone(&self.roots), path: self.path.clone(), due })
    }

    /// Whether it can be served without another look. When one is due, whoever asks first is told no, and has to look;
    /// all others go on with what is known until that is done.
    pub(crate) fn is_fresh(&self, now: Moment) -> bool {
        if self.outdated.load(Ordering::Relaxed) || self.roots.retired.load(Ordering::Relaxed) {
            return false;
        }
        let looked_at = self.looked_at.load(Ordering::Relaxed);
        now.since(Moment::from_nanos(looked_at)) < LOOK_EVERY || {
            let taken = self.looked_at.compare_exchange(
                looked_at,
                now.as_nanos(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            taken.is_err()
        }
    }

    /// Hears that whoever was told to look at it could not: the next who asks is told to.
    pub(crate) fn not_looked_at(&self) {
        self.looked_at.store(0, Ordering::Relaxed);
    }

    fn look(&self) {
        self.looked_at.store(self.roots.clock.now().as_nanos(), Ordering::Relaxed);
    }
}

impl Owner for FileRecord {
    fn damaged(&self, why: &str) {
        self.outdated.store(true, Ordering::Relaxed);
        self.roots.damages.found(&format!("file {}", self.path), why);
    }

    fn has_changed(&self, verified: &Verified) -> bool {
        verified.file().and_then(FileStat::of).is_some_and(|stat| stat != self.stat)
    }

    fn changed(&self) {
        self.outdated.store(true, Ordering::Relaxed);
        tracing::info!(path = &*self.path, "a file was changed while it was served");
    }
}

impl Roots {
    pub(crate) fn new(configs: &[RootConfig], scope: &Scope, damages: Arc<Damages>) -> Arc<Self> {
        Arc::new(Self {
            roots: configs.iter().cloned().map(Root::new).collect(),
            seen: Cache::new(REMEMBERED),
            retired: AtomicBool::new(false),
            clock: scope.clock(),
            shutdown: scope.shutdown().clone(),
            damages,
        })
    }

    /// Another configuration is in force: what was loaded under this one is looked up again.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether these are the folders that are configured so.
    pub(crate) fn is_of(&self, configs: &[RootConfig]) -> bool {
        self.roots.iter().map(Root::config).eq(configs)
    }

    /// Returns true if no folder is configured.
    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Loads the file that a decoded path names, unless it is the `known` one still. A large file is hashed only with a `turn`.
    /// Blocking.
    ///
    /// # Errors
    /// It is there, but cannot be served.
    pub(crate) fn load(
        self: &Arc<Self>,
        path: &str,
        known: Option<&Arc<Ready>>,
        turn: Option<&HashingTurn>,
    ) -> Result<Loaded, Refusal> {
        for _ in 0..TRIES {
            let file = match self.open(path)? {
                Found::File(file) => file,
                Found::Folder => return Ok(Loaded::Folder),
                Found::Nothing => return Ok(Loaded::Nothing),
            };
            if let Some(same) = known.filter(|known| self.is_same(known, &file)) {
                return Ok(Loaded::File(Arc::clone(same)));
            }
            if file.stat.len > LONGEST {
                return Err(Refusal::new(
                    Reason::Internal,
                    "the file is longer than 16 GiB: serve it in parts",
                ));
            }
            // Its siblings are shorter than it is.
            if turn.is_none() && file.stat.len > SMALL {
                return Ok(Loaded::Unhashed);
            }
            if let Some(ready) = self.read(path, file)? {
                return Ok(Loaded::File(Arc::new(ready)));
            }
        }
        Err(Refusal::new(Reason::Internal, "the file changes all the time").retry_after(LOOK_EVERY))
    }

    /// Hashes a file once more, and holds it to that; a large one only with a `turn`. Whether it has been done. Blocking.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    pub(super) fn settle(self: &Arc<Self>, path: &str, turn: Option<&HashingTurn>) -> Result<bool, Refusal> {
        if self.retired.load(Ordering::Relaxed) {
            return Ok(true);
        }
        self.load(path, None, turn).map(|loaded| !matches!(loaded, Loaded::Unhashed))
    }

    fn open(&self, path: &str) -> Result<Found, Refusal> {
        for root in &self.roots {
            match root.open(path) {
                Ok(Found::Nothing) => {}
                Ok(found) => return Ok(found),
                Err(error) => {
                    tracing::warn!(path, %error, "a file could not be opened");
                    return Err(Refusal::new(Reason::Internal, "the file cannot be opened"));
                }
            }
        }
        Ok(Found::Nothing)
    }

    /// Whether what is known is of this configuration and of a file in this state.
    fn is_same(&self, known: &Ready, file: &OpenFile) -> bool {
        let Of::File(record) = &known.of else { return false };
        let same = record.settled
            && record.stat == file.stat
            && file
                .siblings
                .iter()
                .map(|sibling| (sibling.kind, sibling.stat))
                .eq(record.siblings.iter().copied())
            && !record.outdated.load(Ordering::Relaxed)
            && std::ptr::eq(&*record.roots, self);
        if same {
            record.look();
        }
        same
    }

    /// Reads and hashes a file; `None` if it changed meanwhile.
    fn read(self: &Arc<Self>, path: &str, open: OpenFile) -> Result<Option<Ready>, Refusal> {
        let OpenFile { file, stat, media_type, siblings } = open;
        let settled =
            siblings.iter().map(|sibling| &sibling.stat).chain([&stat]).all(|stat| self.is_settled(stat));
        let record = Arc::new(FileRecord {
            roots: Arc::clone(self),
            path: path.into(),
            stat,
            siblings: siblings.iter().map(|sibling| (sibling.kind, sibling.stat)).collect(),
            settled,
            looked_at: AtomicU64::new(self.clock.now().as_nanos()),
            outdated: AtomicBool::new(false),
        });
        let owner: Arc<dyn Owner> = Arc::<FileRecord>::clone(&record);
        let Some((source, id)) = self.read_bytes(path, file, &stat, owner)? else { return Ok(None) };
        self.compare(path, &stat, id)?;
        let media_type = HeaderValue::from_static(media_type);
        let mut representation =
            Representation::new(source, tag(id), media_type.clone()).modified_at(stat.modified());
        let mut coded = Vec::new();
        for sibling in siblings {
            match self.read_sibling(&record, sibling, (id, stat.len), &media_type)? {
                Some(SiblingRead::Usable(sibling)) => coded.push(*sibling),
                Some(SiblingRead::Useless) => {}
                None => return Ok(None),
            }
        }
        coded.sort_by_key(Representation::len);
        representation.varies = !coded.is_empty();
        Ok(Some(Ready { representation: Some(representation), coded: coded.into(), of: Of::File(record) }))
    }

    /// Reads a file in a coding; `None` if it changed meanwhile.
    fn read_sibling(
        &self,
        of: &Arc<FileRecord>,
        Sibling { kind, file, stat }: Sibling,
        plain: (ObjectId, u64),
        media_type: &HeaderValue,
    ) -> Result<Option<SiblingRead>, Refusal> {
        let path = format!("{}.{}", of.path, kind.ending);
        let owner: Arc<dyn Owner> =
            Arc::new(SiblingRecord { of: Arc::clone(of), path: path.as_str().into(), stat });
        let Some((source, id)) = self.read_bytes(&path, file, &stat, owner)? else { return Ok(None) };
        if self.compare(&path, &stat, id).is_err() {
            return Ok(Some(SiblingRead::Useless));
        }
        if !decodes_to(&source, kind.coding, plain) {
            tracing::warn!(
                path,
                "a precompressed file is not used: it does not decode to the file beside it"
            );
            return Ok(Some(SiblingRead::Useless));
        }
        let mut representation =
            Representation::new(source, tag(id), media_type.clone()).modified_at(stat.modified());
        representation.coding = Some(HeaderValue::from_static(kind.name));
        representation.varies = true;
        Ok(Some(SiblingRead::Usable(Box::new(representation))))
    }

    /// Reads a file's bytes, or hashes those of a large one; `None` if it changed meanwhile.
    fn read_bytes(
        &self,
        path: &str,
        file: File,
        stat: &FileStat,
        owner: Arc<dyn Owner>,
    ) -> Result<Option<(Source, ObjectId)>, Refusal> {
        let read =
            if stat.len <= SMALL { read_small(&file, stat) } else { self.read_large(file, stat, owner) };
        read.map_err(|error| {
            tracing::warn!(path, error, "a file could not be read");
            Refusal::new(Reason::Internal, "the file cannot be read")
        })
    }

    /// Whether a file's times say for sure that its bytes are the same.
    fn is_settled(&self, stat: &FileStat) -> bool {
        stat.is_settled(self.clock.unix())
    }

    /// Holds a file to what it hashed to before, while nothing says that it was changed.
    fn compare(&self, path: &str, stat: &FileStat, id: ObjectId) -> Result<(), Refusal> {
        let (name, settled) = (format!("file {path}"), self.is_settled(stat));
        match self.seen.get(path) {
            Some((known, before)) if settled && known == *stat && before != id => {
                self.damages.found(&name, "its bytes changed, and nothing else of it did");
                return Err(Reason::Quarantined.into());
            }
            _ if settled => self.seen.insert(path.into(), (*stat, id)),
            _ => {}
        }
        self.damages.mended(&name);
        Ok(())
    }

    /// Hashes a large file.
    fn read_large(&self, file: File, stat: &FileStat, owner: Arc<dyn Owner>) -> Read {
        let again = file.try_clone().map_err(|error| error.to_string())?;
        let go_on = |_| match self.shutdown.is_draining() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let verified = match Verified::build(file, go_on) {
            Ok(verified) => verified,
            Err(BuildError::Io(error)) => return Err(error.to_string()),
            Err(BuildError::Stopped) => return Err("the node is stopping".to_owned()),
        };
        if FileStat::of(&again).as_ref() != Some(stat) || verified.len() != stat.len {
            return Ok(None);
        }
        let id = verified.id();
        Ok(Some((Source::Disk { verified: Arc::new(verified), owner }, id)))
    }
}

/// What a sibling turned out to be.
enum SiblingRead {
    /// The same as the file, in a coding.
    Usable(Box<Representation>),
    /// Damaged, or something else than the file.
    Useless,
}

/// Who answers for a large sibling: the record of the file, which is looked at again as a whole.
#[derive(Debug)]
struct SiblingRecord {
    of: Arc<FileRecord>,
    path: Box<str>,
    stat: FileStat,
}

impl Owner for SiblingRecord {
    fn damaged(&self, why: &str) {
        self.of.outdated.store(true, Ordering::Relaxed);
        self.of.roots.damages.found(&format!("file {}", self.path), why);
    }

    fn has_changed(&self, verified: &Verified) -> bool {
        verified.file().and_then(FileStat::of).is_some_and(|stat| stat != self.stat)
    }

    fn changed(&self) {
        self.of.changed();
    }
}

type Read = Result<Option<(Source, ObjectId)>, String>;

fn read_small(file: &File, stat: &FileStat) -> Read {
    let mut bytes = vec![0; usize::try_from(stat.len).map_err(|error| error.to_string())?];
    if let Err(error) = file.read_exact_at(&mut bytes, 0) {
        // Shorter than it was: it is being changed.
        return if error.kind() == std::io::ErrorKind::UnexpectedEof {
            Ok(None)
        } else {
            Err(error.to_string())
        };
    }
    if FileStat::of(file).as_ref() != Some(stat) {
        return Ok(None);
    }
    let id = Builder::new().update(&bytes).finish().root();
    Ok(Some((Source::Ram(Bytes::from(bytes)), id)))
}

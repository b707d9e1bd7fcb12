//! Objects in a folder.
//!
//! ```text
//! cas-format               `omnigate cas 1`: without it nothing here is touched; whoever uses the folder locks it
//! objects/ab/ab…           the bytes of an object, under its hash
//! objects/ab/ab….tree      its tree of hashes, if it has more than one group
//! tmp/                     what is being written
//! quarantine/ab…           corrupt objects, for a look at them
//! ```
//!
//! An object is written to `tmp/`, synced, and renamed into its place after its tree; then the folder is synced. So a
//! crash leaves a whole object or nothing of it, and at most a stray tree or a file in `tmp/`, which the next start
//! removes if no other process is there.

#![expect(clippy::disallowed_methods, reason = "everything in this crate blocks, and says so")]

mod layout;
mod spool;
mod stock;

use std::{
    fs::{self, File},
    io::{self, Read},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use b3tree::{GROUP_LEN, Tree};
use quick_cache::{Weighter, sync::Cache};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use types::ObjectId;

use crate::{
    backend::{Backend, Inventory, Spool},
    verified::{self, BuildError, ReadError, Source, Verified},
};
use layout::Layout;
use spool::FileSpool;

/// The unit in which disks give out room.
const BLOCK: u64 = 4096;

/// Trees that are kept in memory: those of the 16 GiB of large objects that were opened last. Loading one takes two
/// hashes for each of its groups.
const TREES_MAX_BYTES: u64 = 32 << 20;

/// How many trees that usually is: a guess, which decides how much is allocated at the start.
const TREES_USUAL: usize = 1024;

/// Without its tree there is no telling which group of an object is wrong.
const NO_TELLING: ReadError = ReadError::Corrupt { group: 0 };

/// Why a folder cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused something.
    #[error("{} cannot be used: {source}; check its owner, its mode and the free space", .path.display())]
    Io {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is no store.
    #[error("there is no store in {}", .path.display())]
    Missing {
        /// The path that was searched.
        path: PathBuf,
    },
    /// The folder has something else in it, which is better left alone.
    #[error("{} is no store and not empty; choose another folder", .path.display())]
    Foreign {
        /// The path of the folder.
        path: PathBuf,
    },
    /// The store is of a version that is not known here.
    #[error("the store in {} has another version; choose another folder, or remove it", .path.display())]
    Version {
        /// The path of the folder.
        path: PathBuf,
    },
}

impl OpenError {
    /// Whether the folder could be used if there were room on its disk, or if it could be written to at all.
    #[must_use]
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem))
    }
}

/// Objects in a folder.
#[derive(Debug)]
pub(crate) struct Files {
    layout: Arc<Layout>,
    trees: Cache<ObjectId, Arc<Tree>, TreeWeight>,
    /// Whether an object is on the disk before it is in its place.
    syncs: bool,
    /// Tells others that somebody is here, for as long as it is open.
    _presence: File,
}

#[derive(Clone, Debug)]
struct TreeWeight;

impl Weighter<ObjectId, Arc<Tree>> for TreeWeight {
    fn weight(&self, _: &ObjectId, tree: &Arc<Tree>) -> u64 {
        Tree::encoded_len(tree.len())
    }
}

impl Files {
    /// Makes the folder a store if it is not, and removes what interrupted writers left.
    pub(crate) fn at(folder: &Path, syncs: bool) -> Result<(Self, Inventory), OpenError> {
        let layout = Layout::at(folder)?;
        let (presence, is_alone) = layout.enter()?;
        let inventory = stock::take(&layout, is_alone).map_err(refused(folder))?;
        // Only now: whoever comes next may write, and what is being written must not be swept.
        layout::let_others_in(&presence).map_err(refused(folder))?;
        Ok((Self::new(layout, presence, syncs), inventory))
    }

    /// Uses a store as it is.
    pub(crate) fn visit(folder: &Path) -> Result<(Self, Inventory), OpenError> {
        let layout = Layout::existing(folder)?;
        let presence = layout.join()?;
        let inventory = stock::take(&layout, false).map_err(refused(folder))?;
        Ok((Self::new(layout, presence, true), inventory))
    }

    fn new(layout: Layout, presence: File, syncs: bool) -> Self {
        let trees = Cache::with_weighter(TREES_USUAL, TREES_MAX_BYTES, TreeWeight);
        Self { layout: Arc::new(layout), trees, syncs, _presence: presence }
    }

    /// The tree of the object in `file`; [`None`] if there is no file for the tree. The tree's length is the object's: it
    /// was stored in the tree, or has been proven by the object's only group.
    fn tree(&self, id: ObjectId, len: u64, file: &File) -> Result<Option<Arc<Tree>>, ReadError> {
        if len <= GROUP_LEN as u64 {
            let tree = Arc::new(Tree::of_one_group(id, len).ok_or(NO_TELLING)?);
            verified::read_checked(file, &tree, 0..len)?;
            return Ok(Some(tree));
        }
        if let Some(tree) = self.trees.get(&id) {
            return if tree.len() == len { Ok(Some(tree)) } else { Err(NO_TELLING) };
        }
        let Some(tree) = self.load_tree(id, len)?.map(Arc::new) else { return Ok(None) };
        self.trees.insert(id, Arc::clone(&tree));
        Ok(Some(tree))
    }

    fn load_tree(&self, id: ObjectId, len: u64) -> Result<Option<Tree>, ReadError> {
        let Some(mut file) = found(File::open(self.layout.tree(id)))? else { return Ok(None) };
        // Before anything is allocated for it.
        if file.metadata()?.len() != Tree::encoded_len(len) {
            return Err(NO_TELLING);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(Tree::encoded_len(len)).unwrap_or_default());
        Read::by_ref(&mut file).take(Tree::encoded_len(len)).read_to_end(&mut bytes)?;
        let tree = Tree::decode(&bytes, Some(id)).map_err(|_| NO_TELLING)?;
        if tree.len() == len { Ok(Some(tree)) } else { Err(NO_TELLING) }
    }
}

impl Backend for Files {
    fn cost(&self, len: u64) -> u64 {
        let tree = if len > GROUP_LEN as u64 { blocks(Tree::encoded_len(len)) } else { 0 };
        blocks(len).saturating_add(tree)
    }

    fn spool(&self) -> io::Result<Box<dyn Spool>> {
        Ok(Box::new(FileSpool::new(Arc::clone(&self.layout), self.syncs)?))
    }

    fn find(&self, id: ObjectId) -> io::Result<Option<u64>> {
        let metadata = found(fs::symlink_metadata(self.layout.object(id)))?;
        Ok(metadata.filter(fs::Metadata::is_file).map(|metadata| metadata.len()))
    }

    fn open(&self, id: ObjectId, len: u64) -> Result<Option<(Source, Arc<Tree>)>, ReadError> {
        // Twice, because somebody may remove the object between the two files, and then it is not corrupt but gone.
        for _ in 0..2 {
            let Some(file) = found(File::open(self.layout.object(id)))? else { return Ok(None) };
            let there = file.metadata()?.len();
            if there != len {
                return Err(ReadError::Corrupt { group: there.min(len) / GROUP_LEN as u64 });
            }
            if let Some(tree) = self.tree(id, len, &file)? {
                return Ok(Some((Source::File(file), tree)));
            }
        }
        Err(NO_TELLING)
    }

    fn remove(&self, id: ObjectId) -> io::Result<()> {
        // The object first: a tree without one is nothing, an object without its tree is a riddle.
        found(fs::remove_file(self.layout.object(id)))?;
        found(fs::remove_file(self.layout.tree(id)))?;
        self.trees.remove(&id);
        Ok(())
    }

    fn repair(&self, id: ObjectId) -> io::Result<bool> {
        let Some(file) = found(File::open(self.layout.object(id)))? else { return Ok(false) };
        let built = Verified::build(file, |_| ControlFlow::Continue(()));
        let object = built.map_err(|error| match error {
            BuildError::Io(source) => source,
            BuildError::Stopped => io::ErrorKind::Interrupted.into(),
        })?;
        if object.id() != id {
            return Ok(false);
        }
        spool::write_tree(&self.layout, object.tree(), self.syncs)?;
        self.trees.remove(&id);
        Ok(true)
    }

    fn set_aside(&self, id: ObjectId) -> io::Result<u64> {
        let aside = self.layout.aside(id);
        found(fs::rename(self.layout.object(id), &aside))?;
        found(fs::remove_file(self.layout.tree(id)))?;
        self.trees.remove(&id);
        Ok(found(fs::symlink_metadata(aside))?.map_or(0, |metadata| blocks(metadata.len())))
    }

    fn remove_aside(&self, id: ObjectId) -> io::Result<()> {
        found(fs::remove_file(self.layout.aside(id))).map(drop)
    }

    fn save_use(&self, id: ObjectId) {
        let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: omit, last_modification: now };
        // Best effort, as the trait says: a folder that may only be read keeps its order.
        let _ = utimensat(CWD, self.layout.object(id), &times, AtFlags::SYMLINK_NOFOLLOW);
    }
}

/// What a file of this length takes on disk, an entry in a folder included.
fn blocks(len: u64) -> u64 {
    len.max(1).checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// [`None`] instead of an error for what is not there.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn refused(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Io { path: path.to_owned(), source }
}

//! Where things are in the folder, and who else is there.

#![expect(clippy::disallowed_methods, reason = "everything in this crate blocks, and says so")]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{FlockOperation, flock};
use types::ObjectId;

use super::{OpenError, found, refused};

/// The file that says what the folder is, and what it says.
const FORMAT_FILE: &str = "cas-format";
const FORMAT: &[u8] = b"omnigate cas 1\n";
/// The same before it is whole.
const FORMAT_DRAFT: &str = "cas-format.new";

/// What a tree's file is called besides the object's name.
pub(super) const TREE_SUFFIX: &str = ".tree";

/// The paths of a store.
#[derive(Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    drafts: AtomicU64,
}

impl Layout {
    /// The store in a folder, made if there is none.
    pub(super) fn at(folder: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(folder).map_err(refused(folder))?;
        match Self::existing(folder) {
            Err(OpenError::Missing { .. }) if is_empty(folder).map_err(refused(folder))? => {
                write_format(folder).map_err(refused(folder))?;
            }
            Err(OpenError::Missing { path }) => return Err(OpenError::Foreign { path }),
            Err(other) => return Err(other),
            Ok(_) => mend_format(folder).map_err(refused(folder))?,
        }
        let layout = Self::new(folder);
        layout.make_folders().map_err(refused(folder))?;
        Ok(layout)
    }

    /// The store that is in a folder.
    pub(super) fn existing(folder: &Path) -> Result<Self, OpenError> {
        match found(fs::read(folder.join(FORMAT_FILE))).map_err(refused(folder))? {
            None => Err(OpenError::Missing { path: folder.to_owned() }),
            Some(format) if format == FORMAT => Ok(Self::new(folder)),
            // A full disk or a power cut emptied it. Objects are checked by their names, so nothing is lost with it.
            Some(format) if format.is_empty() && is_ours(folder).map_err(refused(folder))? => {
                Ok(Self::new(folder))
            }
            Some(_) => Err(OpenError::Version { path: folder.to_owned() }),
        }
    }

    fn new(folder: &Path) -> Self {
        Self { root: folder.to_owned(), drafts: AtomicU64::new(0) }
    }

    /// Returns the path of an object's bytes.
    pub(super) fn object(&self, id: ObjectId) -> PathBuf {
        let hex = id.hex();
        self.root.join("objects").join(&hex[..2]).join(hex)
    }

    /// Returns the path of an object's hash tree.
    pub(super) fn tree(&self, id: ObjectId) -> PathBuf {
        let mut path = self.object(id).into_os_string();
        path.push(TREE_SUFFIX);
        path.into()
    }

    /// Returns the path that a corrupt object is moved to.
    pub(super) fn aside(&self, id: ObjectId) -> PathBuf {
        self.quarantine().join(id.hex())
    }

    /// A name for something that is being written, which nothing else has unless it was left behind.
    pub(super) fn draft(&self) -> PathBuf {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        self.tmp().join(format!("{}-{number}", process::id()))
    }

    pub(super) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(super) fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// The folders with objects in them.
    pub(super) fn object_folders(&self) -> impl Iterator<Item = PathBuf> {
        let objects = self.root.join("objects");
        (0..=u8::MAX).map(move |first| objects.join(format!("{first:02x}")))
    }

    /// Announces this process, and says whether it is the only one; until [`let_others_in`], it stays so.
    pub(super) fn enter(&self) -> Result<(File, bool), OpenError> {
        let path = self.root.join(FORMAT_FILE);
        let file = File::open(&path).map_err(refused(&path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok((file, true)),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let_others_in(&file).map_err(refused(&path))?;
                Ok((file, false))
            }
            Err(error) => Err(refused(&path)(error.into())),
        }
    }

    /// Announces this process as one of several.
    pub(super) fn join(&self) -> Result<File, OpenError> {
        let path = self.root.join(FORMAT_FILE);
        let open = || {
            let file = File::open(&path)?;
            let_others_in(&file).map(|()| file)
        };
        open().map_err(refused(&path))
    }

    fn make_folders(&self) -> io::Result<()> {
        let objects = self.root.join("objects");
        let mut is_new = false;
        for folder in
            [self.tmp(), self.quarantine(), objects.clone()].into_iter().chain(self.object_folders())
        {
            match fs::create_dir(folder) {
                Ok(()) => is_new = true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        if is_new {
            sync_folder(&objects)?;
            sync_folder(&self.root)?;
        }
        Ok(())
    }
}

/// Lets others into the store, and waits for one who wants to be alone.
pub(super) fn let_others_in(presence: &File) -> io::Result<()> {
    Ok(flock(presence, FlockOperation::LockShared)?)
}

/// Makes what was renamed into a folder, or made in it, outlast a crash.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Whether a folder holds nothing but what an interrupted start left, or what a new disk comes with.
fn is_empty(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name != FORMAT_DRAFT && name != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a folder holds nothing but what a store has, and a folder of objects.
fn is_ours(folder: &Path) -> io::Result<bool> {
    const OURS: [&str; 6] = [FORMAT_FILE, FORMAT_DRAFT, "objects", "tmp", "quarantine", "lost+found"];
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if !OURS.iter().any(|ours| name == *ours) {
            return Ok(false);
        }
    }
    Ok(folder.join("objects").is_dir())
}

/// Writes an emptied format file again, in its place: others may hold a lock on it.
fn mend_format(folder: &Path) -> io::Result<()> {
    let path = folder.join(FORMAT_FILE);
    if fs::metadata(&path)?.len() > 0 {
        return Ok(());
    }
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(FORMAT)?;
    file.sync_all()
}

/// Whole or not at all: a store without it is nobody's.
fn write_format(folder: &Path) -> io::Result<()> {
    let draft = folder.join(FORMAT_DRAFT);
    let mut file = File::create(&draft)?;
    file.write_all(FORMAT)?;
    file.sync_all()?;
    fs::rename(draft, folder.join(FORMAT_FILE))
}

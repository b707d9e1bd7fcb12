//! By what a file is known to be the same as before.

use std::{fs::File, path::Path};

use rustix::fs::{FileType, Stat, fstat, stat};

/// What the system says about a file, apart from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    device: u64,
    inode: u64,
    pub(crate) len: u64,
    mtime: (i64, u64),
}

impl FileStat {
    /// The present state of an open file; `None` if it is no file, or cannot be told.
    pub(crate) fn of(file: &File) -> Option<Self> {
        Self::regular(&fstat(file).ok()?)
    }

    /// The present state of the file at a path; `None` if there is none. Blocking.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        Self::regular(&stat(path).ok()?)
    }

    /// The same from the system's own words; `None` if they are about something else than a file.
    pub(crate) fn regular(stat: &Stat) -> Option<Self> {
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            len: u64::try_from(stat.st_size).unwrap_or_default(),
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
        })
    }

    /// Whether it is the same file, be it changed or not.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether it was last modified in an earlier second than another: many tools that copy files keep no more of their times.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.mtime.0 < other.mtime.0
    }

    /// When it was last modified, in seconds since 1970.
    pub(crate) fn modified(&self) -> u64 {
        u64::try_from(self.mtime.0).unwrap_or_default()
    }
}

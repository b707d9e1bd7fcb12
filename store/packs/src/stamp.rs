//! Which file it is, and whether somebody has written to it.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// What became of the file a pack was mounted from, seen from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The same file, not written to.
    Same,
    /// Another file is in its place: a swap by renaming. The mounted one is still as it was.
    Replaced,
    /// The same file, but written to or cut short.
    Changed,
    /// There is no file.
    Gone,
}

/// A file's identity and its state, as the system keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    /// Seconds and nanoseconds since 1970.
    pub(crate) modified: (i64, i64),
    /// When anything about it changed; nobody can set this back.
    pub(crate) changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::of(&metadata))
    }

    /// Whether this is the other's file, not written to since. New names, links and modes do no harm.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.is_file_of(other) && (self.size, self.modified) == (other.size, other.modified)
    }

    /// Returns the current state of the file at `path`.
    pub(crate) fn state_at(&self, path: &Path) -> io::Result<FileState> {
        match fs::metadata(path) {
            Ok(metadata) => {
                let now = Self::of(&metadata);
                Ok(match now.is_file_of(self) {
                    _ if now.is_as(self) => FileState::Same,
                    true => FileState::Changed,
                    false => FileState::Replaced,
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FileState::Gone),
            Err(error) => Err(error),
        }
    }

    fn is_file_of(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

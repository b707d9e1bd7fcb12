//! Files with keys in them, and the public ones beside them: bounded, and the modes of keys looked at. Blocking; callers
//! on a runtime run this on its blocking pool.

#![expect(
    clippy::disallowed_methods,
    reason = "callers run loading on the blocking pool, as every public function that ends here says"
)]

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use ron_kernel::files;
use rustix::process::{Gid, getegid, geteuid, getgroups};
use zeroize::Zeroizing;

/// What is wrong with a file. Messages name the file and the remedy, and carry nothing of what is in it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is not there.
    #[error("{} does not exist; check the path, or create the file", .path.display())]
    Missing {
        /// The path that was tried.
        path: PathBuf,
    },
    /// The file is there and cannot be read.
    #[error("{} cannot be read: {source}; check its owner and mode", .path.display())]
    Unreadable {
        /// The file that could not be read.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// What is there is no regular file.
    #[error("{} cannot be read: {source}; put a file there", .path.display())]
    NotRegular {
        /// The path that was tried.
        path: PathBuf,
        /// The error that describes the file that was found instead.
        source: io::Error,
    },
    /// The file is far larger than it ought to be.
    #[error("{} is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// The file that is too large.
        path: PathBuf,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// Others than the owner may use the key file.
    #[error("key {} has mode {mode:04o} and is open to others than its owner; run: chmod 600 {}",
        .path.display(), .path.display())]
    KeyPermissions {
        /// The path of the key file.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
    /// A file would be overwritten.
    #[error("{} exists already and is not overwritten; move it away first", .path.display())]
    Exists {
        /// The file that is kept.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {source}; check the directory and the free space", .path.display())]
    Unwritable {
        /// The file that could not be written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Reads a regular file that holds no secret, of at most `limit` bytes. Blocking, and not on the other end of a pipe.
///
/// # Errors
/// [`FileError`] if it is missing, unreadable, no regular file, or larger.
pub fn read_public(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    public(open_regular(path)?, path, limit)
}

/// The same for a command that reads once and may be given a pipe, whose writer it waits for.
///
/// # Errors
/// [`FileError`] if it is missing, unreadable or larger.
pub fn read_public_or_pipe(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    public(open(path)?, path, limit)
}

/// Reads a regular file that its owner alone may use, of at most `limit` bytes; they are wiped after use. Blocking, and not
/// on the other end of a pipe.
///
/// # Errors
/// [`FileError`] if it is missing, unreadable, no regular file, larger, or open to others.
pub fn read_private(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, FileError> {
    private(open_regular(path)?, path, limit, Readers::Owner)
}

/// The same for a key that a program may have put there for several: a group that this process is in may read it too.
///
/// # Errors
/// [`FileError`] if it is missing, unreadable, no regular file, larger, or open to others.
pub fn read_shared_key(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, FileError> {
    private(open_regular(path)?, path, limit, Readers::OwnGroup)
}

/// The same for a command that reads once and may be given a pipe, whose writer it waits for.
///
/// # Errors
/// [`FileError`] if it is missing, unreadable, larger, or open to others.
pub fn read_private_or_pipe(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, FileError> {
    private(open(path)?, path, limit, Readers::Owner)
}

/// Writes a new file that its owner alone may use. Never overwrites; leaves nothing behind on failure. Blocking.
///
/// # Errors
/// [`FileError::Exists`] or [`FileError::Unwritable`].
pub fn create_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = created.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => FileError::Exists { path: path.to_owned() },
        _ => FileError::Unwritable { path: path.to_owned(), source },
    })?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|source| {
        // The write error is the one to report, whether or not the remains can be removed.
        let _ = std::fs::remove_file(path);
        FileError::Unwritable { path: path.to_owned(), source }
    })
}

fn open(path: &Path) -> Result<File, FileError> {
    File::open(path).map_err(|source| not_opened(path, source))
}

fn open_regular(path: &Path) -> Result<File, FileError> {
    files::open_regular(path).map_err(|source| not_opened(path, source))
}

fn not_opened(path: &Path, source: io::Error) -> FileError {
    match source.kind() {
        io::ErrorKind::NotFound => FileError::Missing { path: path.to_owned() },
        io::ErrorKind::InvalidInput => FileError::NotRegular { path: path.to_owned(), source },
        _ => unreadable(path, source),
    }
}

fn public(file: File, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    read_bounded(file, path, limit, &mut bytes)?;
    Ok(bytes)
}

/// Who may read a key besides the superuser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    /// The owner of the file alone.
    Owner,
    /// Its owner, and its group if this process is in that too.
    OwnGroup,
}

impl Readers {
    /// Whether nobody else has a right to a file.
    fn are_alone(self, metadata: &Metadata) -> bool {
        let others = metadata.permissions().mode() & 0o077;
        others == 0 || self == Self::OwnGroup && others == 0o040 && is_own_group(metadata.gid())
    }
}

/// Whether this process is in a group; the superuser is in all of them.
fn is_own_group(gid: u32) -> bool {
    let is_it = |group: Gid| group.as_raw() == gid;
    geteuid().is_root() || is_it(getegid()) || getgroups().is_ok_and(|groups| groups.into_iter().any(is_it))
}

fn private(file: File, path: &Path, limit: u64, readers: Readers) -> Result<Zeroizing<Vec<u8>>, FileError> {
    // Asked of the open file, so that nobody can swap the path between the check and the read.
    let metadata = file.metadata().map_err(|source| unreadable(path, source))?;
    if !readers.are_alone(&metadata) {
        let mode = metadata.permissions().mode() & 0o7777;
        return Err(FileError::KeyPermissions { path: path.to_owned(), mode });
    }
    // Room for all of it at once: a buffer that grows leaves copies of the key behind.
    let expected = usize::try_from(metadata.len().min(limit) + 1).unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected));
    read_bounded(file, path, limit, &mut bytes)?;
    Ok(bytes)
}

fn read_bounded(file: File, path: &Path, limit: u64, into: &mut Vec<u8>) -> Result<(), FileError> {
    let read = file.take(limit + 1).read_to_end(into).map_err(|source| unreadable(path, source))?;
    if read as u64 > limit {
        return Err(FileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(())
}

fn unreadable(path: &Path, source: io::Error) -> FileError {
    FileError::Unreadable { path: path.to_owned(), source }
}

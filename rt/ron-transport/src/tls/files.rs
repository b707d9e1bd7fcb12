//! The only place of this module that touches the file system. Blocking.

#![expect(
    clippy::disallowed_methods,
    reason = "callers run loading on the blocking pool, as every public function that ends here says"
)]

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use zeroize::Zeroizing;

use super::TlsError;

/// The most that is read from one file. A complete public CA bundle has about a quarter of it.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads a file that holds no secret.
pub(super) fn read_public(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    read_bounded(open(path)?, path, &mut bytes)?;
    Ok(bytes)
}

/// Reads a file that its owner alone may use; the bytes are wiped after use.
pub(super) fn read_private(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let file = open(path)?;
    // Asked of the open file, so that nobody can swap the path between the check and the read.
    let metadata = file.metadata().map_err(|source| unreadable(path, source))?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(TlsError::KeyPermissions { path: path.to_owned(), mode });
    }
    // Room for all of it at once: a buffer that grows leaves copies of the key behind.
    let expected = usize::try_from(metadata.len().min(MAX_FILE_BYTES) + 1).unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected));
    read_bounded(file, path, &mut bytes)?;
    Ok(bytes)
}

/// Writes a new file that its owner alone may use. Never overwrites; leaves nothing behind on failure.
pub(super) fn create_private(path: &Path, bytes: &[u8]) -> Result<(), TlsError> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = created.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => TlsError::Exists { path: path.to_owned() },
        _ => TlsError::Unwritable { path: path.to_owned(), source },
    })?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|source| {
        // The write error is the one to report, whether or not the remains can be removed.
        let _ = std::fs::remove_file(path);
        TlsError::Unwritable { path: path.to_owned(), source }
    })
}

fn open(path: &Path) -> Result<File, TlsError> {
    File::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => TlsError::Missing { path: path.to_owned() },
        _ => unreadable(path, source),
    })
}

fn read_bounded(file: File, path: &Path, into: &mut Vec<u8>) -> Result<(), TlsError> {
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(into).map_err(|source| unreadable(path, source))?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(TlsError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    Ok(())
}

fn unreadable(path: &Path, source: io::Error) -> TlsError {
    TlsError::Unreadable { path: path.to_owned(), source }
}

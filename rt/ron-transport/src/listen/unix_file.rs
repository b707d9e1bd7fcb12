//! The file of a Unix socket: created by binding, recognised by its inode, removed only by its owner.

#![expect(clippy::disallowed_methods, reason = "single calls on one socket file, at start, reload and stop")]

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use super::BindError;
use crate::addr::{ListenAddr, check_unix_path};

/// A socket file, known by device and inode so that a later file of the same name is not taken for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// The socket file at `path`; symbolic links are not followed.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        if !found.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file is not a socket"));
        }
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    pub(super) fn set_mode(&self, mode: u32) -> io::Result<()> {
        fs::set_permissions(&self.path, fs::Permissions::from_mode(mode))
    }

    /// Removes the file unless another one has taken its place or it is gone.
    pub(super) fn remove_if_ours(&self) -> io::Result<()> {
        match Self::at(&self.path) {
            Ok(found) if found == *self => fs::remove_file(&self.path),
            _ => Ok(()),
        }
    }
}

/// Binds a new socket to `path`, clearing a stale socket file out of the way.
pub(super) fn bind(path: &Path) -> Result<(Socket, SocketFile), BindError> {
    check_unix_path(path).map_err(BindError::UnixPath)?;
    let failed = |error| BindError::from_io(&ListenAddr::Unix(path.to_owned()), error);
    let addr = SockAddr::unix(path).map_err(failed)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    match socket.bind(&addr) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path, &addr)?;
            socket.bind(&addr).map_err(failed)?;
        }
        other => other.map_err(failed)?,
    }
    let file = SocketFile::at(path).map_err(failed)?;
    Ok((socket, file))
}

/// Removes what is at `path` if it is a socket on which nobody listens.
fn remove_stale(path: &Path, addr: &SockAddr) -> Result<(), BindError> {
    let failed = |error| BindError::from_io(&ListenAddr::Unix(path.to_owned()), error);
    let found = match SocketFile::at(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BindError::NotASocket { path: path.to_owned() });
        }
        Err(error) => return Err(failed(error)),
    };
    if is_answered(addr).map_err(failed)? {
        return Err(BindError::PathInUse { path: path.to_owned() });
    }
    found.remove_if_ours().map_err(failed)
}

/// Whether some process listens at `addr`. Only a refusal proves that none does: a full backlog, a missing
/// permission or a datagram socket mean that the path is taken.
fn is_answered(addr: &SockAddr) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A blocking connect would wait for room in a full backlog.
    probe.set_nonblocking(true)?;
    match probe.connect(addr) {
        Ok(()) => Ok(true),
        Err(error) => Ok(!matches!(Errno::from_io_error(&error), Some(Errno::CONNREFUSED | Errno::NOENT))),
    }
}

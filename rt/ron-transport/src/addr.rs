//! Addresses as an operator writes them: where to listen, and which upstream to dial.

mod endpoint;
mod listen;
mod url;

pub use endpoint::{Endpoint, EndpointError, Host, Scheme, Target};
pub use listen::{ListenAddr, ListenAddrError};
pub use url::{HttpUrl, HttpUrlError};

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Longest path of a Unix socket in bytes: the kernel's `sun_path` less its closing NUL.
pub const UNIX_PATH_MAX: usize = 107;

/// Why a text cannot be the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnixPathError {
    /// Nothing follows the prefix.
    #[error("no path is given: write the socket's path after the colon, as in unix:/run/app.sock")]
    Empty,
    /// The path holds a NUL byte.
    #[error("a socket path cannot contain a NUL byte")]
    Nul,
    /// An abstract socket, which has no file whose mode could protect it.
    #[error("`{0}` names an abstract socket, which no file mode protects: use a path such as /run/app.sock")]
    Abstract(String),
    /// The kernel would cut the path.
    #[error(
        "`{path}` is {len} bytes long and a socket path holds {max}: choose a shorter directory",
        max = UNIX_PATH_MAX
    )]
    TooLong {
        /// The path as given.
        path: String,
        /// Length of the name in bytes.
        len: usize,
    },
}

/// Checks that `path` can be bound or dialled as a Unix socket.
pub(crate) fn check_unix_path(path: &Path) -> Result<(), UnixPathError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(UnixPathError::Empty);
    }
    if bytes.contains(&0) {
        return Err(UnixPathError::Nul);
    }
    if bytes.starts_with(b"@") {
        return Err(UnixPathError::Abstract(path.display().to_string()));
    }
    if bytes.len() > UNIX_PATH_MAX {
        return Err(UnixPathError::TooLong { path: path.display().to_string(), len: bytes.len() });
    }
    Ok(())
}

fn unix_path(text: &str) -> Result<PathBuf, UnixPathError> {
    let path = PathBuf::from(text);
    check_unix_path(&path).map(|()| path)
}

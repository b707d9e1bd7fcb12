//! Where the access log goes.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use ron_kernel::{LogFile, Scope, blocking::BlockingError};

use crate::config::AccessLogConfig;

/// The mode of a file that is made, before the process's mask.
const MODE: u32 = 0o666;

/// The destination of the access log.
#[derive(Debug)]
pub(crate) enum Output {
    /// Standard output; also what a log that is switched off does not write to.
    Stdout,
    /// The end of a file.
    File(LogFile),
}

/// Why the access log cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or made.
    #[error("access_log.path {}: {error}: name a file in a directory that the node may write to", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The blocking pool did not open it.
    #[error("access_log.path: {0}")]
    Blocking(#[from] BlockingError),
}

impl Output {
    /// Opens what a configuration names, for appending.
    ///
    /// Cancel safe: a file that was opened closes again.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) async fn open(scope: &Scope, config: &AccessLogConfig) -> Result<Self, OpenError> {
        if !config.enabled || config.path.as_os_str().is_empty() {
            return Ok(Self::Stdout);
        }
        let path = config.path.clone();
        let open = move || LogFile::open(&path, MODE).map_err(|error| OpenError::File { path, error });
        Ok(Self::File(scope.blocking().run("open the access log", open).await??))
    }

    /// Writes lines, whole or with an error. Blocking.
    pub(super) fn write(&self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().lock().write_all(lines),
            Self::File(file) => file.append(lines),
        }
    }
}

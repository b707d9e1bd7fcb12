//! Opens the files that a configuration names. Anybody who may write to their folder can put a named pipe in their place,
//! and opening a pipe waits until somebody opens its other end. So files are opened without waiting, and what is no
//! regular file is refused.
//!
//! Everything here is blocking all the same, as all file I/O is: callers on a runtime run it on the blocking pool.

#![expect(
    clippy::disallowed_methods,
    reason = "callers run it on the blocking pool, or before the runtimes start"
)]

use std::{
    fs::{File, FileType, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Opens a regular file for reading. Does not wait for the other end of a named pipe. Blocking.
///
/// # Errors
/// The system's, or [`io::ErrorKind::InvalidInput`] with the kind of what is there if it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(without_waiting()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let message = format!("it is {}, and not a regular file", name(kind));
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Reads a regular file, or its first `limit` bytes and one more if it is larger. Blocking.
///
/// # Errors
/// As [`open_regular`], and the system's.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file for appending; makes it with `mode` if there is none. A device or a pipe that somebody reads will do.
/// Blocking.
///
/// # Errors
/// The system's; also for a pipe that nobody reads.
pub(crate) fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(mode).custom_flags(without_waiting());
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        // Only the opening must not wait: a reader that is slow for a moment loses nothing.
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    }
    Ok(file)
}

fn without_waiting() -> i32 {
    (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()
}

fn name(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn pipe_in(dir: &Path) -> std::path::PathBuf {
        let pipe = dir.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        pipe
    }

    #[test]
    fn a_regular_file_is_read_up_to_a_byte_more_than_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "four").unwrap();
        for (limit, read) in [(2, "fou"), (3, "four"), (4, "four"), (u64::MAX, "four")] {
            assert_eq!(read_regular(&path, limit).unwrap(), read.as_bytes(), "{limit}");
        }
        assert_eq!(read_regular(&dir.path().join("absent"), 1).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = pipe_in(dir.path());
        for (path, kind) in
            [(pipe.as_path(), "a pipe"), (dir.path(), "a folder"), (Path::new("/dev/null"), "a device")]
        {
            let error = open_regular(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(kind), "{error}");
        }
    }

    #[test]
    fn appending_to_a_pipe_that_nobody_reads_fails_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = pipe_in(dir.path());
        open_to_append(&pipe, 0o600).unwrap_err();
        let _reader = OpenOptions::new().read(true).custom_flags(without_waiting()).open(&pipe).unwrap();
        let file = open_to_append(&pipe, 0o600).unwrap();
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK), "writing waits for a slow reader");
        open_to_append(Path::new("/dev/null"), 0o600).unwrap();
    }
}

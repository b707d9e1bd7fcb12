//! A log file that whole lines are appended to. A line that was torn, by a full disk or by the end of a process, is ended
//! before the next one, which would otherwise be lost with it to whoever reads the file line by line.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::files;

/// A log file that is open for appending.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    /// Whether the last line in the file has no end.
    torn: AtomicBool,
}

impl LogFile {
    /// Opens the file, or makes it with `mode`. Does not wait for the reader of a named pipe. Blocking.
    ///
    /// # Errors
    /// The system's; also for a pipe that nobody reads.
    pub fn open(path: &Path, mode: u32) -> io::Result<Self> {
        let file = files::open_to_append(path, mode)?;
        let torn = ends_inside_a_line(path, &file);
        Ok(Self { file, torn: torn.into() })
    }

    /// Appends lines, each with its end: whole, or with an error. Ends the line before them if it was torn. Blocking.
    ///
    /// # Errors
    /// The system's; a part of the lines may have been written.
    pub fn append(&self, lines: &[u8]) -> io::Result<()> {
        if self.torn.load(Ordering::Relaxed) {
            // In one piece, because other processes may append to the same file.
            return self.write([b"\n", lines].concat().as_slice());
        }
        self.write(lines)
    }

    fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.file).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.torn.store(bytes[written - 1] != b'\n', Ordering::Relaxed);
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether a file's last line has no end. What cannot be looked at, such as a pipe, counts as whole.
fn ends_inside_a_line(path: &Path, appended: &File) -> bool {
    let last = || -> io::Result<Option<u8>> {
        let len = appended.metadata()?.len();
        let Some(last) = len.checked_sub(1) else { return Ok(None) };
        let mut byte = [0];
        files::open_regular(path)?.read_exact_at(&mut byte, last)?;
        Ok(Some(byte[0]))
    };
    last().is_ok_and(|last| last.is_some_and(|byte| byte != b'\n'))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = LogFile::open(&path, 0o600).unwrap();
        log.append(b"1\n").unwrap();
        log.append(b"2\n3\n").unwrap();
        LogFile::open(&path, 0o600).unwrap().append(b"4\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n3\n4\n");
    }

    #[test]
    fn a_torn_line_of_an_earlier_process_is_ended_before_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "1\n{\"half").unwrap();
        let log = LogFile::open(&path, 0o600).unwrap();
        log.append(b"2\n").unwrap();
        log.append(b"3\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n{\"half\n2\n3\n");
    }

    #[test]
    fn a_device_has_no_torn_line() {
        LogFile::open(Path::new("/dev/null"), 0o600).unwrap().append(b"1\n").unwrap();
        let full = LogFile::open(Path::new("/dev/full"), 0o600).unwrap();
        assert_eq!(full.append(b"1\n").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}

//! A log of records in a file: appended to, read once at the start, and rewritten when most of it is out of date.
//!
//! ```text
//! header   "omnigate log 1\n" 0, the log's id (16 bytes), the system's boot (16 bytes), seal (16 bytes)
//! record   length (u32), seal (16 bytes), bytes            numbers are little-endian
//! …
//! end      a record of length 0, when the log was closed in order
//! ```
//!
//! **What a crash leaves.** A record that was appended outlasts the process that appended it, however that ends. A power cut
//! may take the last records with it, and [`RecordLog::sync`] is what prevents that. A log that was rewritten is the old one
//! or the new one, never a part.
//!
//! **What a flipped bit does.** The seal of a record is a hash over the log's id, the record's number and its bytes, so that
//! a record that was changed, moved or repeated is found. Nothing is read behind such a record, because its length may be
//! wrong. What comes before it is what was appended, but records behind it may have taken some of that back: the reader is
//! told so by [`LogEnd::Unsure`], as it is when the log was not closed before the system was started again.
//!
//! **What a restored backup does.** It is a log of an earlier time, and what was taken back since is in it. The second half of a
//! log's id stands for its file, so that a copy of it is told from the log itself; and a file that was last changed long after
//! its bytes were written, as one is whose times were set, is not what a log has left. Both are [`LogEnd::Unsure`]. A file system
//! that was set back as a whole cannot be told.

#![expect(clippy::disallowed_methods, reason = "everything in this crate blocks, and says so")]

use std::{
    ffi::OsString,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process,
    time::SystemTime,
};

use rustix::fs::{FlockOperation, flock};

/// The magic number at the start of the file.
const MAGIC: &[u8; 16] = b"omnigate log 1\n\0";
const SEAL_LEN: usize = 16;
const HEADER_LEN: usize = 64;
const FRAME_LEN: usize = 4 + SEAL_LEN;
/// So many seconds may pass from the writing of a log's last bytes to the last change of its file, which is its renaming.
const CHANGED_WITHIN: i64 = 10;
/// Where Linux tells one run of the system from the next.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another process uses it.
    #[error("{} is in use by another process", .path.display())]
    InUse {
        /// The path of the log file.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("{} cannot be used: {source}", .path.display())]
    Io {
        /// The path of the log file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// How far the records that were read can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// They are all that were appended.
    Complete,
    /// Records at the end may be missing.
    Unsure {
        /// Whether a record was found that is not what was appended.
        is_damaged: bool,
    },
}

/// A log with one owner. Everything blocks.
#[derive(Debug)]
pub struct RecordLog {
    path: PathBuf,
    file: File,
    id: [u8; 16],
    /// Number of records in the file.
    count: u64,
    len: u64,
    /// Keeps others away for as long as it is open. Not the log itself, which is replaced when it is rewritten.
    _lock: File,
}

impl RecordLog {
    /// Maximum length of a record in bytes.
    pub const MAX_RECORD: usize = 1024 * 1024;

    /// Opens a log, made if it is not there, and hands over its records in their order. Nothing can be appended before
    /// [`RecordLog::rewrite`].
    ///
    /// # Errors
    /// [`LogError`].
    pub fn open(path: &Path, record: impl FnMut(&[u8])) -> Result<(Self, LogEnd), LogError> {
        let refused = |source| LogError::Io { path: path.to_owned(), source };
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(beside(path, ".lock"));
        let lock = lock.map_err(refused)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(LogError::InUse { path: path.to_owned() }),
            Err(error) => return Err(refused(error.into())),
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.map_err(refused)?;
        let len = file.metadata().map_err(refused)?.len();
        let read = read_all(&mut file, len, record).map_err(refused)?;
        let log = Self { path: path.to_owned(), file, id: [0; 16], count: 0, len: 0, _lock: lock };
        Ok((log, read))
    }

    /// Puts these records into the place of all others, whole or not at all.
    ///
    /// # Errors
    /// What the system said; the log is as it was then.
    pub fn rewrite(&mut self, records: impl IntoIterator<Item = Vec<u8>>) -> io::Result<()> {
        let draft = beside(&self.path, ".new");
        let written = Self::write_new(&draft, records);
        let (file, id, count, len) = written.inspect_err(|_| drop(fs::remove_file(&draft)))?;
        fs::rename(&draft, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        (self.file, self.id, self.count, self.len) = (file, id, count, len);
        Ok(())
    }

    fn write_new(
        draft: &Path,
        records: impl IntoIterator<Item = Vec<u8>>,
    ) -> io::Result<(File, [u8; 16], u64, u64)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(draft)?;
        let id = new_id(&file)?;
        let mut writer = io::BufWriter::new(&file);
        writer.write_all(&header(&id))?;
        let (mut count, mut len) = (0, HEADER_LEN as u64);
        for record in records {
            let frame = frame(&id, count, &record)?;
            writer.write_all(&frame)?;
            count += 1;
            len += frame.len() as u64;
        }
        writer.flush()?;
        drop(writer);
        file.sync_data()?;
        Ok((file, id, count, len))
    }

    /// Appends records. When this returns they outlast the process, but not yet a power cut.
    ///
    /// # Errors
    /// What the system said; none of them is in the log then, unless it cannot be cut back either.
    pub fn append<'r>(&mut self, records: impl IntoIterator<Item = &'r [u8]>) -> io::Result<()> {
        let (mut frames, mut count) = (Vec::new(), self.count);
        for record in records {
            frames.extend_from_slice(&frame(&self.id, count, record)?);
            count += 1;
        }
        if self.len < HEADER_LEN as u64 {
            return Err(io::Error::other("the log has no beginning"));
        }
        let appended = self.file.seek(SeekFrom::Start(self.len)).and_then(|_| self.file.write_all(&frames));
        if let Err(error) = appended {
            // A part of a record would end the log for whoever reads it.
            self.file.set_len(self.len)?;
            return Err(error);
        }
        self.count = count;
        self.len += frames.len() as u64;
        Ok(())
    }

    /// Makes everything that was appended outlast a power cut.
    ///
    /// # Errors
    /// What the system said.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Empties the log: after this nothing of it is ever read again. Nothing can be appended before it is rewritten. Needs no
    /// room on the disk.
    ///
    /// # Errors
    /// What the system said; there may still be records then.
    pub fn clear(&mut self) -> io::Result<()> {
        (self.count, self.len) = (0, 0);
        let cut = self.file.set_len(0).and_then(|()| self.file.sync_data());
        cut.or_else(|_| fs::remove_file(&self.path))
    }

    /// Says in the log that nothing is missing, and makes it outlast a power cut.
    ///
    /// # Errors
    /// What the system said.
    pub fn close(mut self) -> io::Result<()> {
        self.append([&[][..]])?;
        self.sync()
    }

    /// The length of the file in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no log yet, or none any more: it has to be rewritten first.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Reads a log of `len` bytes from its beginning.
fn read_all(file: &mut File, len: u64, mut record: impl FnMut(&[u8])) -> io::Result<LogEnd> {
    if len == 0 {
        return Ok(LogEnd::Complete);
    }
    let damaged = Ok(LogEnd::Unsure { is_damaged: true });
    let metadata = file.metadata()?;
    let was_set_back = metadata.ctime().saturating_sub(metadata.mtime()) > CHANGED_WITHIN;
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    let mut start = [0; HEADER_LEN];
    if !fill(&mut reader, &mut start)? {
        return damaged;
    }
    let id: [u8; 16] = start[16..32].try_into().unwrap_or_default();
    if start[..16] != MAGIC[..] || seal(&[&start[..48]]) != start[48..] {
        return damaged;
    }
    let is_same_boot = start[32..48] == boot() && boot() != [0; 16];
    let (mut at, mut count) = (HEADER_LEN as u64, 0);
    let (mut bytes, mut is_closed) = (Vec::new(), false);
    while at < len {
        let mut head = [0; FRAME_LEN];
        if is_closed || !fill(&mut reader, &mut head)? {
            return damaged;
        }
        let length = u32::from_le_bytes(head[..4].try_into().unwrap_or_default());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // Before anything is allocated for it.
        if length > RecordLog::MAX_RECORD || length as u64 > len - at {
            return damaged;
        }
        bytes.resize(length, 0);
        if !fill(&mut reader, &mut bytes)? || record_seal(&id, count, &bytes) != head[4..] {
            return damaged;
        }
        is_closed = bytes.is_empty();
        if !is_closed {
            record(&bytes);
        }
        count += 1;
        at += (FRAME_LEN + length) as u64;
    }
    let is_the_file = id[8..] == of_file(&metadata);
    let is_complete = (is_closed || is_same_boot) && is_the_file && !was_set_back;
    Ok(if is_complete { LogEnd::Complete } else { LogEnd::Unsure { is_damaged: false } })
}

/// Fills the buffer; false if the file ends before.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn frame(id: &[u8; 16], number: u64, record: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(record.len()).ok().filter(|_| record.len() <= RecordLog::MAX_RECORD);
    let length = length.ok_or_else(|| io::Error::other("the record is too long"))?;
    Ok([&length.to_le_bytes()[..], &record_seal(id, number, record), record].concat())
}

fn header(id: &[u8; 16]) -> Vec<u8> {
    let start = [&MAGIC[..], id, &boot()].concat();
    let seal = seal(&[&start]);
    [start, seal.to_vec()].concat()
}

fn record_seal(id: &[u8; 16], number: u64, record: &[u8]) -> [u8; SEAL_LEN] {
    seal(&[id, &number.to_le_bytes(), &(record.len() as u64).to_le_bytes(), record])
}

fn seal(parts: &[&[u8]]) -> [u8; SEAL_LEN] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut seal = [0; SEAL_LEN];
    hasher.finalize_xof().fill(&mut seal);
    seal
}

/// An id that no other log has had in this place, and no copy of the log has.
fn new_id(file: &File) -> io::Result<[u8; 16]> {
    let mut id = seal(&[&boot(), &process::id().to_le_bytes(), &nanos(SystemTime::now()).to_le_bytes()]);
    id[8..].copy_from_slice(&of_file(&file.metadata()?));
    Ok(id)
}

/// What stands for a file: its number, and when it was created, where the file system keeps that.
fn of_file(metadata: &Metadata) -> [u8; 8] {
    let born = metadata.created().map_or(0, nanos);
    let mut short = [0; 8];
    short.copy_from_slice(&seal(&[&metadata.ino().to_le_bytes(), &born.to_le_bytes()])[..8]);
    short
}

fn nanos(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// This run of the system; nothing where it does not say, which no log is believed by.
fn boot() -> [u8; 16] {
    match fs::read(BOOT_ID) {
        Ok(text) => seal(&[&text]),
        Err(_) => [0; 16],
    }
}

/// A file beside the log.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

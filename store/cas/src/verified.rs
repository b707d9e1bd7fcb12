//! Bytes with a tree of hashes: whatever is read is checked first, and nothing more is read than that takes.

use std::{
    fs::File,
    io,
    ops::{ControlFlow, Range},
    os::unix::fs::FileExt,
    sync::Arc,
};

use b3tree::{Builder, Corrupt, GROUP_LEN, Tree, covering};
use bytes::{Bytes, BytesMut};
use types::ObjectId;

use crate::PIECE_LEN;

/// The reason why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system could not read it; it may be able to later.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// These are not the bytes that were stored. They are not given out; [`crate::Cas::quarantine`] says what next.
    #[error("group {group} is not what was stored")]
    Corrupt {
        /// The first group that is wrong or missing; the first of all if there is no telling.
        group: u64,
    },
    /// The caller asked for more than there is.
    #[error("the range ends beyond the object's end")]
    OutOfRange,
}

impl From<Corrupt> for ReadError {
    fn from(Corrupt { group }: Corrupt) -> Self {
        Self::Corrupt { group }
    }
}

/// Why a file was not hashed to its end.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The system could not read it.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The observer of the progress cancelled it.
    #[error("stopped before the end")]
    Stopped,
}

/// An object in a file or in memory, and its tree.
///
/// A file may be anything that somebody else could change meanwhile: each read checks what it gives. While a
/// `Verified` of a [`crate::Cas`] is held its object is not evicted, so let go of it after reading.
#[derive(Debug)]
pub struct Verified {
    source: Source,
    tree: Arc<Tree>,
    /// Keeps a stored object from being evicted.
    _pin: Option<Arc<()>>,
}

#[derive(Debug)]
pub(crate) enum Source {
    File(File),
    /// Checked before it came here; nobody can change it.
    Memory(Bytes),
}

impl Verified {
    /// A file whose tree is known. Nothing is read yet.
    #[must_use]
    pub fn of_file(file: File, tree: Arc<Tree>) -> Self {
        Self { source: Source::File(file), tree, _pin: None }
    }

    /// Bytes in memory, checked once, now.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] if they are not those of the tree.
    pub fn of_bytes(bytes: Bytes, tree: Arc<Tree>) -> Result<Self, ReadError> {
        check_all(&bytes, &tree)?;
        Ok(Self { source: Source::Memory(bytes), tree, _pin: None })
    }

    /// Hashes a file from its beginning to its end: what it holds now is what it is held to from then on. The callback
    /// is told how many bytes are done, after each of at most 1 MiB, and says whether to go on.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(file: File, mut progress: impl FnMut(u64) -> ControlFlow<()>) -> Result<Self, BuildError> {
        let mut builder = Builder::new();
        let mut piece = vec![0; PIECE_LEN];
        loop {
            let filled = read_at_most(&file, builder.len(), &mut piece)?;
            if filled == 0 {
                return Ok(Self::of_file(file, Arc::new(builder.finish())));
            }
            builder.update(&piece[..filled]);
            if progress(builder.len()).is_break() {
                return Err(BuildError::Stopped);
            }
        }
    }

    /// What a store has found under a name.
    pub(crate) fn stored(source: Source, tree: Arc<Tree>, pin: Arc<()>) -> Self {
        Self { source, tree, _pin: Some(pin) }
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.tree.root()
    }

    /// The object's length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Whether the object has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Returns the hash tree of the object.
    #[must_use]
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// The file that the bytes are in; [`None`] if they are in memory.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        match &self.source {
            Source::File(file) => Some(file),
            Source::Memory(_) => None,
        }
    }

    /// All bytes, if they are in memory: reading them would not block.
    #[must_use]
    pub fn in_memory(&self) -> Option<&Bytes> {
        match &self.source {
            Source::Memory(bytes) => Some(bytes),
            Source::File(_) => None,
        }
    }

    /// Reads a range. The groups that cover it are read whole and checked; the bytes asked for are given out. Takes as
    /// much memory as the range and two groups: callers ask for large objects in pieces.
    ///
    /// # Errors
    /// [`ReadError`]. A file that is shorter than it should be is [`ReadError::Corrupt`].
    pub fn read(&self, range: Range<u64>) -> Result<Bytes, ReadError> {
        if range.end > self.len() {
            return Err(ReadError::OutOfRange);
        }
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        match &self.source {
            Source::Memory(bytes) => Ok(bytes.slice(in_memory(range))),
            Source::File(file) => read_checked(file, &self.tree, range),
        }
    }

    /// Reads everything, which takes as much memory as the object.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_all(&self) -> Result<Bytes, ReadError> {
        self.read(0..self.len())
    }

    /// Checks every group without giving out a byte. The callback is told of each piece's length and says whether to
    /// go on; `Ok(false)` says that it did not.
    pub(crate) fn check(&self, mut progress: impl FnMut(u64) -> ControlFlow<()>) -> Result<bool, ReadError> {
        if let Source::Memory(bytes) = &self.source {
            check_all(bytes, &self.tree)?;
            return Ok(progress(self.len()).is_continue());
        }
        let mut at = 0;
        while at < self.len() {
            let end = self.len().min(at + PIECE_LEN as u64);
            self.read(at..end)?;
            if progress(end - at).is_break() {
                return Ok(false);
            }
            at = end;
        }
        Ok(true)
    }
}

fn check_all(bytes: &[u8], tree: &Tree) -> Result<(), ReadError> {
    let last = tree.groups() - 1;
    if bytes.is_empty() {
        // Nothing is a group only of the empty object.
        return Ok(tree.check_group(0, bytes)?);
    }
    tree.check_groups(0, bytes)?;
    if bytes.len() as u64 != tree.len() {
        return Err(ReadError::Corrupt { group: last });
    }
    Ok(())
}

/// Reads a range of a file that has this tree, after checking the groups that cover it.
pub(crate) fn read_checked(file: &File, tree: &Tree, range: Range<u64>) -> Result<Bytes, ReadError> {
    let whole = covering(tree.len(), range.clone());
    let first = whole.start / GROUP_LEN as u64;
    let mut buffer = BytesMut::zeroed(in_memory(whole.start..whole.end).len());
    let filled = read_at_most(file, whole.start, &mut buffer)?;
    if filled < buffer.len() {
        // The file ends too early.
        let group = first + (filled / GROUP_LEN) as u64;
        tree.check_groups(first, &buffer[..filled - filled % GROUP_LEN])?;
        return Err(ReadError::Corrupt { group });
    }
    tree.check_groups(first, &buffer)?;
    Ok(buffer.freeze().slice(in_memory(range.start - whole.start..range.end - whole.start)))
}

/// Fills the buffer from the file's `offset` on, or as much of it as there is.
pub(crate) fn read_at_most(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Converts a range of bytes to indices in memory.
pub(crate) fn in_memory(range: Range<u64>) -> Range<usize> {
    let index = |at| usize::try_from(at).expect("addresses have 64 bits");
    index(range.start)..index(range.end)
}

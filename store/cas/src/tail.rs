//! An object that is being written, read by others meanwhile: group by group, each checked against what it hashed to when it
//! was written.

use std::{
    fs::File,
    ops::Range,
    sync::{Arc, Mutex},
};

use b3tree::{Builder, GROUP_LEN, GroupHash, Tree, covering, is_group};
use bytes::{Bytes, BytesMut};

use crate::{
    lock,
    memory::MemoryBytes,
    verified::{ReadError, in_memory, read_at_most, read_checked},
};

/// An object that is being written, or was. Cheap to clone.
///
/// Its bytes can be read as long as a `Tail` is held, whatever becomes of the object. Whether it is ever whole is for its
/// writer to say.
#[derive(Clone, Debug)]
pub struct Tail(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    written: Written,
    hashes: Mutex<Hashes>,
}

/// The place that a writer has written its bytes to.
#[derive(Debug)]
pub(crate) enum Written {
    /// In a file that somebody else could change meanwhile.
    File(File),
    /// A buffer in memory.
    Memory(Arc<Mutex<MemoryBytes>>),
}

/// What the bytes have to hash to.
#[derive(Clone, Debug)]
enum Hashes {
    /// Groups that are complete and not the last.
    Growing(Vec<GroupHash>),
    /// The object is complete; this is its hash tree.
    Whole(Arc<Tree>),
}

impl Tail {
    pub(crate) fn new(written: Written, builder: &Builder) -> Self {
        let hashes = Mutex::new(Hashes::Growing(builder.closed_from(0).to_vec()));
        Self(Arc::new(Inner { written, hashes }))
    }

    /// Takes note of what has been written since.
    pub(crate) fn grow(&self, builder: &Builder) {
        if let Hashes::Growing(groups) = &mut *lock(&self.0.hashes) {
            groups.extend_from_slice(builder.closed_from(groups.len()));
        }
    }

    /// Nothing more is written.
    pub(crate) fn finish(&self, tree: &Arc<Tree>) {
        *lock(&self.0.hashes) = Hashes::Whole(Arc::clone(tree));
    }

    /// The bytes that can be read: whole groups, until nothing more is written.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &*lock(&self.0.hashes) {
            Hashes::Growing(groups) => (groups.len() * GROUP_LEN) as u64,
            Hashes::Whole(tree) => tree.len(),
        }
    }

    /// Whether nothing can be read yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a range. The groups that cover it are read whole and checked. Blocking.
    ///
    /// # Errors
    /// [`ReadError`]. What is not written yet is [`ReadError::OutOfRange`].
    pub fn read(&self, range: Range<u64>) -> Result<Bytes, ReadError> {
        let len = self.len();
        if range.end > len {
            return Err(ReadError::OutOfRange);
        }
        let file = match &self.0.written {
            // Nobody else can change what is in memory.
            Written::Memory(bytes) => return lock(bytes).copy(in_memory(range)).ok_or(ReadError::OutOfRange),
            Written::File(file) => file,
        };
        let whole = covering(len, range.clone());
        let first = whole.start / GROUP_LEN as u64;
        let groups = match &*lock(&self.0.hashes) {
            Hashes::Whole(tree) => Err(Arc::clone(tree)),
            Hashes::Growing(groups) => {
                let of = in_memory(first..whole.end.div_ceil(GROUP_LEN as u64));
                Ok(groups.get(of).unwrap_or_default().to_vec())
            }
        };
        match groups {
            Err(tree) => read_checked(file, &tree, range),
            Ok(groups) => {
                let bytes = read_groups(file, whole.clone(), first, &groups)?;
                Ok(bytes.slice(in_memory(range.start - whole.start..range.end - whole.start)))
            }
        }
    }
}

/// Reads whole groups and checks each.
fn read_groups(file: &File, whole: Range<u64>, first: u64, groups: &[GroupHash]) -> Result<Bytes, ReadError> {
    let mut buffer = BytesMut::zeroed(in_memory(whole.clone()).len());
    let filled = read_at_most(file, whole.start, &mut buffer)?;
    let mut pieces = buffer[..filled].chunks(GROUP_LEN);
    for (group, hash) in (first..).zip(groups) {
        let piece = pieces.next().unwrap_or_default();
        if piece.len() != GROUP_LEN || !is_group(group, piece, hash) {
            return Err(ReadError::Corrupt { group });
        }
    }
    Ok(buffer.freeze())
}

//! What disks, copies and people do to a file: every kind of damage at every length that matters.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::Path,
};

use rustix::fs::{FallocateFlags, fallocate};

/// The bytes that one hash covers.
const GROUP: usize = b3tree::GROUP_LEN;

/// The largest object that the edge keeps in RAM as a whole.
const HOT: usize = 1 << 20;

/// Lengths on both sides of every boundary: nothing, one group, several groups, and what is streamed in pieces.
pub(crate) const LENGTHS: [usize; 11] = [
    0,
    1,
    GROUP - 1,
    GROUP,
    GROUP + 1,
    2 * GROUP - 1,
    2 * GROUP,
    2 * GROUP + 1,
    16 * GROUP + 1,
    HOT,
    HOT + 1,
];

/// One kind of damage to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Nothing is left: `truncate -s 0`.
    Emptied,
    /// One byte is left.
    CutToOne,
    /// As much is left as one hash covers.
    CutToGroup,
    /// The second half is missing.
    CutInHalf,
    /// The last byte is missing.
    LastByteCut,
    /// One byte too much.
    GrownByOne,
    /// A group of zeros too much.
    GrownByGroup,
    /// Zeros from beginning to end.
    Zeroed,
    /// Another file is in its place, whole and of the same length.
    Swapped,
    /// The beginning is a hole: zeros that take no room.
    HolePunched,
    /// The last bit is the other way round.
    LastBitFlipped,
}

impl Damage {
    pub(crate) const ALL: [Self; 11] = [
        Self::Emptied,
        Self::CutToOne,
        Self::CutToGroup,
        Self::CutInHalf,
        Self::LastByteCut,
        Self::GrownByOne,
        Self::GrownByGroup,
        Self::Zeroed,
        Self::Swapped,
        Self::HolePunched,
        Self::LastBitFlipped,
    ];

    /// Damages a file; says whether that made a difference to its bytes.
    pub(crate) fn inflict(self, path: &Path) -> bool {
        let before = fs::read(path).unwrap();
        let len = before.len() as u64;
        let file = File::options().write(true).open(path).unwrap();
        match self {
            Self::Emptied => file.set_len(0).unwrap(),
            Self::CutToOne => file.set_len(len.min(1)).unwrap(),
            Self::CutToGroup => file.set_len(len.min(GROUP as u64)).unwrap(),
            Self::CutInHalf => file.set_len(len / 2).unwrap(),
            Self::LastByteCut => file.set_len(len.saturating_sub(1)).unwrap(),
            Self::GrownByOne => file.write_all_at(&[7], len).unwrap(),
            Self::GrownByGroup => file.set_len(len + GROUP as u64).unwrap(),
            Self::Zeroed => file.write_all_at(&vec![0; before.len()], 0).unwrap(),
            Self::Swapped => swap(path, &before),
            Self::HolePunched => punch(&file, len),
            Self::LastBitFlipped => {
                if let Some(last) = before.last() {
                    file.write_all_at(&[last ^ 1], len - 1).unwrap();
                }
            }
        }
        fs::read(path).unwrap() != before
    }
}

/// Puts other bytes of the same length in a file's place, as a new file.
fn swap(path: &Path, before: &[u8]) {
    let others: Vec<u8> = before.iter().map(|byte| byte.wrapping_add(1)).collect();
    let mut other = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    other.write_all(&others).unwrap();
    other.persist(path).unwrap();
}

fn punch(file: &File, len: u64) {
    if len == 0 {
        return;
    }
    let hole = len.min(4096);
    let punched = fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, hole);
    if punched.is_err() {
        // A file system without holes shows the same zeros.
        let zeros = vec![0; usize::try_from(hole).unwrap()];
        file.write_all_at(&zeros, 0).unwrap();
    }
}

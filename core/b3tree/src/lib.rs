//! BLAKE3 hash trees in groups of 16 KiB: any range of an object is verified without reading the rest of it.
//!
//! BLAKE3 (O'Connor et al. 2020) is a tree hash: the hash of an object is computed from hashes of its parts. A
//! [`Tree`] keeps one hash per group of [`GROUP_LEN`] bytes, 32 bytes for 16 KiB, as Bao does. When a tree is
//! loaded, its root is recomputed and compared with the object's name; from then on, one hash over a group verifies
//! its bytes ([`Tree::check_group`]).
//!
//! ```
//! use b3tree::{Builder, GROUP_LEN};
//!
//! let object = vec![7; 100_000];
//! let tree = Builder::new().update(&object).finish();
//! assert_eq!(tree.root().as_bytes(), blake3::hash(&object).as_bytes(), "plain BLAKE3");
//! assert!(tree.check_group(2, &object[2 * GROUP_LEN..3 * GROUP_LEN]).is_ok());
//! assert!(tree.check_group(2, &[0; GROUP_LEN]).is_err());
//! ```
//!
//! A tree is stored beside its object in its own format ([`Tree::encode`], [`Tree::decode`]). A reader that knows
//! only an object's name and length can verify a range with the range's groups and a proof of at most [`PROOF_MAX`]
//! bytes ([`Tree::proof`], [`verify_slice`]); a [`Prover`] makes many of them.
//!
//! **Length.** The name of an object commits to its length, but only the last group shows it: trees with the same
//! number of groups have the same shape. So a claimed length is proven only once the last group has been checked,
//! and every check of a group includes its length.

mod builder;
mod node;
mod outboard;
mod prover;
mod slice;
mod tree;

pub use builder::Builder;
pub use outboard::OutboardError;
pub use prover::Prover;
pub use slice::{OutOfRange, PROOF_MAX, SliceError, verify_slice};
pub use tree::{Corrupt, Tree};

/// The bytes that are checked at once: 16 of BLAKE3's chunks, as many as its fastest code takes side by side.
pub const GROUP_LEN: usize = 16 * 1024;

/// What a group hashes to that is not the whole object.
pub type GroupHash = [u8; 32];

/// Whether these bytes are the group at `index` of an object of several groups, going by what that hashed to when it passed a
/// [`Builder`].
#[must_use]
pub fn is_group(index: u64, data: &[u8], hash: &GroupHash) -> bool {
    node::group(index, data) == *hash
}

/// [`GROUP_LEN`], for arithmetic on lengths of objects.
const GROUP: u64 = GROUP_LEN as u64;

/// The number of groups of an object of `len` bytes. An empty object has one, which is empty.
#[must_use]
pub const fn group_count(len: u64) -> u64 {
    if len == 0 { 1 } else { len.div_ceil(GROUP) }
}

/// The range, extended to whole groups and cut at the end of an object of `len` bytes: what has to be read in order to
/// check it.
///
/// ```
/// assert_eq!(b3tree::covering(20_000, 5..17_000), 0..20_000);
/// assert_eq!(b3tree::covering(40_000, 16_384..16_385), 16_384..32_768);
/// ```
#[must_use]
pub fn covering(len: u64, range: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let start = (range.start - range.start % GROUP).min(len);
    if range.is_empty() {
        return start..start;
    }
    // The last group may reach beyond what can be counted; the object ends before that.
    start..range.end.checked_next_multiple_of(GROUP).unwrap_or(len).clamp(start, len)
}

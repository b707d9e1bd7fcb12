//! A tree in bytes, to be kept beside its object.
//!
//! ```text
//!  0  magic      `OGB3`
//!  4  version    1
//!  5  group      14: the power of two of a group's length
//!  6  zero       two bytes
//!  8  length     of the object, 64 bits, little-endian
//! 16  root       32 bytes
//! 48  check      the first 16 bytes of BLAKE3 over the 48 before
//! 64  nodes      32 bytes for each group of the length
//! ```
//!
//! Nothing is taken on trust. The length says how many nodes there are, and the bytes have to be just as many before
//! anything is allocated; the root is computed from the nodes and compared. The check is there for the length: trees of
//! the same number of groups have the same shape, so that the root alone would not show a length that is a little off.
//! An empty tree is believed only of the empty object.

use types::ObjectId;

use crate::{
    GROUP_LEN, Tree, group_count,
    node::{self, NODE_LEN, Node},
};

const MAGIC: [u8; 4] = *b"OGB3";
const VERSION: u8 = 1;
#[expect(clippy::cast_possible_truncation, reason = "14")]
const GROUP_LOG: u8 = GROUP_LEN.ilog2() as u8;
const CHECK_AT: usize = 48;
const HEADER_LEN: usize = 64;

/// Why bytes are not the tree that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboardError {
    /// They begin like something else.
    #[error("this is not a tree of hashes")]
    Foreign,
    /// They are of a later version, or in groups of another length.
    #[error("this tree of hashes has an unknown version")]
    Version,
    /// They are fewer or more than the tree has.
    #[error("the tree of hashes is cut off, or has extra bytes")]
    Length,
    /// They have been changed.
    #[error("the tree of hashes is damaged")]
    Damaged,
    /// They are the tree of another object.
    #[error("this is the tree of hashes of another object")]
    OtherObject,
}

impl Tree {
    /// The length of the encoded tree of an object of `len` bytes.
    #[must_use]
    pub const fn encoded_len(len: u64) -> u64 {
        // At most 2⁵⁰ groups, so this does not overflow.
        HEADER_LEN as u64 + NODE_LEN as u64 * group_count(len)
    }

    /// The tree in bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN + self.nodes().len() * NODE_LEN);
        bytes.extend(MAGIC);
        bytes.extend([VERSION, GROUP_LOG, 0, 0]);
        bytes.extend(self.len().to_le_bytes());
        bytes.extend(self.root().as_bytes());
        bytes.extend(check(&bytes));
        bytes.extend(self.nodes().as_flattened());
        bytes
    }

    /// Reads a tree, computes its root, and compares that with the root it claims and with the one that is expected.
    /// What it says of the length is believed until the last group is checked.
    ///
    /// # Errors
    /// [`OutboardError`] if the bytes are not a tree, or not the expected one.
    pub fn decode(bytes: &[u8], expected: Option<ObjectId>) -> Result<Self, OutboardError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(OutboardError::Foreign);
        }
        let (header, body) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(OutboardError::Length)?;
        let (head, sum) = header.split_at(CHECK_AT);
        if check(head) != *sum {
            return Err(OutboardError::Damaged);
        }
        if head[4..8] != [VERSION, GROUP_LOG, 0, 0] {
            return Err(OutboardError::Version);
        }
        let len = u64::from_le_bytes(field(head, 8));
        let root = ObjectId::new(field(head, 16));
        if expected.is_some_and(|expected| expected != root) {
            return Err(OutboardError::OtherObject);
        }
        if bytes.len() as u64 != Self::encoded_len(len) {
            return Err(OutboardError::Length);
        }
        let nodes: Vec<Node> = body.chunks_exact(NODE_LEN).map(|node| field(node, 0)).collect();
        if node::root(&nodes) != root || !node::may_have_length(root, len) {
            return Err(OutboardError::Damaged);
        }
        Ok(Self::of_nodes(root, len, nodes))
    }
}

/// What the bytes before the check have to hash to.
fn check(head: &[u8]) -> [u8; HEADER_LEN - CHECK_AT] {
    field(blake3::hash(head).as_bytes(), 0)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes are N bytes")
}

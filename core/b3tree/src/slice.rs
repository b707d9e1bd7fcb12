//! Ranges for those who know nothing but an object's name and length: the groups of a range, and the nodes beside them
//! up to the root.
//!
//! A proof is those nodes, 32 bytes each, from left to right: the largest subtrees that have no group of the range.
//! There is one way to write it, and the length of the object and the range say how many nodes it has.

use std::ops::Range;

use types::ObjectId;

use crate::{
    GROUP, GROUP_LEN, Tree, covering, group_count,
    node::{self, NODE_LEN, Node},
};

/// The most bytes a proof has: two nodes for each level of the highest tree.
pub const PROOF_MAX: usize = 2 * 50 * NODE_LEN;

/// The range is empty, or not inside of the object. An empty object has one range, which is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the range is empty or beyond the end of the object")]
pub struct OutOfRange;

/// Why a slice is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// There is no such range.
    #[error(transparent)]
    Range(#[from] OutOfRange),
    /// Data or proof are shorter or longer than the range needs.
    #[error("the slice is not of the length its range has")]
    Length,
    /// They are not of this object.
    #[error("the slice is not of this object")]
    Mismatch,
}

impl Tree {
    /// What convinces [`verify_slice`] of the range's groups. Hashes the nodes of all groups once, which takes a
    /// millisecond per 150 MB of the object; who needs many proofs asks a [`Prover`](crate::Prover).
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn proof(&self, range: Range<u64>) -> Result<Vec<u8>, OutOfRange> {
        let wanted = wanted_groups(self.len(), &range)?;
        let subtree = |first, count| node::subtree(self.nodes_of(first, count));
        Ok(collect_all(self.groups(), &wanted, &subtree))
    }
}

/// Checks that `data` are the bytes of the object's groups that cover the range ([`covering`]).
///
/// The length is taken as given. If it is in doubt, ask for a range with the object's last byte: its group proves it.
///
/// # Errors
/// [`SliceError`] if they are not.
pub fn verify_slice(
    root: ObjectId,
    len: u64,
    range: Range<u64>,
    data: &[u8],
    proof: &[u8],
) -> Result<(), SliceError> {
    let wanted = wanted_groups(len, &range)?;
    let whole = covering(len, range);
    let (nodes, odd) = proof.as_chunks::<NODE_LEN>();
    if data.len() as u64 != whole.end - whole.start || !odd.is_empty() {
        return Err(SliceError::Length);
    }
    let mut walk = Walk { wanted, data: data.chunks(GROUP_LEN), proof: nodes.iter() };
    let found = match group_count(len) {
        1 => Some(ObjectId::new(*blake3::hash(data).as_bytes())),
        groups => walk.halves(0, groups).map(|(left, right)| node::join_root(&left, &right)),
    };
    match found {
        None => Err(SliceError::Length),
        Some(_) if walk.proof.len() > 0 => Err(SliceError::Length),
        Some(found) if found != root => Err(SliceError::Mismatch),
        Some(_) => Ok(()),
    }
}

/// The nodes beside the wanted groups, from left to right.
pub(crate) fn collect_all(groups: u64, wanted: &Range<u64>, subtree: &impl Fn(u64, u64) -> Node) -> Vec<u8> {
    let mut proof = Vec::new();
    collect(0, groups, wanted, subtree, &mut proof);
    proof
}

/// As deep as the tree is high.
fn collect(
    first: u64,
    count: u64,
    wanted: &Range<u64>,
    subtree: &impl Fn(u64, u64) -> Node,
    proof: &mut Vec<u8>,
) {
    if is_beside(wanted, first, count) {
        proof.extend(subtree(first, count));
    } else if count > 1 {
        let left = node::left_count(count);
        collect(first, left, wanted, subtree, proof);
        collect(first + left, count - left, wanted, subtree, proof);
    }
}

/// Computes the way up from the groups, with the proof's nodes where there are none.
struct Walk<'a> {
    wanted: Range<u64>,
    data: std::slice::Chunks<'a, u8>,
    proof: std::slice::Iter<'a, Node>,
}

impl Walk<'_> {
    /// The node above `count` groups from `first` on; [`None`] if the proof is too short.
    fn node(&mut self, first: u64, count: u64) -> Option<Node> {
        if is_beside(&self.wanted, first, count) {
            return self.proof.next().copied();
        }
        match count {
            1 => self.data.next().map(|data| node::group(first, data)),
            _ => self.halves(first, count).map(|(left, right)| node::join(&left, &right)),
        }
    }

    fn halves(&mut self, first: u64, count: u64) -> Option<(Node, Node)> {
        let left = node::left_count(count);
        Some((self.node(first, left)?, self.node(first + left, count - left)?))
    }
}

fn is_beside(wanted: &Range<u64>, first: u64, count: u64) -> bool {
    first + count <= wanted.start || first >= wanted.end
}

pub(crate) fn wanted_groups(len: u64, range: &Range<u64>) -> Result<Range<u64>, OutOfRange> {
    let is_all_of_nothing = len == 0 && *range == (0..0);
    if is_all_of_nothing {
        return Ok(0..1);
    }
    if range.is_empty() || range.end > len {
        return Err(OutOfRange);
    }
    Ok(range.start / GROUP..range.end.div_ceil(GROUP))
}

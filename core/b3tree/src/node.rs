//! The nodes of BLAKE3's tree, in units of groups.
//!
//! The shape is BLAKE3's own: of `n` groups the left subtree has the largest power of two below `n`. Because a group is
//! a power of two of chunks, this is the same tree that BLAKE3 makes of the chunks, cut off at the groups.

use blake3::{
    Hasher,
    hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root},
};
use types::ObjectId;

use crate::GROUP;

/// A chaining value: the hash of a part, as its parent takes it in. The hash of a whole object differs from it.
pub(crate) type Node = [u8; NODE_LEN];

pub(crate) const NODE_LEN: usize = 32;

/// A hasher for the group at `index`, which has to get between one byte and a group's.
pub(crate) fn hasher_at(index: u64) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(index * GROUP);
    hasher
}

/// The node of a group that is not the whole object.
pub(crate) fn group(index: u64, data: &[u8]) -> Node {
    hasher_at(index).update(data).finalize_non_root()
}

/// Whether an object of this name can have this length, as far as the name shows: the empty object has a name of its own.
/// Nothing else would find that out, because an empty object has no byte that could be checked.
pub(crate) fn may_have_length(root: ObjectId, len: u64) -> bool {
    (len == 0) == (root.as_bytes() == blake3::hash(&[]).as_bytes())
}

/// How many of `count` groups, two at least, are in the left subtree.
pub(crate) fn left_count(count: u64) -> u64 {
    debug_assert!(count > 1);
    1 << (count - 1).ilog2()
}

pub(crate) fn join(left: &Node, right: &Node) -> Node {
    merge_subtrees_non_root(left, right, Mode::Hash)
}

pub(crate) fn join_root(left: &Node, right: &Node) -> ObjectId {
    ObjectId::new(*merge_subtrees_root(left, right, Mode::Hash).as_bytes())
}

/// The node above these groups, which are a subtree of some object. As deep as the logarithm of their number.
pub(crate) fn subtree(nodes: &[Node]) -> Node {
    match nodes {
        [node] => *node,
        _ => {
            let (left, right) = halves(nodes);
            join(&subtree(left), &subtree(right))
        }
    }
}

/// The hash of the object of these groups. That of a single group is the object's already.
pub(crate) fn root(nodes: &[Node]) -> ObjectId {
    match nodes {
        [root] => ObjectId::new(*root),
        _ => {
            let (left, right) = halves(nodes);
            join_root(&subtree(left), &subtree(right))
        }
    }
}

pub(crate) fn halves(nodes: &[Node]) -> (&[Node], &[Node]) {
    let left = left_count(nodes.len() as u64);
    nodes.split_at(usize::try_from(left).expect("fewer than there are nodes"))
}

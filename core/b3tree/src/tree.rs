//! The tree of an object: what each of its groups has to hash to.

use std::{fmt, ops::Range};

use types::ObjectId;

use crate::{
    GROUP, GROUP_LEN, group_count,
    node::{self, Node},
};

/// The bytes are not those of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("group {group} does not have the bytes it should have")]
pub struct Corrupt {
    /// The first group that is wrong, counted from zero.
    pub group: u64,
}

/// What each group of an object hashes to, under a root that has been computed from just that.
#[derive(Clone, PartialEq, Eq)]
pub struct Tree {
    root: ObjectId,
    len: u64,
    /// One per group. The node of a group that is the whole object is its root.
    nodes: Box<[Node]>,
}

impl Tree {
    /// The tree of an object of one group, made from its name; [`None`] if an object of this name and length cannot
    /// exist or has more groups. The length is not proven before the group is checked, unless it is 0.
    #[must_use]
    pub fn of_one_group(root: ObjectId, len: u64) -> Option<Self> {
        let is_possible = len <= GROUP && node::may_have_length(root, len);
        is_possible.then(|| Self { root, len, nodes: [*root.as_bytes()].into() })
    }

    /// The caller has computed the root of the nodes, one for each group of `len` bytes.
    pub(crate) fn of_nodes(root: ObjectId, len: u64, nodes: Vec<Node>) -> Self {
        debug_assert_eq!(nodes.len() as u64, group_count(len));
        Self { root, len, nodes: nodes.into() }
    }

    /// The object's name: BLAKE3 of all its bytes.
    #[must_use]
    pub fn root(&self) -> ObjectId {
        self.root
    }

    /// The object's length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the object has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of groups, at least one.
    #[must_use]
    pub fn groups(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// Where a group's bytes are in the object; empty beyond its end.
    #[must_use]
    pub fn group_range(&self, group: u64) -> Range<u64> {
        let start = group.saturating_mul(GROUP).min(self.len);
        start..start.saturating_add(GROUP).min(self.len)
    }

    /// Checks that these bytes, all of them and no others, are a group.
    ///
    /// # Errors
    /// [`Corrupt`] if they are not, or if there is no such group.
    pub fn check_group(&self, group: u64, data: &[u8]) -> Result<(), Corrupt> {
        let range = self.group_range(group);
        let node = usize::try_from(group).ok().and_then(|at| self.nodes.get(at)).ok_or(Corrupt { group })?;
        let is_right = data.len() as u64 == range.end - range.start
            && match self.nodes.len() {
                1 => blake3::hash(data).as_bytes() == node,
                _ => node::group(group, data) == *node,
            };
        if is_right { Ok(()) } else { Err(Corrupt { group }) }
    }

    /// Checks that these bytes are whole groups, one after the other from `first` on. Nothing is nothing to check.
    ///
    /// # Errors
    /// [`Corrupt`] with the first group that is wrong.
    pub fn check_groups(&self, first: u64, data: &[u8]) -> Result<(), Corrupt> {
        (first..).zip(data.chunks(GROUP_LEN)).try_for_each(|(group, data)| self.check_group(group, data))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes of `count` groups from `first` on, which have to be there.
    pub(crate) fn nodes_of(&self, first: u64, count: u64) -> &[Node] {
        let index = |at| usize::try_from(at).expect("groups that are in memory can be counted there");
        &self.nodes[index(first)..index(first + count)]
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("root", &self.root).field("len", &self.len).finish_non_exhaustive()
    }
}

//! Makes a tree while an object passes by.

use blake3::{Hasher, hazmat::HasherExt};
use types::ObjectId;

use crate::{
    GROUP, GROUP_LEN, GroupHash, Tree,
    node::{self, Node},
};

/// Hashes an object that comes in pieces of any size. Keeps 32 bytes per 16 KiB that have passed; how much may pass is
/// the caller's to bound.
#[derive(Clone, Debug)]
pub struct Builder {
    /// The groups that are complete, all but the last.
    closed: Vec<Node>,
    /// The last group so far.
    hasher: Hasher,
    /// Bytes of the last group, at most [`GROUP_LEN`].
    filled: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Before the first byte.
    #[must_use]
    pub fn new() -> Self {
        Self { closed: Vec::new(), hasher: Hasher::new(), filled: 0 }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, mut data: &[u8]) -> &mut Self {
        while !data.is_empty() {
            // Only now that there is more: a group that turns out to be the whole object is hashed as such.
            if self.filled == GROUP_LEN {
                self.closed.push(self.hasher.finalize_non_root());
                self.hasher = node::hasher_at(self.closed.len() as u64);
                self.filled = 0;
            }
            let (part, rest) = data.split_at(data.len().min(GROUP_LEN - self.filled));
            self.hasher.update(part);
            self.filled += part.len();
            data = rest;
        }
        self
    }

    /// The bytes that have passed.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.closed.len() as u64 * GROUP + self.filled as u64
    }

    /// Returns true if no byte has been added yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the groups hash to that are complete and have more behind them, from the group `first` on.
    #[must_use]
    pub fn closed_from(&self, first: usize) -> &[GroupHash] {
        self.closed.get(first..).unwrap_or_default()
    }

    /// The tree of what has passed; what passes later begins a new one.
    #[must_use]
    pub fn finish(&mut self) -> Tree {
        let done = std::mem::take(self);
        let len = done.len();
        let mut nodes = done.closed;
        let root = if nodes.is_empty() {
            nodes.push(*done.hasher.finalize().as_bytes());
            ObjectId::new(nodes[0])
        } else {
            nodes.push(done.hasher.finalize_non_root());
            node::root(&nodes)
        };
        Tree::of_nodes(root, len, nodes)
    }
}

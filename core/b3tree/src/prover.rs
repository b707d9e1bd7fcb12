//! Many proofs of one object: its nodes are joined once, not once for each proof.

use std::{ops::Range, sync::Arc};

use crate::{
    Tree,
    node::{self, Node},
    slice::{OutOfRange, collect_all, wanted_groups},
};

/// A tree with all nodes above its groups. Takes as much memory again as the tree, 32 bytes for 16 KiB of the object.
///
/// ```
/// use std::sync::Arc;
/// use b3tree::{Builder, Prover};
///
/// let tree = Arc::new(Builder::new().update(&vec![7; 300_000]).finish());
/// let prover = Prover::new(Arc::clone(&tree));
/// assert_eq!(prover.proof(70_000..80_000), tree.proof(70_000..80_000));
/// ```
#[derive(Clone, Debug)]
pub struct Prover {
    tree: Arc<Tree>,
    /// Those above pairs of groups, those above pairs of pairs, and so on. One that is left over at the end of a level
    /// goes up as it is, which makes the tree's own shape.
    levels: Vec<Vec<Node>>,
}

impl Prover {
    /// Joins all nodes: a millisecond per 150 MB of the object.
    #[must_use]
    pub fn new(tree: Arc<Tree>) -> Self {
        let mut levels: Vec<Vec<Node>> = Vec::new();
        loop {
            let below = levels.last().map_or(tree.nodes(), Vec::as_slice);
            // The two below the root are never joined: what joins them is the root.
            if below.len() <= 2 {
                return Self { tree, levels };
            }
            levels.push(below.chunks(2).map(node::subtree).collect());
        }
    }

    /// Returns the hash tree that proofs are made from.
    #[must_use]
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// What [`Tree::proof`] gives, in a time that grows with the height of the tree alone.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn proof(&self, range: Range<u64>) -> Result<Vec<u8>, OutOfRange> {
        let wanted = wanted_groups(self.tree.len(), &range)?;
        Ok(collect_all(self.tree.groups(), &wanted, &|first, count| self.subtree(first, count)))
    }

    /// The node above `count` groups from `first` on, a subtree of this tree.
    fn subtree(&self, first: u64, count: u64) -> Node {
        match count {
            1 => self.tree.nodes_of(first, 1)[0],
            _ => {
                let level = (count - 1).ilog2();
                let index =
                    usize::try_from(first >> (level + 1)).expect("nodes in memory can be counted there");
                self.levels[level as usize][index]
            }
        }
    }
}

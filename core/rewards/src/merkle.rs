//! The tree over the lines: whoever has the root and a path of a few hashes can tell whether a line is among them.
//!
//! Two neighbours make a node; the last of an odd number moves up as it is. Lines and nodes are hashed under different
//! keys, so that no node can be presented as a line.

use crate::{Digest, digest::Domain};

/// A Merkle tree with all its hashes.
#[derive(Clone, Debug)]
pub struct Tree {
    /// From the leaves to the root. The last level has one hash, except that of no leaves, which has none.
    levels: Vec<Vec<Digest>>,
}

impl Tree {
    /// The tree over these leaves.
    #[must_use]
    pub fn new(leaves: Vec<Digest>) -> Self {
        let mut levels = vec![leaves];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            let above = below.chunks(2).map(|pair| match pair {
                [left, right] => join(left, right),
                single => single[0],
            });
            let above = above.collect();
            levels.push(above);
        }
        Self { levels }
    }

    /// The root. That of no leaves is the hash of nothing.
    #[must_use]
    pub fn root(&self) -> Digest {
        let top = self.levels.last().and_then(|level| level.first());
        top.copied().unwrap_or_else(|| Domain::NODE.hash(b""))
    }

    /// The hashes that lead from the leaf at `index` to the root, from below; none if there is no such leaf.
    #[must_use]
    pub fn path(&self, index: usize) -> Vec<Digest> {
        let step = |(height, level): (usize, &Vec<Digest>)| level.get((index >> height) ^ 1).copied();
        self.levels.iter().enumerate().filter_map(step).collect()
    }
}

/// The root of the tree of `count` leaves in which `leaf` is at `index`, by its path; nothing if the path does not fit.
#[must_use]
pub fn root_of_path(leaf: Digest, index: u64, count: u64, path: &[Digest]) -> Option<Digest> {
    if index >= count {
        return None;
    }
    let (mut node, mut index, mut count, mut path) = (leaf, index, count, path.iter());
    while count > 1 {
        if index % 2 == 1 {
            node = join(path.next()?, &node);
        } else if index + 1 < count {
            node = join(&node, path.next()?);
        }
        (index, count) = (index / 2, count.div_ceil(2));
    }
    path.next().is_none().then_some(node)
}

fn join(left: &Digest, right: &Digest) -> Digest {
    let mut both = [0; 64];
    both[..32].copy_from_slice(left.as_bytes());
    both[32..].copy_from_slice(right.as_bytes());
    Domain::NODE.hash(&both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(count: u64) -> Vec<Digest> {
        (0..count).map(|at| Domain::LEAF.hash(&at.to_be_bytes())).collect()
    }

    #[test]
    fn every_leaf_of_trees_of_all_small_sizes_is_proven_and_nothing_else_is() {
        for count in 1..70 {
            let leaves = leaves(count);
            let tree = Tree::new(leaves.clone());
            for (index, leaf) in (0..count).zip(&leaves) {
                let path = tree.path(usize::try_from(index).unwrap_or(usize::MAX));
                assert_eq!(root_of_path(*leaf, index, count, &path), Some(tree.root()), "{index} of {count}");
                let other = Domain::LEAF.hash(b"other");
                assert_ne!(root_of_path(other, index, count, &path), Some(tree.root()));
                assert_ne!(
                    root_of_path(*leaf, index ^ 1, count, &path),
                    Some(tree.root()),
                    "{index} of {count}"
                );
                assert_eq!(root_of_path(*leaf, count, count, &path), None);
                let longer = [path.as_slice(), &[other]].concat();
                assert_eq!(root_of_path(*leaf, index, count, &longer), None);
                if let Some((_, shorter)) = path.split_last() {
                    assert_eq!(root_of_path(*leaf, index, count, shorter), None);
                }
            }
        }
    }

    #[test]
    fn small_trees_are_what_the_rules_say() {
        let [a, b, c] = [b"a", b"b", b"c"].map(|leaf| Domain::LEAF.hash(leaf));
        assert_eq!(Tree::new(vec![]).root(), Domain::NODE.hash(b""));
        assert_eq!(Tree::new(vec![a]).root(), a);
        assert_eq!(Tree::new(vec![a, b, c]).root(), join(&join(&a, &b), &c));
        assert_eq!(Tree::new(vec![a, b, c]).path(2), [join(&a, &b)]);
    }
}

//! The tree over the claims, in the layout of OpenZeppelin's `StandardMerkleTree`.

use std::{fmt, io};

use sha3::{Digest as _, Keccak256};

use super::EvmAddress;
use crate::Amount;

/// A hash by Keccak-256, written `0x` and 64 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keccak([u8; 32]);

/// The amount that one address can claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimLeaf {
    /// The account that the contract pays.
    pub address: EvmAddress,
    /// What it is paid, in minor units.
    pub amount: Amount,
}

/// All claims of an epoch and the hashes that prove each of them.
///
/// The nodes are in one list: those below the node at `i` are at `2 i + 1` and `2 i + 2`, and the root is the first. The
/// leaves are the last nodes, the least hash at the very end.
#[derive(Clone, Debug)]
pub struct ClaimTree {
    nodes: Vec<Keccak>,
    /// In the order of addresses, each with the place of its hash.
    leaves: Vec<(ClaimLeaf, usize)>,
}

impl ClaimTree {
    /// The tree of these leaves, of which no two have the same address; nothing if there are none.
    #[must_use]
    pub fn new(mut leaves: Vec<ClaimLeaf>) -> Option<Self> {
        if leaves.is_empty() {
            return None;
        }
        leaves.sort_unstable_by_key(|leaf| leaf.address);
        let mut order: Vec<_> = leaves.iter().map(ClaimLeaf::hash).zip(0..).collect();
        order.sort_unstable();
        let count = leaves.len();
        let mut nodes = vec![Keccak([0; 32]); 2 * count - 1];
        let mut leaves: Vec<_> = leaves.into_iter().map(|leaf| (leaf, 0)).collect();
        for ((hash, leaf), node) in order.into_iter().zip((0..nodes.len()).rev()) {
            nodes[node] = hash;
            leaves[leaf].1 = node;
        }
        for node in (0..count - 1).rev() {
            nodes[node] = join(nodes[2 * node + 1], nodes[2 * node + 2]);
        }
        Some(Self { nodes, leaves })
    }

    /// The root, which the contract is told.
    #[must_use]
    pub fn root(&self) -> Keccak {
        self.nodes[0]
    }

    /// All claims, in the order of their addresses.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = &ClaimLeaf> {
        self.leaves.iter().map(|(leaf, _)| leaf)
    }

    /// What an address can claim, and the hashes that prove it, from below; nothing if it can claim nothing.
    #[must_use]
    pub fn proof(&self, address: EvmAddress) -> Option<(ClaimLeaf, Vec<Keccak>)> {
        let at = self.leaves.binary_search_by_key(&address, |(leaf, _)| leaf.address).ok()?;
        let (leaf, mut node) = self.leaves[at];
        let mut path = Vec::new();
        while node > 0 {
            let sibling = if node % 2 == 1 { node + 1 } else { node - 1 };
            path.push(self.nodes[sibling]);
            node = (node - 1) / 2;
        }
        Some((leaf, path))
    }

    /// Writes the document that OpenZeppelin's `StandardMerkleTree.load` reads.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_document(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(b"{\"format\":\"standard-v1\",\"leafEncoding\":[\"address\",\"uint256\"],\"tree\":[")?;
        for (at, node) in self.nodes.iter().enumerate() {
            write!(out, "{}\"{node}\"", comma(at))?;
        }
        out.write_all(b"],\"values\":[")?;
        for (at, (leaf, node)) in self.leaves.iter().enumerate() {
            let (comma, ClaimLeaf { address, amount }) = (comma(at), leaf);
            write!(out, "{comma}{{\"treeIndex\":{node},\"value\":[\"{address}\",\"{amount}\"]}}")?;
        }
        out.write_all(b"]}\n")
    }
}

const fn comma(at: usize) -> &'static str {
    if at == 0 { "" } else { "," }
}

impl ClaimLeaf {
    /// The hash of the leaf. It is hashed twice, so that no inner node can be presented as a leaf.
    fn hash(&self) -> Keccak {
        // As Solidity's abi.encode has it: both in 32 bytes, the most significant first.
        let mut encoded = [0; 64];
        encoded[12..32].copy_from_slice(self.address.as_bytes());
        encoded[48..].copy_from_slice(&self.amount.minor().to_be_bytes());
        Keccak(keccak(&keccak(&encoded)))
    }
}

/// The node above two others, whichever is left.
fn join(one: Keccak, other: Keccak) -> Keccak {
    let mut both = [0; 64];
    both[..32].copy_from_slice(&one.min(other).0);
    both[32..].copy_from_slice(&one.max(other).0);
    Keccak(keccak(&both))
}

pub(super) fn keccak(bytes: &[u8]) -> [u8; 32] {
    Keccak256::digest(bytes).into()
}

impl fmt::Display for Keccak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(count: u128) -> Vec<ClaimLeaf> {
        let address = |at: u128| format!("0x{:040x}", (at + 1) * 7919).parse().expect("an address");
        (0..count)
            .map(|at| ClaimLeaf { address: address(at), amount: Amount::new(at * at + 1).expect("small") })
            .collect()
    }

    fn climbs(leaf: ClaimLeaf, path: &[Keccak]) -> Keccak {
        path.iter().fold(leaf.hash(), |node, sibling| join(node, *sibling))
    }

    #[test]
    fn every_claim_of_trees_of_all_small_sizes_is_proven_and_no_other_amount_is() {
        assert!(ClaimTree::new(Vec::new()).is_none());
        for count in 1..70 {
            let mut given = leaves(count);
            given.reverse();
            let tree = ClaimTree::new(given).expect("some");
            assert_eq!(tree.leaves().copied().collect::<Vec<_>>(), leaves(count));
            for leaf in leaves(count) {
                let (found, path) = tree.proof(leaf.address).expect("a claim");
                assert_eq!((found, climbs(leaf, &path)), (leaf, tree.root()), "{count}");
                let more = ClaimLeaf { amount: Amount::new(leaf.amount.minor() + 1).expect("small"), ..leaf };
                assert_ne!(climbs(more, &path), tree.root());
            }
            let stranger = format!("0x{:040x}", 5).parse().expect("an address");
            assert!(tree.proof(stranger).is_none());
        }
    }

    /// The root that `@openzeppelin/merkle-tree` 1.0.8 has for two claims, which its documentation uses as an example.
    #[test]
    fn the_documented_example_has_the_documented_root() {
        let leaf = |address: &str, amount| ClaimLeaf {
            address: address.parse().expect("an address"),
            amount: Amount::new(amount).expect("small"),
        };
        let tree = ClaimTree::new(vec![
            leaf("0x1111111111111111111111111111111111111111", 5_000_000_000_000_000_000),
            leaf("0x2222222222222222222222222222222222222222", 2_500_000_000_000_000_000),
        ]);
        let root = tree.expect("two").root().to_string();
        assert_eq!(root, "0xd4dee0beab2d53f2cc83e567171bd2820e49898130a22622b10ead383e90bd77");
    }
}

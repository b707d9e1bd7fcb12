//! The root of a Merkle tree over leaves that are hashed already, in the shape of RFC 6962.

use crate::{Hash, encode::Tag};

/// The root over the leaves; of no leaves, zeros. The leaves are used up.
///
/// A node without a neighbour moves up as it is, which is the same as splitting at the largest power of two.
pub(crate) fn root(mut level: Vec<Hash>) -> Hash {
    while level.len() > 1 {
        let pairs = level.len() / 2;
        for pair in 0..pairs {
            level[pair] = node(&level[2 * pair], &level[2 * pair + 1]);
        }
        if level.len() % 2 == 1 {
            level[pairs] = level[level.len() - 1];
        }
        level.truncate(level.len().div_ceil(2));
    }
    level.first().copied().unwrap_or([0; 32])
}

fn node(left: &Hash, right: &Hash) -> Hash {
    let mut bytes = [Tag::Node as u8; 65];
    bytes[1..33].copy_from_slice(left);
    bytes[33..].copy_from_slice(right);
    *blake3::hash(&bytes).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6962, section 2.1, word for word.
    fn by_the_book(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => [0; 32],
            [leaf] => *leaf,
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                node(&by_the_book(&leaves[..split]), &by_the_book(&leaves[split..]))
            }
        }
    }

    #[test]
    fn the_shape_is_that_of_rfc_6962() {
        for count in 0..=130_u8 {
            let leaves: Vec<Hash> = (0..count).map(|leaf| [leaf; 32]).collect();
            assert_eq!(root(leaves.clone()), by_the_book(&leaves), "{count} leaves");
        }
    }

    #[test]
    fn a_node_hashes_a_tag_and_both_sides_in_order() {
        let spelled: Vec<u8> = [vec![1], vec![7; 32], vec![9; 32]].concat();
        assert_eq!(root(vec![[7; 32], [9; 32]]), *blake3::hash(&spelled).as_bytes());
        assert_ne!(root(vec![[9; 32], [7; 32]]), root(vec![[7; 32], [9; 32]]));
    }
}

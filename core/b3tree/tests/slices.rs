//! Ranges that are proven to somebody who knows the name and the length of an object and nothing else.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::{ops::Range, sync::Arc};

use b3tree::{GROUP_LEN, OutOfRange, PROOF_MAX, Prover, SliceError, Tree, covering, verify_slice};
use proptest::{
    prelude::*,
    sample::{Index, select},
};
use support::{lengths, object, tree_of};

const GROUP: u64 = GROUP_LEN as u64;

/// An object, a range of it, and what is sent for it.
struct Slice {
    tree: Tree,
    range: Range<u64>,
    data: Vec<u8>,
    proof: Vec<u8>,
}

impl Slice {
    fn of(object: &[u8], range: Range<u64>) -> Self {
        let tree = tree_of(object);
        let covered = covering(tree.len(), range.clone());
        let bytes = usize::try_from(covered.start).unwrap()..usize::try_from(covered.end).unwrap();
        let proof = tree.proof(range.clone()).unwrap();
        Self { tree, range, data: object[bytes].to_vec(), proof }
    }

    fn verify(&self) -> Result<(), SliceError> {
        verify_slice(self.tree.root(), self.tree.len(), self.range.clone(), &self.data, &self.proof)
    }
}

fn nodes(groups: usize, range: Range<u64>) -> usize {
    Slice::of(&object(groups * GROUP_LEN), range).proof.len() / 32
}

#[test]
fn a_proof_has_the_nodes_beside_the_range_and_no_others() {
    assert_eq!(nodes(1, 0..1), 0, "a single group needs none");
    assert_eq!(nodes(2, 0..1), 1);
    assert_eq!(nodes(8, 0..1), 3);
    assert_eq!(nodes(8, 0..8 * GROUP), 0, "nothing is beside the whole");
    assert_eq!(nodes(8, 3 * GROUP..5 * GROUP), 4, "on both sides of the middle");
    assert_eq!(nodes(9, 8 * GROUP..9 * GROUP), 1, "the odd one out is next to the root");
    assert_eq!(nodes(9, 0..1), 4);
}

#[test]
fn every_range_of_groups_is_proven_at_every_shape() {
    for groups in 1..=9 {
        for last in [1, GROUP_LEN - 1, GROUP_LEN] {
            let object = object((groups - 1) * GROUP_LEN + last);
            for start in 0..groups as u64 {
                for end in start + 1..=groups as u64 {
                    let range = start * GROUP..(end * GROUP).min(object.len() as u64);
                    let slice = Slice::of(&object, range.clone());
                    assert_eq!(slice.verify(), Ok(()), "{range:?} of {}", object.len());
                    assert!(slice.proof.len() <= PROOF_MAX);
                }
            }
        }
    }
}

#[test]
fn the_empty_object_is_proven_by_nothing() {
    let slice = Slice::of(&[], 0..0);
    assert_eq!((slice.verify(), slice.proof.len()), (Ok(()), 0));
    assert_eq!(verify_slice(tree_of(b"x").root(), 0, 0..0, &[], &[]), Err(SliceError::Mismatch));
}

#[test]
fn a_range_that_is_not_in_the_object_is_neither_proven_nor_believed() {
    for (len, range) in [(10, 0..0), (10, 5..5), (10, 10..11), (10, 9..11), (0, 0..1), (10, 0..u64::MAX)] {
        let tree = tree_of(&object(len));
        assert_eq!(tree.proof(range.clone()), Err(OutOfRange), "{range:?} of {len}");
        let verdict = verify_slice(tree.root(), tree.len(), range.clone(), &[], &[]);
        assert_eq!(verdict, Err(SliceError::Range(OutOfRange)), "{range:?} of {len}");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "what a client could ask for")]
    let backwards = 7..3;
    assert_eq!(tree_of(&object(10)).proof(backwards), Err(OutOfRange));
}

#[test]
fn data_and_proof_of_a_wrong_length_are_refused() {
    let honest = Slice::of(&object(5 * GROUP_LEN), GROUP..2 * GROUP);
    let verdict = |data: &[u8], proof: &[u8]| {
        verify_slice(honest.tree.root(), honest.tree.len(), honest.range.clone(), data, proof)
    };
    assert_eq!(verdict(&honest.data, &honest.proof), Ok(()));
    for data in [&honest.data[1..], &[], &[&honest.data[..], &[0]].concat()] {
        assert_eq!(verdict(data, &honest.proof), Err(SliceError::Length));
    }
    let proof = &honest.proof;
    for proof in
        [&[][..], &proof[1..], &proof[32..], &[&proof[..], &[0; 32]].concat(), &[&proof[..], &[0]].concat()]
    {
        assert_eq!(verdict(&honest.data, proof), Err(SliceError::Length), "{}", proof.len());
    }
}

#[test]
fn a_wrong_length_of_the_object_is_found_with_its_last_group() {
    let object = object(3 * GROUP_LEN + 100);
    let len = object.len() as u64;
    let honest = Slice::of(&object, len - 1..len);
    for wrong in [len - 1, len + 1, 4 * GROUP, 4 * GROUP + 1, 2 * GROUP] {
        let range = covering(wrong, wrong - 1..wrong);
        let start = usize::try_from(range.start).unwrap();
        let mut data = object[start.min(object.len())..].to_vec();
        data.resize(usize::try_from(range.end - range.start).unwrap(), 0);
        let verdict = verify_slice(honest.tree.root(), wrong, wrong - 1..wrong, &data, &honest.proof);
        assert!(verdict.is_err(), "{wrong}");
    }
}

#[test]
fn a_length_beyond_reason_costs_no_more_than_the_way_to_its_root() {
    let (root, data) = (tree_of(b"x").root(), vec![0; GROUP_LEN]);
    for nodes in [0, 49, 50, 51, 100] {
        let verdict = verify_slice(root, u64::MAX, 0..1, &data, &vec![0; 32 * nodes]);
        let expected = if nodes == 50 { SliceError::Mismatch } else { SliceError::Length };
        assert_eq!(verdict, Err(expected), "{nodes}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_range_is_proven_and_any_flipped_bit_found(
        len in select(lengths()),
        (from, to, at) in any::<(Index, Index, Index)>(),
    ) {
        prop_assume!(len > 0);
        let (from, to) = (from.index(len) as u64, to.index(len) as u64);
        let mut slice = Slice::of(&object(len), from.min(to)..from.max(to) + 1);
        prop_assert_eq!(slice.verify(), Ok(()));
        let bit = at.index(8 * (slice.data.len() + slice.proof.len()));
        let data_bits = 8 * slice.data.len();
        if bit < data_bits {
            slice.data[bit / 8] ^= 1 << (bit % 8);
        } else {
            slice.proof[(bit - data_bits) / 8] ^= 1 << (bit % 8);
        }
        prop_assert_eq!(slice.verify(), Err(SliceError::Mismatch));
    }

    #[test]
    fn a_slice_is_not_believed_for_another_range(groups in 2..10_usize, a in 0..10_u64, b in 0..10_u64) {
        let groups = groups as u64;
        let (a, b) = (a % groups, b % groups);
        prop_assume!(a != b);
        let one = |at: u64| at * GROUP..(at + 1) * GROUP;
        let slice = Slice::of(&object(usize::try_from(groups).unwrap() * GROUP_LEN), one(a));
        let verdict = verify_slice(slice.tree.root(), slice.tree.len(), one(b), &slice.data, &slice.proof);
        prop_assert!(verdict.is_err());
    }
}

#[test]
fn a_prover_gives_the_same_proofs_as_the_tree() {
    for len in lengths() {
        let tree = Arc::new(tree_of(&object(len)));
        let prover = Prover::new(Arc::clone(&tree));
        for first in 0..tree.groups() {
            for count in 1..=tree.groups() - first {
                let range = first * GROUP..((first + count) * GROUP).min(tree.len());
                assert_eq!(prover.proof(range.clone()), tree.proof(range.clone()), "{range:?} of {len}");
            }
        }
        assert_eq!(prover.proof(0..tree.len() + 1), Err(OutOfRange));
    }
}

//! Trees against plain BLAKE3, their groups, and their encoded form.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use b3tree::{Builder, Corrupt, GROUP_LEN, OutboardError, Tree, covering, group_count};
use proptest::{collection::vec, prelude::*, sample::select};
use support::{lengths, object, tree_of};
use types::ObjectId;

fn plain(object: &[u8]) -> ObjectId {
    ObjectId::new(*blake3::hash(object).as_bytes())
}

#[test]
fn the_root_is_plain_blake3_at_every_length_that_matters() {
    let all = object(18 * GROUP_LEN);
    for len in lengths() {
        let tree = tree_of(&all[..len]);
        assert_eq!((tree.root(), tree.len()), (plain(&all[..len]), len as u64), "{len}");
        assert_eq!(tree.groups(), len.div_ceil(GROUP_LEN).max(1) as u64, "{len}");
        assert_eq!(tree.is_empty(), len == 0);
    }
}

#[test]
fn a_published_test_vector_holds() {
    // BLAKE3's own vectors: 31,744 bytes of 0, 1, …, 250, 0, ….
    let input: Vec<u8> = (0..31_744_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let expected = "b3:62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47";
    assert_eq!(tree_of(&input).root().to_string(), expected);
}

#[test]
fn a_group_is_believed_if_it_is_that_group_and_whole() {
    let object = object(3 * GROUP_LEN + 5);
    let tree = tree_of(&object);
    for (group, data) in (0..).zip(object.chunks(GROUP_LEN)) {
        let range = tree.group_range(group);
        assert_eq!(range, group * 16_384..group * 16_384 + data.len() as u64);
        assert_eq!(tree.check_group(group, data), Ok(()));
        for other in (0..6).filter(|other| *other != group) {
            assert_eq!(tree.check_group(other, data), Err(Corrupt { group: other }));
        }
        let longer = [data, &[0]].concat();
        for wrong in [&data[..data.len() - 1], &data[1..], &longer, &[]] {
            assert_eq!(tree.check_group(group, wrong), Err(Corrupt { group }));
        }
    }
    assert_eq!(tree.check_group(u64::MAX, &[]), Err(Corrupt { group: u64::MAX }));
    assert_eq!(tree.group_range(u64::MAX), tree.len()..tree.len());
}

#[test]
fn only_the_empty_object_has_an_empty_tree() {
    let (empty, other) = (plain(&[]), plain(b"something"));
    assert!(Tree::of_one_group(empty, 0).is_some_and(|tree| tree == tree_of(&[])));
    assert!(Tree::of_one_group(other, 0).is_none(), "no bytes are the bytes of another object");
    assert!(Tree::of_one_group(empty, 1).is_none(), "the empty object has no bytes");
    // The same in its encoded form, with a header that is right in itself.
    let mut lying = tree_of(&[]).encode();
    lying[16..48].copy_from_slice(other.as_bytes());
    let check = blake3::hash(&lying[..48]);
    lying[48..64].copy_from_slice(&check.as_bytes()[..16]);
    lying[64..96].copy_from_slice(other.as_bytes());
    assert_eq!(Tree::decode(&lying, None), Err(OutboardError::Damaged));
    assert_eq!(Tree::decode(&lying, Some(other)), Err(OutboardError::Damaged));
}

#[test]
fn groups_of_the_same_bytes_are_not_taken_for_each_other() {
    let same = vec![1; 2 * GROUP_LEN];
    let tree = tree_of(&same);
    assert_eq!(tree.check_groups(0, &same), Ok(()));
    let alone = tree_of(&same[..GROUP_LEN]);
    assert_eq!(alone.check_group(0, &same[..GROUP_LEN]), Ok(()));
    assert!(alone.encode()[64..] != tree.encode()[64..96], "the whole object hashes unlike a part of one");
    assert!(tree.encode()[64..96] != tree.encode()[96..], "each group hashes its place as well");
}

#[test]
fn several_groups_are_checked_at_once_and_the_first_wrong_one_is_named() {
    let mut object = object(4 * GROUP_LEN + 9);
    let tree = tree_of(&object);
    assert_eq!(tree.check_groups(1, &object[GROUP_LEN..]), Ok(()));
    assert_eq!(tree.check_groups(2, &[]), Ok(()));
    assert_eq!(tree.check_groups(0, &object[GROUP_LEN..]), Err(Corrupt { group: 0 }));
    assert_eq!(tree.check_groups(0, &object[..GROUP_LEN + 1]), Err(Corrupt { group: 1 }));
    object[3 * GROUP_LEN] ^= 1;
    object[4 * GROUP_LEN] ^= 1;
    assert_eq!(tree.check_groups(1, &object[GROUP_LEN..]), Err(Corrupt { group: 3 }));
}

#[test]
fn the_empty_object_has_one_empty_group() {
    let tree = tree_of(&[]);
    assert_eq!((tree.root(), tree.groups(), group_count(0)), (plain(&[]), 1, 1));
    assert_eq!((tree.check_group(0, &[]), tree.check_group(0, &[0])), (Ok(()), Err(Corrupt { group: 0 })));
    assert_eq!(tree.check_group(1, &[]), Err(Corrupt { group: 1 }));
}

#[test]
fn an_object_of_one_group_needs_no_more_than_its_name() {
    for len in [0, 1, 1024, GROUP_LEN] {
        let object = object(len);
        let tree = Tree::of_one_group(plain(&object), len as u64).unwrap();
        assert_eq!(tree, tree_of(&object));
        assert_eq!(tree.check_group(0, &object), Ok(()));
    }
    assert_eq!(Tree::of_one_group(plain(&[]), GROUP_LEN as u64 + 1), None);
}

#[test]
fn a_builder_starts_anew_after_its_end() {
    let object = object(GROUP_LEN + 1);
    let mut builder = Builder::default();
    assert!(builder.is_empty());
    assert_eq!(builder.update(&object).len(), object.len() as u64);
    assert_eq!(builder.finish().root(), plain(&object));
    assert!(builder.is_empty());
    assert_eq!(builder.update(b"x").finish().root(), plain(b"x"));
}

#[test]
fn ranges_are_extended_to_whole_groups_inside_of_the_object() {
    let group = GROUP_LEN as u64;
    let len = 2 * group + 10;
    for (range, covered) in [
        (0..1, 0..group),
        (group - 1..group, 0..group),
        (group - 1..group + 1, 0..2 * group),
        (group..2 * group, group..2 * group),
        (2 * group..2 * group + 1, 2 * group..len),
        (0..len, 0..len),
        (5..5, 0..0),
        (len..u64::MAX, 2 * group..len),
        (u64::MAX - 1..u64::MAX, len..len),
    ] {
        assert_eq!(covering(len, range.clone()), covered, "{range:?}");
    }
    assert_eq!(covering(u64::MAX, u64::MAX - 1..u64::MAX), u64::MAX - group + 1..u64::MAX);
}

#[test]
fn an_encoded_tree_is_read_back_whole_or_refused() {
    let all = object(18 * GROUP_LEN);
    for len in lengths() {
        let tree = tree_of(&all[..len]);
        let bytes = tree.encode();
        assert_eq!(bytes.len() as u64, Tree::encoded_len(len as u64));
        assert_eq!(Tree::decode(&bytes, None).as_ref(), Ok(&tree));
        assert_eq!(Tree::decode(&bytes, Some(tree.root())), Ok(tree));
        assert_eq!(Tree::decode(&bytes, Some(plain(b"other"))), Err(OutboardError::OtherObject));
    }
}

#[test]
fn no_prefix_of_an_encoded_tree_and_nothing_longer_is_one() {
    let bytes = tree_of(&object(2 * GROUP_LEN + 1)).encode();
    for end in 0..bytes.len() {
        let expected = if end < 4 { OutboardError::Foreign } else { OutboardError::Length };
        assert_eq!(Tree::decode(&bytes[..end], None), Err(expected), "{end}");
    }
    assert_eq!(Tree::decode(&[&bytes[..], &[0]].concat(), None), Err(OutboardError::Length));
    assert_eq!(Tree::decode(&[&bytes[..], &[0; 32]].concat(), None), Err(OutboardError::Length));
}

#[test]
fn any_flipped_bit_of_an_encoded_tree_is_found() {
    for len in [0, 1, GROUP_LEN + 1, 3 * GROUP_LEN] {
        let mut bytes = tree_of(&object(len)).encode();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Tree::decode(&bytes, None).is_err(), "bit {bit} of the tree of {len} bytes");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// A header with a right check, as somebody would write it who means harm.
fn with_head(head: [u8; 48], nodes: &[u8]) -> Vec<u8> {
    [&head[..], &blake3::hash(&head).as_bytes()[..16], nodes].concat()
}

#[test]
fn a_header_that_lies_with_a_right_check_is_refused() {
    let honest = tree_of(&object(2 * GROUP_LEN)).encode();
    let head = |change: &dyn Fn(&mut [u8; 48])| {
        let mut head: [u8; 48] = honest[..48].try_into().unwrap();
        change(&mut head);
        Tree::decode(&with_head(head, &honest[64..]), None)
    };
    assert!(head(&|_| {}).is_ok());
    for at in 4..8 {
        assert_eq!(head(&|head| head[at] += 1), Err(OutboardError::Version), "byte {at}");
    }
    // A length that would need more memory than there is allocates nothing.
    assert_eq!(head(&|head| head[8..16].fill(0xff)), Err(OutboardError::Length));
    assert_eq!(head(&|head| head[16] ^= 1), Err(OutboardError::Damaged));
    // A length of the same number of groups cannot be told from the nodes; the last group tells.
    let shorter = head(&|head| head[8..16].copy_from_slice(&32_767_u64.to_le_bytes())).unwrap();
    let object = object(2 * GROUP_LEN);
    assert_eq!(shorter.check_group(0, &object[..GROUP_LEN]), Ok(()));
    assert_eq!(shorter.check_group(1, &object[GROUP_LEN..32_767]), Err(Corrupt { group: 1 }));
    assert_eq!(shorter.check_group(1, &object[GROUP_LEN..]), Err(Corrupt { group: 1 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn pieces_of_any_size_make_the_same_tree(
        len in select(lengths()),
        cuts in vec(0..18 * GROUP_LEN, 0..40),
    ) {
        let object = object(len);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(len)).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        let mut builder = Builder::new();
        for pair in cuts.windows(2) {
            builder.update(&object[pair[0]..pair[1]]);
        }
        prop_assert_eq!(builder.finish(), tree_of(&object));
    }

    #[test]
    fn any_flipped_bit_of_an_object_is_found_in_its_group(len in 1..6 * GROUP_LEN, at: proptest::sample::Index, bit in 0..8) {
        let mut object = object(len);
        let tree = tree_of(&object);
        let at = at.index(len);
        object[at] ^= 1_u8 << bit;
        let group = (at / GROUP_LEN) as u64;
        prop_assert_eq!(tree.check_groups(0, &object), Err(Corrupt { group }));
    }
}

//! A tree of hashes from anywhere: what is read is whole and has one form, and what somebody changed is not read.

#![no_main]

use b3tree::{Builder, GROUP_LEN, Tree};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, u16, u8, &[u8])| {
    let (groups, at, change, bytes) = input;
    foreign(bytes);
    // Chance alone would never write a header with the right check.
    let mut head = [b"OGB3\x01\x0e\0\0".as_slice(), bytes].concat();
    head.resize(48, 0);
    let check = blake3::hash(&head);
    foreign(&[&head, &check.as_bytes()[..16], bytes.get(40..).unwrap_or_default()].concat());
    changed(usize::from(groups % 8), usize::from(at), change, bytes);
});

/// Bytes that somebody calls a tree.
fn foreign(bytes: &[u8]) {
    let Ok(tree) = Tree::decode(bytes, None) else { return };
    assert_eq!(tree.encode(), bytes, "a tree has one form");
    assert_eq!(Tree::encoded_len(tree.len()), bytes.len() as u64);
    assert_eq!(Tree::decode(bytes, Some(tree.root())).as_ref(), Ok(&tree));
    let _ = tree.check_group(0, &[]);
    let _ = tree.check_groups(tree.groups(), &[0; GROUP_LEN + 1]);
}

/// Our tree, with a byte changed or the end cut off.
fn changed(groups: usize, at: usize, change: u8, tail: &[u8]) {
    let object = [&vec![7; groups * GROUP_LEN], tail].concat();
    let tree = Builder::new().update(&object).finish();
    let mut bytes = tree.encode();
    let at = at % bytes.len();
    assert!(Tree::decode(&bytes[..at], None).is_err());
    bytes[at] ^= change;
    assert_eq!(Tree::decode(&bytes, None).is_ok(), change == 0);
}

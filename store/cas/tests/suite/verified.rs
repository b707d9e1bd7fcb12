//! Files with a tree: nothing that was not hashed is ever read from them.

use std::{
    fs::{self, File},
    ops::ControlFlow,
    path::Path,
    sync::Arc,
};

use crate::support::{GROUP, flip, id_of, object};
use bytes::Bytes;
use cas::{BuildError, ReadError, Verified};
use proptest::{prelude::*, sample::Index};
use tempfile::TempDir;

fn built(path: &Path, bytes: &[u8]) -> Verified {
    fs::write(path, bytes).unwrap();
    Verified::build(File::open(path).unwrap(), |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_file_is_hashed_in_pieces_and_the_progress_told() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    let bytes = object(1, (5 << 19) + 77);
    fs::write(&path, &bytes).unwrap();
    let mut told = Vec::new();
    let verified = Verified::build(File::open(&path).unwrap(), |done| {
        told.push(done);
        ControlFlow::Continue(())
    });
    let verified = verified.unwrap();
    assert_eq!(told, [1 << 20, 2 << 20, bytes.len() as u64]);
    assert_eq!((verified.id(), verified.len()), (id_of(&bytes), bytes.len() as u64));
    assert_eq!(verified.read_all().unwrap(), bytes);
}

#[test]
fn hashing_stops_when_it_is_told_to() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, object(2, 3 << 20)).unwrap();
    let mut steps = 0;
    let stopped = Verified::build(File::open(&path).unwrap(), |_| {
        steps += 1;
        if steps == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(BuildError::Stopped)));
    assert_eq!(steps, 2);
}

#[test]
fn an_empty_file_has_nothing_to_read() {
    let dir = TempDir::new().unwrap();
    let verified = built(&dir.path().join("file"), b"");
    assert_eq!((verified.id(), verified.is_empty()), (id_of(b""), true));
    assert_eq!(verified.read(0..0).unwrap(), "");
    assert!(matches!(verified.read(0..1), Err(ReadError::OutOfRange)));
}

#[test]
fn a_tree_made_once_serves_another_look_at_the_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    let bytes = object(3, 4 * GROUP);
    let tree = Arc::clone(built(&path, &bytes).tree());
    let verified = Verified::of_file(File::open(&path).unwrap(), Arc::clone(&tree));
    assert_eq!(verified.read(100..50_000).unwrap(), bytes[100..50_000]);
    fs::write(&path, object(4, 4 * GROUP)).unwrap();
    assert!(matches!(verified.read(20_000..20_001), Err(ReadError::Corrupt { group: 1 })));
}

#[test]
fn a_file_that_was_cut_off_is_corrupt_from_there_on() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    let bytes = object(5, 3 * GROUP);
    let verified = built(&path, &bytes);
    for (len, first_wrong) in [(3 * GROUP - 1, 2), (2 * GROUP, 2), (GROUP + 1, 1), (1, 0), (0, 0)] {
        File::options().write(true).open(&path).unwrap().set_len(len as u64).unwrap();
        let all = verified.read_all().unwrap_err();
        assert!(matches!(all, ReadError::Corrupt { group } if group == first_wrong), "{len}: {all}");
        if first_wrong > 0 {
            assert_eq!(verified.read(0..10).unwrap(), bytes[..10], "what is there is still right");
        }
    }
}

#[test]
fn what_was_added_to_a_file_is_not_read() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    let bytes = object(6, GROUP + 10);
    let verified = built(&path, &bytes);
    fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
    assert_eq!(verified.read_all().unwrap(), bytes);
    assert!(matches!(verified.read(0..bytes.len() as u64 + 1), Err(ReadError::OutOfRange)));
}

#[test]
fn bytes_in_memory_are_checked_when_they_come() {
    let bytes = object(7, 2 * GROUP);
    let tree = Arc::new(b3tree::Builder::new().update(&bytes).finish());
    let empty = Arc::new(b3tree::Builder::new().finish());
    let of = |bytes: &[u8], tree| Verified::of_bytes(Bytes::copy_from_slice(bytes), Arc::clone(tree));
    let verified = of(&bytes, &tree).unwrap();
    assert_eq!(verified.in_memory().unwrap(), &bytes);
    assert_eq!(verified.read(5..20_000).unwrap(), bytes[5..20_000]);
    assert!(of(b"", &empty).is_ok());
    for wrong in [&bytes[..GROUP], &bytes[1..], b"", &[&bytes[..], b"x"].concat()] {
        assert!(matches!(of(wrong, &tree), Err(ReadError::Corrupt { .. })), "{}", wrong.len());
    }
    assert!(matches!(of(b"x", &empty), Err(ReadError::Corrupt { group: 0 })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_read_is_right_or_refused_wherever_a_bit_is_flipped(
        len in 1..5 * GROUP,
        (from, to, at) in any::<(Index, Index, Index)>(),
    ) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("file");
        let bytes = object(len as u64, len);
        let verified = built(&path, &bytes);
        let bit = at.index(8 * len);
        flip(&path, bit as u64);
        let (from, to) = (from.index(len), to.index(len));
        let range = from.min(to)..from.max(to) + 1;
        let wrong = bit / 8 / GROUP;
        let touches = range.start / GROUP <= wrong && wrong <= (range.end - 1) / GROUP;
        match verified.read(range.start as u64..range.end as u64) {
            Ok(read) => {
                prop_assert_eq!(read, &bytes[range]);
                prop_assert!(!touches);
            }
            Err(ReadError::Corrupt { group }) => prop_assert!(touches && group == wrong as u64),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

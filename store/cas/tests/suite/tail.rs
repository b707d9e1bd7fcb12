//! Objects that are read while they are written.

use std::fs;

use crate::support::{Folder, GROUP, object};
use cas::{Cas, Limits, ReadError};

#[test]
fn what_is_written_can_be_read_group_by_group_and_to_its_end_once_it_is_whole() {
    let folder = Folder::new();
    for (cas, backend) in [(Cas::in_memory(Limits::default()), "memory"), (folder.cas(), "folder")] {
        let bytes = object(1, 5 * GROUP + 100);
        let mut writer = cas.begin().unwrap();
        writer.write(&bytes[..GROUP + 1]).unwrap();
        let tail = writer.tail().unwrap();
        assert_eq!((tail.len(), tail.is_empty()), (GROUP as u64, false), "{backend}");
        assert_eq!(tail.read(5..GROUP as u64).unwrap(), bytes[5..GROUP], "{backend}");
        assert!(matches!(tail.read(0..GROUP as u64 + 1), Err(ReadError::OutOfRange)), "{backend}");
        writer.write(&bytes[GROUP + 1..]).unwrap();
        assert_eq!(writer.tail().unwrap().len(), 5 * GROUP as u64, "the last group may go on");
        assert_eq!(tail.read(GROUP as u64 - 1..3 * GROUP as u64).unwrap(), bytes[GROUP - 1..3 * GROUP]);
        let id = writer.id();
        assert_eq!(writer.commit().unwrap().id, id);
        assert_eq!(tail.len(), bytes.len() as u64);
        assert_eq!(tail.read(0..tail.len()).unwrap(), bytes, "{backend}");
    }
}

#[test]
fn an_object_that_is_given_up_can_be_read_by_those_who_do_and_is_not_stored() {
    let folder = Folder::new();
    for cas in [Cas::in_memory(Limits::default()), folder.cas()] {
        let bytes = object(2, 3 * GROUP);
        let mut writer = cas.begin().unwrap();
        let tail = writer.tail().unwrap();
        assert!(tail.is_empty());
        writer.write(&bytes).unwrap();
        drop(writer);
        assert_eq!(tail.read(0..2 * GROUP as u64).unwrap(), bytes[..2 * GROUP]);
        assert_eq!(cas.stat().objects, 0);
    }
}

#[test]
fn what_was_changed_on_the_disk_meanwhile_is_not_given_out() {
    let folder = Folder::new();
    let cas = folder.cas();
    let bytes = object(3, 4 * GROUP);
    let mut writer = cas.begin().unwrap();
    writer.write(&bytes).unwrap();
    let tail = writer.tail().unwrap();
    let draft = fs::read_dir(folder.path().join("tmp")).unwrap().next().unwrap().unwrap().path();
    let mut damaged = bytes.clone();
    damaged[GROUP + 7] ^= 1;
    fs::write(&draft, &damaged).unwrap();
    assert_eq!(tail.read(0..GROUP as u64).unwrap(), bytes[..GROUP]);
    assert!(matches!(tail.read(0..3 * GROUP as u64), Err(ReadError::Corrupt { group: 1 })));
    fs::write(&draft, &bytes[..GROUP]).unwrap();
    assert!(matches!(tail.read(0..2 * GROUP as u64), Err(ReadError::Corrupt { group: 1 })));
}

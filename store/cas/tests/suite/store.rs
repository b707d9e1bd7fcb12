//! What a store keeps, gives back, and leaves behind: the same for memory and folders.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::support::{Folder, GROUP, id_of, limits, object};
use cas::{Cas, Fate, Limits, OpenError, ReadError, Stat, WriteError};

/// The same test on both backends.
fn on_both(test: impl Fn(&Cas, &str)) {
    test(&Cas::in_memory(Limits::default()), "memory");
    test(&Folder::new().cas(), "folder");
}

#[test]
fn what_was_written_in_pieces_is_read_in_ranges() {
    on_both(|cas, backend| {
        let bytes = object(1, 3 * GROUP + 100);
        let mut writer = cas.begin().unwrap();
        assert!(writer.is_empty());
        for piece in bytes.chunks(1000) {
            writer.write(piece).unwrap();
        }
        assert_eq!(writer.len(), bytes.len() as u64);
        let committed = writer.commit().unwrap();
        assert_eq!((committed.id, committed.len), (id_of(&bytes), bytes.len() as u64), "{backend}");
        assert!(committed.is_new && committed.evicted.is_empty());
        let found = cas.open(committed.id).unwrap().unwrap();
        assert_eq!((found.id(), found.len(), found.is_empty()), (committed.id, committed.len, false));
        for (start, end) in
            [(0, 0), (0, 1), (5, 20_000), (16_383, 16_385), (49_152, 49_252), (0, bytes.len())]
        {
            assert_eq!(found.read(start as u64..end as u64).unwrap(), bytes[start..end], "{start}..{end}");
        }
        assert_eq!(found.read_all().unwrap(), bytes);
        assert!(matches!(found.read(0..committed.len + 1), Err(ReadError::OutOfRange)));
        assert_eq!(found.in_memory().is_some(), backend == "memory");
    });
}

#[test]
fn objects_of_every_size_come_back_as_they_were() {
    on_both(|cas, backend| {
        for len in [0, 1, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP, 5 * GROUP + 7] {
            let bytes = object(2, len);
            let id = cas.put(&bytes).unwrap().id;
            assert_eq!(cas.open(id).unwrap().unwrap().read_all().unwrap(), bytes, "{len} in {backend}");
            assert!(cas.contains(id));
        }
        assert_eq!(cas.stat().objects, 7);
        assert_eq!(cas.ids().len(), 7);
    });
}

#[test]
fn what_is_not_stored_is_not_found() {
    on_both(|cas, _| {
        let id = id_of(b"nothing");
        assert!(cas.open(id).unwrap().is_none());
        assert!(!cas.contains(id));
        assert!(!cas.remove(id).unwrap());
        assert_eq!(cas.quarantine(id).unwrap(), Fate::Missing);
        cas.touch(id);
        assert_eq!(cas.stat(), Stat { max_bytes: Limits::default().max_bytes, ..Stat::default() });
    });
}

#[test]
fn the_same_object_is_stored_once() {
    on_both(|cas, _| {
        let first = cas.put(b"same").unwrap();
        let taken = cas.stat().taken_bytes;
        let second = cas.put(b"same").unwrap();
        assert_eq!((first.id, first.is_new, second.id, second.is_new), (second.id, true, first.id, false));
        assert_eq!((cas.stat().objects, cas.stat().taken_bytes), (1, taken));
    });
}

#[test]
fn a_removed_object_is_gone_and_can_be_written_anew() {
    on_both(|cas, _| {
        let bytes = object(3, 2 * GROUP);
        let id = cas.put(&bytes).unwrap().id;
        let reading = cas.open(id).unwrap().unwrap();
        assert!(cas.remove(id).unwrap());
        assert!(cas.open(id).unwrap().is_none());
        assert_eq!((cas.stat().objects, cas.stat().object_bytes, cas.stat().taken_bytes), (0, 0, 0));
        assert_eq!(reading.read_all().unwrap(), bytes, "whoever was reading reads on");
        assert!(cas.put(&bytes).unwrap().is_new);
        assert_eq!(cas.open(id).unwrap().unwrap().read_all().unwrap(), bytes);
    });
}

#[test]
fn a_dropped_writer_leaves_nothing_behind() {
    let folder = Folder::new();
    let cas = folder.cas();
    let mut writer = cas.begin().unwrap();
    writer.write(&object(4, 100_000)).unwrap();
    assert_eq!(folder.files("tmp").len(), 1);
    drop(writer);
    assert_eq!((folder.files("tmp"), folder.files("objects")), (vec![], vec![]));
    assert_eq!(cas.stat().taken_bytes, 0);
}

#[test]
fn an_object_larger_than_the_store_is_refused_as_soon_as_it_is() {
    let folder = Folder::new();
    let cas = Cas::at(&folder.path(), limits(100_000)).unwrap();
    let kept = cas.put(b"small").unwrap().id;
    let mut writer = cas.begin().unwrap();
    writer.write(&object(5, 90_000)).unwrap();
    assert!(matches!(writer.write(&object(5, 20_000)), Err(WriteError::TooLarge)));
    assert!(matches!(writer.write(b"x"), Err(WriteError::Broken)), "there is a hole in it");
    assert!(matches!(writer.commit(), Err(WriteError::Broken)));
    assert_eq!(folder.files("tmp"), vec![]);
    assert!(cas.contains(kept), "nothing was evicted for it");
}

#[test]
fn a_small_object_is_one_file_and_a_large_one_has_its_tree_beside_it() {
    let folder = Folder::new();
    let cas = folder.cas();
    let small = cas.put(&object(6, GROUP)).unwrap().id;
    let large = cas.put(&object(6, GROUP + 1)).unwrap().id;
    let mut expected = vec![
        (folder.object(small), GROUP as u64),
        (folder.object(large), GROUP as u64 + 1),
        (folder.tree(large), 64 + 2 * 32),
    ];
    expected.sort();
    assert_eq!(folder.files("objects"), expected);
    assert_eq!(cas.stat().taken_bytes, 16_384 + 20_480 + 4096, "in blocks of the disk");
}

#[test]
fn a_store_is_the_same_after_a_restart() {
    let folder = Folder::new();
    let objects: Vec<_> = (0..20).map(|at| object(at, 3000 * usize::try_from(at).unwrap())).collect();
    let before = {
        let cas = folder.cas();
        objects.iter().for_each(|bytes| drop(cas.put(bytes).unwrap()));
        cas.stat()
    };
    let cas = folder.cas();
    assert_eq!(cas.stat(), before);
    for bytes in &objects {
        assert_eq!(cas.open(id_of(bytes)).unwrap().unwrap().read_all().unwrap(), *bytes);
    }
}

#[test]
fn a_folder_with_something_else_in_it_is_left_alone() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path().join("tmp")).unwrap();
    fs::write(folder.path().join("tmp/thesis"), "years of work").unwrap();
    let refused = Cas::at(&folder.path(), Limits::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused}");
    assert_eq!(fs::read_to_string(folder.path().join("tmp/thesis")).unwrap(), "years of work");
    let missing = Cas::visit(&folder.path(), Limits::default()).unwrap_err();
    assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
}

#[test]
fn a_store_of_another_version_is_left_alone() {
    let folder = Folder::new();
    drop(folder.cas());
    fs::write(folder.path().join("cas-format"), "omnigate cas 2\n").unwrap();
    for opened in [Cas::at(&folder.path(), Limits::default()), Cas::visit(&folder.path(), Limits::default())]
    {
        assert!(matches!(opened, Err(OpenError::Version { .. })));
    }
}

#[test]
fn an_emptied_format_file_does_not_cost_the_store() {
    let folder = Folder::new();
    let id = folder.cas().put(b"kept").unwrap().id;
    let format = folder.path().join("cas-format");
    fs::write(&format, "").unwrap();
    let visited = Cas::visit(&folder.path(), Limits::default()).unwrap();
    assert_eq!(visited.open(id).unwrap().unwrap().read_all().unwrap(), "kept");
    assert_eq!(folder.cas().open(id).unwrap().unwrap().read_all().unwrap(), "kept");
    assert_eq!(fs::read_to_string(&format).unwrap(), "omnigate cas 1\n", "it is written anew");
    // Somebody else's folder, which has a file of this name by chance.
    let other = Folder::new();
    fs::create_dir_all(other.path().join("objects")).unwrap();
    fs::write(other.path().join("cas-format"), "").unwrap();
    fs::write(other.path().join("thesis"), "years of work").unwrap();
    let refused = Cas::at(&other.path(), Limits::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Version { .. }), "{refused}");
}

#[test]
fn what_interrupted_writers_left_is_swept_at_the_start() {
    let folder = Folder::new();
    let kept = object(9, 2 * GROUP);
    let (small, large) = (id_of(b"never told of"), id_of(&object(10, 2 * GROUP)));
    folder.cas().put(&kept).unwrap();
    fs::write(folder.path().join("tmp/4711-0"), "half an obj").unwrap();
    fs::write(folder.tree(small), "a tree without an object").unwrap();
    fs::write(folder.object(large), object(10, 2 * GROUP)).unwrap();
    let foreign = folder.object(small).with_file_name("README");
    fs::write(&foreign, "not ours").unwrap();
    let visitor = Cas::visit(&folder.path(), Limits::default()).unwrap();
    assert_eq!((visitor.stat().swept, folder.files("tmp").len()), (0, 1), "a visitor sweeps nothing");
    drop(visitor);
    let cas = folder.cas();
    assert_eq!((cas.stat().swept, cas.ids()), (3, vec![id_of(&kept)]));
    assert_eq!(folder.files("tmp"), vec![]);
    let mut left = vec![folder.object(id_of(&kept)), folder.tree(id_of(&kept)), foreign];
    left.sort();
    assert_eq!(folder.files("objects").into_iter().map(|(path, _)| path).collect::<Vec<_>>(), left);
}

#[test]
fn an_object_that_was_cut_off_is_written_anew() {
    let folder = Folder::new();
    let (cas, bytes) = (folder.cas(), object(11, 2 * GROUP));
    let id = cas.put(&bytes).unwrap().id;
    fs::write(folder.object(id), &bytes[..100]).unwrap();
    assert!(cas.put(&bytes).unwrap().is_new);
    assert_eq!(cas.open(id).unwrap().unwrap().read_all().unwrap(), bytes);
    assert_eq!(cas.stat().taken_bytes, 32_768 + 4096);
}

#[test]
fn a_store_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Cas>();
    shared::<cas::Verified>();
    shared::<cas::Hot>();
    sent::<cas::Writer>();
    sent::<cas::UrlIndex>();
}

#[test]
fn a_first_start_that_was_interrupted_is_no_obstacle() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path()).unwrap();
    fs::write(folder.path().join("cas-format.new"), "omni").unwrap();
    fs::create_dir(folder.path().join("lost+found")).unwrap();
    folder.cas().put(b"x").unwrap();
}

#[test]
fn two_processes_in_one_folder_see_what_the_other_does() {
    let folder = Folder::new();
    let (old, new) = (folder.cas(), folder.cas());
    let bytes = object(7, 2 * GROUP);
    let mut in_progress = old.begin().unwrap();
    in_progress.write(b"not swept by").unwrap();
    let third = folder.cas();
    in_progress.write(b" a newcomer").unwrap();
    in_progress.commit().unwrap();
    let id = old.put(&bytes).unwrap().id;
    assert_eq!(new.open(id).unwrap().unwrap().read_all().unwrap(), bytes);
    assert!(!third.put(&bytes).unwrap().is_new);
    assert!(new.remove(id).unwrap());
    assert!(old.open(id).unwrap().is_none());
    assert!(!old.contains(id));
    assert!(old.put(&bytes).unwrap().is_new, "what the other has removed is written anew");
}

#[test]
fn writers_of_the_same_object_at_once_store_it_once() {
    on_both(|cas, backend| {
        let bytes = object(8, 4 * GROUP);
        let news = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| news.fetch_add(cas.put(&bytes).unwrap().is_new.into(), Ordering::Relaxed));
            }
        });
        assert_eq!((news.into_inner(), cas.stat().objects), (1, 1), "{backend}");
        assert_eq!(cas.open(id_of(&bytes)).unwrap().unwrap().read_all().unwrap(), bytes);
    });
}

#[test]
fn writers_readers_and_removers_at_once_never_see_a_wrong_byte() {
    on_both(|cas, _| {
        let objects: Vec<_> =
            (0..4).map(|at| object(at, GROUP + 10 * usize::try_from(at).unwrap())).collect();
        thread::scope(|scope| {
            for turn in 0..4_usize {
                let objects = &objects;
                scope.spawn(move || {
                    for round in 0..50 {
                        let bytes = &objects[(turn + round) % objects.len()];
                        let id = id_of(bytes);
                        match (turn + round) % 3 {
                            0 => drop(cas.put(bytes).unwrap()),
                            1 => drop(cas.remove(id).unwrap()),
                            _ => {
                                let found = cas.open(id).unwrap();
                                found.iter().for_each(|found| assert_eq!(found.read_all().unwrap(), *bytes));
                            }
                        }
                    }
                });
            }
        });
        let stat = cas.stat();
        for id in cas.ids() {
            assert!(cas.open(id).unwrap().is_some());
            cas.remove(id).unwrap();
        }
        assert_eq!((cas.stat().taken_bytes, cas.stat().object_bytes), (0, 0), "before: {stat:?}");
    });
}

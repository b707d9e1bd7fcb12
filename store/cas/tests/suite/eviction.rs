//! Room: the cap is kept, the longest unused leave first, and nobody is evicted while being read.

use std::{
    fs::{File, FileTimes},
    thread,
    time::{Duration, SystemTime},
};

use crate::support::{Folder, GROUP, id_of, limits, object};
use cas::{Cas, Limits, WriteError};
use proptest::{collection::vec, prelude::*};
use types::ObjectId;

/// What each of these takes on disk.
const BLOCK: u64 = 4096;

/// An object of one block.
fn block(seed: u64) -> Vec<u8> {
    object(seed, 4096)
}

fn on_disk(folder: &Folder) -> u64 {
    let all = [folder.files("objects"), folder.files("quarantine")].concat();
    all.iter().map(|(_, len)| len.max(&1).next_multiple_of(BLOCK)).sum()
}

#[test]
fn the_longest_unused_make_room() {
    let folder = Folder::new();
    let cas = Cas::at(&folder.path(), limits(4 * BLOCK)).unwrap();
    let ids: Vec<ObjectId> = (0..4).map(|seed| cas.put(&block(seed)).unwrap().id).collect();
    drop(cas.open(ids[0]).unwrap());
    cas.touch(ids[1]);
    cas.put(&block(2)).unwrap();
    let fifth = cas.put(&block(4)).unwrap();
    assert_eq!(fifth.evicted, [ids[3]]);
    let two = cas.put(&object(5, 8000)).unwrap();
    assert_eq!(two.evicted, [ids[0], ids[1]]);
    assert_eq!(cas.ids(), [ids[2], fifth.id, two.id]);
    assert_eq!((on_disk(&folder), cas.stat().taken_bytes), (4 * BLOCK, 4 * BLOCK));
    assert_eq!((cas.stat().evicted, cas.stat().evicted_bytes), (3, 3 * BLOCK));
    assert!(cas.open(ids[3]).unwrap().is_none());
}

#[test]
fn what_is_used_all_the_time_stays_though_it_is_not_moved_each_time() {
    let cas = Cas::in_memory(Limits { max_bytes: u64::MAX, max_objects: 16 });
    let hot = cas.put(&block(0)).unwrap().id;
    for seed in 1..100 {
        for _ in 0..3 {
            assert_eq!(cas.bytes(hot).as_deref(), Some(&block(0)[..]), "{seed}");
        }
        cas.put(&block(seed)).unwrap();
    }
    let longest_unused = cas.put(&block(200)).unwrap().id;
    for seed in 300..316 {
        cas.put(&block(seed)).unwrap();
    }
    assert_eq!((cas.bytes(longest_unused), cas.bytes(hot)), (None, None));
}

#[test]
fn an_object_that_is_being_read_stays() {
    for cas in [Cas::in_memory(limits(3 * 4500)), Cas::at(&Folder::new().path(), limits(3 * BLOCK)).unwrap()]
    {
        let ids: Vec<ObjectId> = (0..3).map(|seed| cas.put(&block(seed)).unwrap().id).collect();
        let reading = cas.open(ids[0]).unwrap().unwrap();
        for id in &ids[1..] {
            cas.touch(*id);
        }
        assert_eq!(cas.put(&block(3)).unwrap().evicted, [ids[1]], "the oldest is in use");
        assert!(cas.contains(ids[0]));
        drop(reading);
        assert_eq!(cas.put(&block(4)).unwrap().evicted, [ids[0]]);
    }
}

#[test]
fn a_store_full_of_readers_refuses_and_loses_nothing() {
    let folder = Folder::new();
    let cas = Cas::at(&folder.path(), limits(3 * BLOCK)).unwrap();
    let ids: Vec<ObjectId> = (0..3).map(|seed| cas.put(&block(seed)).unwrap().id).collect();
    let readers: Vec<_> = ids[..2].iter().map(|id| cas.open(*id).unwrap().unwrap()).collect();
    assert!(matches!(cas.put(&object(3, 8000)), Err(WriteError::Full)));
    assert!(cas.contains(ids[2]), "one alone would not have been enough, so it was not evicted");
    assert_eq!(folder.files("tmp"), vec![]);
    drop(readers);
    assert_eq!(cas.put(&object(3, 8000)).unwrap().evicted.len(), 2);
}

#[test]
fn the_number_of_objects_is_bounded_too() {
    let cas = Cas::in_memory(Limits { max_objects: 3, ..Limits::default() });
    let ids: Vec<ObjectId> = (0..5).map(|seed| cas.put(&block(seed)).unwrap().id).collect();
    assert_eq!(cas.ids(), ids[2..]);
}

#[test]
fn a_smaller_cap_is_kept_from_the_start() {
    let folder = Folder::new();
    let ids: Vec<ObjectId> = {
        let cas = folder.cas();
        (0..6).map(|seed| cas.put(&block(seed)).unwrap().id).collect()
    };
    age(&folder, &ids);
    let cas = Cas::at(&folder.path(), limits(2 * BLOCK + 100)).unwrap();
    assert_eq!(cas.ids(), ids[4..]);
    assert_eq!(on_disk(&folder), 2 * BLOCK);
    drop(cas);
    let visitor = Cas::visit(&folder.path(), limits(BLOCK)).unwrap();
    assert_eq!(visitor.ids().len(), 2, "a visitor evicts nothing by coming");
}

/// Sets the times of files, so that the test does not have to wait for the clock: the first is the oldest.
fn age(folder: &Folder, ids: &[ObjectId]) {
    for (at, id) in (1..).zip(ids) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
        let file = File::options().write(true).open(folder.object(*id)).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }
}

#[test]
fn the_order_of_use_outlasts_a_restart() {
    let folder = Folder::new();
    let ids: Vec<ObjectId> = {
        let cas = folder.cas();
        (0..100).map(|seed| cas.put(&seed.to_string().into_bytes()).unwrap().id).collect()
    };
    age(&folder, &ids);
    {
        let cas = folder.cas();
        assert_eq!(cas.ids(), ids);
        // One that is used again and again while others are, as what is hot is.
        for round in 0..100 {
            drop(cas.open(ids[0]).unwrap());
            cas.touch(ids[1]);
            cas.touch(ids[50 + round % 10]);
        }
    }
    let order = folder.cas().ids();
    let place = |id: &ObjectId| order.iter().position(|other| other == id).unwrap();
    assert!(place(&ids[0]) > 80 && place(&ids[1]) > 80, "{} {}", place(&ids[0]), place(&ids[1]));
    assert_eq!(order[0], ids[2]);
}

#[test]
fn using_an_object_seldom_writes_to_the_disk() {
    let folder = Folder::new();
    let cas = folder.cas();
    let id = cas.put(b"hot").unwrap().id;
    age(&folder, &[id]);
    let modified = || folder.object(id).metadata().unwrap().modified().unwrap();
    let aged = modified();
    for _ in 0..63 {
        cas.touch(id);
    }
    assert_eq!(modified(), aged);
    cas.touch(id);
    assert!(modified() > aged);
}

#[test]
fn threads_that_write_at_once_keep_the_cap_together() {
    let folder = Folder::new();
    let cap = 20 * BLOCK;
    let cas = Cas::at(&folder.path(), limits(cap)).unwrap();
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let cas = &cas;
            scope.spawn(move || {
                for round in 0..60_u64 {
                    let len = 1 + usize::try_from((thread * 31 + round * 17) % 30_000).unwrap();
                    cas.put(&object(1000 * thread + round, len)).unwrap();
                    assert!(cas.stat().taken_bytes <= cap);
                }
            });
        }
    });
    assert!(on_disk(&folder) <= cap);
    assert_eq!(on_disk(&folder), cas.stat().taken_bytes);
    assert!(cas.stat().evicted > 100);
    for id in cas.ids() {
        assert_eq!(id_of(&cas.open(id).unwrap().unwrap().read_all().unwrap()), id);
    }
    assert_eq!(folder.files("tmp"), vec![]);
}

/// Something that happens to a store.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u64, usize),
    Open(u64, usize),
    Remove(u64, usize),
    LetGo,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let lens = vec![0, 1, 4096, 4097, GROUP, GROUP + 1, 40_000];
    let which = (0..4_u64, prop::sample::select(lens));
    prop_oneof![
        6 => which.clone().prop_map(|(seed, len)| Step::Put(seed, len)),
        2 => which.clone().prop_map(|(seed, len)| Step::Open(seed, len)),
        1 => which.prop_map(|(seed, len)| Step::Remove(seed, len)),
        1 => Just(Step::LetGo),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_happens_the_cap_is_kept_and_the_books_are_right(steps in vec(step(), 1..40)) {
        let folder = Folder::new();
        let cap = 100_000;
        let mut cas = Cas::at(&folder.path(), limits(cap)).unwrap();
        let mut readers = Vec::new();
        for step in steps {
            match step {
                Step::Put(seed, len) => match cas.put(&object(seed, len)) {
                    Ok(put) => prop_assert!(cas.contains(put.id)),
                    Err(WriteError::Full) => prop_assert!(!readers.is_empty()),
                    Err(other) => prop_assert!(false, "{other}"),
                },
                Step::Open(seed, len) => readers.extend(cas.open(id_of(&object(seed, len))).unwrap()),
                Step::Remove(seed, len) => drop(cas.remove(id_of(&object(seed, len))).unwrap()),
                Step::LetGo => readers.clear(),
                Step::Restart => {
                    readers.clear();
                    cas = Cas::at(&folder.path(), limits(cap)).unwrap();
                }
            }
            for reader in &readers {
                prop_assert_eq!(id_of(&reader.read_all().unwrap()), reader.id());
            }
            prop_assert!(on_disk(&folder) <= cap);
            prop_assert_eq!(on_disk(&folder), cas.stat().taken_bytes);
        }
    }
}

//! The RAM tier: within its cap, and never with anything but whole, right objects.

use std::thread;

use crate::support::{Folder, flip, id_of, object};
use cas::{Cas, Hot, HotStat, Limits, ReadError};

const MIB: u64 = 1 << 20;

#[test]
fn an_object_is_loaded_once_and_found_from_then_on() {
    let (cas, hot) = (Cas::in_memory(Limits::default()), Hot::new(MIB, 10_000));
    let bytes = object(1, 5000);
    let id = cas.put(&bytes).unwrap().id;
    assert_eq!(hot.get(&id), None);
    assert_eq!(hot.load(&cas.open(id).unwrap().unwrap()).unwrap().unwrap(), bytes);
    assert_eq!(hot.get(&id).unwrap(), bytes);
    assert_eq!(hot.stat(), HotStat { objects: 1, taken_bytes: 5128, max_bytes: MIB });
    hot.remove(&id);
    assert_eq!((hot.get(&id), hot.stat().taken_bytes), (None, 0));
}

#[test]
fn a_corrupt_object_is_not_loaded() {
    // Of several groups: one alone is checked when it is opened.
    let (folder, hot) = (Folder::new(), Hot::new(MIB, 50_000));
    let cas = folder.cas();
    let id = cas.put(&object(2, 40_000)).unwrap().id;
    flip(&folder.object(id), 9);
    assert!(matches!(hot.load(&cas.open(id).unwrap().unwrap()), Err(ReadError::Corrupt { group: 0 })));
    assert_eq!((hot.get(&id), hot.stat().objects), (None, 0));
}

#[test]
fn what_is_too_large_is_not_admitted() {
    let (cas, hot) = (Cas::in_memory(Limits::default()), Hot::new(MIB, 10_000));
    for (len, is_kept) in [(10_000, true), (10_001, false)] {
        let bytes = object(3, len);
        let id = cas.put(&bytes).unwrap().id;
        assert_eq!(hot.admits(len as u64), is_kept);
        assert_eq!(hot.load(&cas.open(id).unwrap().unwrap()).unwrap().is_some(), is_kept);
        hot.clear();
        assert_eq!(hot.keep(id, &bytes), is_kept);
        assert_eq!(hot.get(&id).is_some(), is_kept);
    }
}

#[test]
fn a_tier_without_room_keeps_nothing_and_a_small_one_only_what_fits() {
    let nothing = Hot::new(0, MIB);
    assert!(!nothing.keep(id_of(b"x"), b"x") && nothing.get(&id_of(b"x")).is_none());
    let small = Hot::new(10_000, MIB);
    assert!(small.admits(4000) && !small.admits(6000));
    let bytes = object(4, 4000);
    assert!(small.keep(id_of(&bytes), &bytes) && small.get(&id_of(&bytes)).is_some());
}

#[test]
fn the_cap_is_kept_whatever_comes() {
    for max_bytes in [100_000, 3_000_001] {
        let hot = Hot::new(max_bytes, 20_000);
        for seed in 0..400 {
            let bytes = object(seed, usize::try_from(seed * 50 % 19_000).unwrap());
            hot.keep(id_of(&bytes), &bytes);
            assert!(hot.stat().taken_bytes <= max_bytes, "{:?}", hot.stat());
        }
        assert!(hot.stat().taken_bytes > max_bytes / 2, "{:?}", hot.stat());
    }
}

#[test]
fn a_walk_through_everything_does_not_push_out_what_is_hot() {
    let hot = Hot::new(MIB, 10_000);
    let wanted: Vec<_> = (0..20).map(|seed| object(seed, 5000)).collect();
    for _ in 0..3 {
        for bytes in &wanted {
            if hot.get(&id_of(bytes)).is_none() {
                hot.keep(id_of(bytes), bytes);
            }
        }
    }
    for seed in 1000..2000 {
        let bytes = object(seed, 5000);
        hot.keep(id_of(&bytes), &bytes);
        if seed % 20 == 0 {
            wanted.iter().for_each(|bytes| drop(hot.get(&id_of(bytes))));
        }
    }
    let left = wanted.iter().filter(|bytes| hot.get(&id_of(bytes)).is_some()).count();
    assert!(left >= 18, "{left} of 20 are left");
}

#[test]
fn look_ups_from_several_threads_agree() {
    let hot = Hot::new(MIB, 10_000);
    let objects: Vec<_> = (0..50).map(|seed| object(seed, 1000)).collect();
    thread::scope(|scope| {
        for turn in 0..4 {
            let (hot, objects) = (&hot, &objects);
            scope.spawn(move || {
                for round in 0..2000 {
                    let bytes = &objects[(turn * 13 + round) % objects.len()];
                    match hot.get(&id_of(bytes)) {
                        Some(found) => assert_eq!(found, *bytes),
                        None => assert!(hot.keep(id_of(bytes), bytes)),
                    }
                }
            });
        }
    });
    assert_eq!(hot.stat().objects, 50);
}

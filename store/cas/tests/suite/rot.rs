//! Rot: what the disk has changed is found, set aside or repaired, and never given out.

use std::{
    fs::{self, File},
    ops::ControlFlow,
};

use crate::support::{Folder, GROUP, flip, id_of, limits, object};
use cas::{Cas, Fate, Limits, ReadError, ScrubProgress};
use proptest::{prelude::*, sample::Index};

#[test]
fn a_corrupt_object_is_set_aside_and_can_be_written_anew() {
    let folder = Folder::new();
    let cas = folder.cas();
    let bytes = object(1, 2 * GROUP);
    let id = cas.put(&bytes).unwrap().id;
    flip(&folder.object(id), 8 * 20_000);
    let found = cas.open(id).unwrap().unwrap();
    assert_eq!(found.read(0..100).unwrap(), bytes[..100], "the other group is right");
    assert!(matches!(found.read(16_000..17_000), Err(ReadError::Corrupt { group: 1 })));
    assert_eq!(cas.quarantine(id).unwrap(), Fate::Quarantined);
    assert!(cas.open(id).unwrap().is_none() && !cas.contains(id));
    assert_eq!(cas.quarantined(), [id]);
    assert_eq!(folder.files("quarantine").len(), 1);
    assert_eq!(folder.files("objects"), vec![], "its tree has gone with it");
    assert_eq!((cas.stat().objects, cas.stat().quarantined, cas.stat().taken_bytes), (0, 1, 32_768));
    assert!(cas.put(&bytes).unwrap().is_new);
    assert_eq!(cas.open(id).unwrap().unwrap().read_all().unwrap(), bytes);
    assert_eq!(
        cas.quarantine(id).unwrap(),
        Fate::Sound,
        "a good copy is not set aside for the old one's sake"
    );
}

#[test]
fn what_was_set_aside_is_remembered_after_a_restart() {
    let folder = Folder::new();
    let id = {
        let cas = folder.cas();
        let id = cas.put(b"good").unwrap().id;
        flip(&folder.object(id), 0);
        assert_eq!(cas.quarantine(id).unwrap(), Fate::Quarantined);
        id
    };
    let cas = folder.cas();
    assert_eq!((cas.quarantined(), cas.stat().taken_bytes), (vec![id], 4096));
    assert!(cas.open(id).unwrap().is_none());
}

#[test]
fn objects_that_were_set_aside_are_bounded_and_the_first_to_make_room() {
    let folder = Folder::new();
    let cas = Cas::at(&folder.path(), limits(80 * 4096)).unwrap();
    let mut ids = Vec::new();
    for seed in 0..66_u64 {
        let id = cas.put(&seed.to_le_bytes()).unwrap().id;
        flip(&folder.object(id), 3);
        assert_eq!(cas.quarantine(id).unwrap(), Fate::Quarantined);
        ids.push(id);
    }
    assert_eq!(cas.quarantined(), ids[2..]);
    assert_eq!(folder.files("quarantine").len(), 64);
    for seed in 100..117_u64 {
        assert_eq!(cas.put(&seed.to_le_bytes()).unwrap().evicted, []);
    }
    assert_eq!(cas.quarantined(), ids[3..], "16 blocks were free");
    assert_eq!(cas.stat().taken_bytes, 80 * 4096);
}

#[test]
fn a_damaged_tree_is_made_anew_if_the_object_is_good() {
    let folder = Folder::new();
    let bytes = object(2, 3 * GROUP);
    let id = folder.cas().put(&bytes).unwrap().id;
    let spoil: [&dyn Fn(); 3] = [
        &|| flip(&folder.tree(id), 8 * 80),
        &|| File::options().write(true).open(folder.tree(id)).unwrap().set_len(100).unwrap(),
        &|| fs::write(folder.tree(id), b"").unwrap(),
    ];
    for spoil in spoil {
        let cas = folder.cas();
        spoil();
        assert!(matches!(cas.open(id), Err(ReadError::Corrupt { group: 0 })));
        assert_eq!(cas.quarantine(id).unwrap(), Fate::Repaired);
        assert_eq!(cas.open(id).unwrap().unwrap().read_all().unwrap(), bytes);
        assert_eq!(folder.cas().open(id).unwrap().unwrap().read_all().unwrap(), bytes);
    }
    let cas = folder.cas();
    fs::remove_file(folder.tree(id)).unwrap();
    assert!(matches!(cas.open(id), Err(ReadError::Corrupt { group: 0 })));
    assert_eq!(cas.quarantine(id).unwrap(), Fate::Repaired);
}

#[test]
fn an_object_of_another_length_is_corrupt() {
    let folder = Folder::new();
    let cas = folder.cas();
    for (seed, len, now, group) in [(1, 100, 99, 0), (2, 100, 0, 0), (3, 100, 101, 0), (4, 40_000, 20_000, 1)]
    {
        let id = cas.put(&object(seed, len)).unwrap().id;
        File::options().write(true).open(folder.object(id)).unwrap().set_len(now).unwrap();
        let wrong = cas.open(id).unwrap_err();
        assert!(matches!(wrong, ReadError::Corrupt { group: found } if found == group), "{wrong}");
        assert_eq!(cas.quarantine(id).unwrap(), Fate::Quarantined);
    }
}

#[test]
fn an_object_that_lost_bytes_before_a_restart_is_found_when_it_is_opened() {
    let folder = Folder::new();
    let id = folder.cas().put(&object(5, 100)).unwrap().id;
    File::options().write(true).open(folder.object(id)).unwrap().set_len(50).unwrap();
    let cas = folder.cas();
    assert!(
        matches!(cas.open(id), Err(ReadError::Corrupt { group: 0 })),
        "its length would be told to clients"
    );
}

#[test]
fn a_scrub_finds_all_that_is_wrong_and_nothing_else() {
    let folder = Folder::new();
    let cas = folder.cas();
    let ids: Vec<_> = (0..8).map(|seed| cas.put(&object(seed, 3 * GROUP)).unwrap().id).collect();
    flip(&folder.object(ids[1]), 77);
    flip(&folder.tree(ids[3]), 800);
    fs::remove_file(folder.object(ids[5])).unwrap();
    let fresh = folder.cas();
    let mut told = Vec::new();
    let report = fresh.scrub(|progress| {
        told.push(progress);
        ControlFlow::Continue(())
    });
    assert_eq!((report.quarantined.as_slice(), report.repaired.as_slice()), (&ids[1..2], &ids[3..4]));
    assert!(report.unreadable.is_empty() && !report.stopped && !report.is_clean());
    let all = ScrubProgress { objects_done: 7, objects: 7, bytes_done: 5 * 49_152, bytes: 7 * 49_152 };
    assert_eq!(report.progress, all);
    assert_eq!(told.last(), Some(&all));
    assert!(told.is_sorted_by_key(|progress| (progress.bytes_done, progress.objects_done)));
    let again = fresh.scrub(|_| ControlFlow::Continue(()));
    assert!(again.is_clean());
    assert_eq!(again.progress.objects_done, 6);
}

#[test]
fn a_scrub_stops_when_it_is_told_to() {
    for cas in [Folder::new().cas(), Cas::in_memory(Limits::default())] {
        for seed in 0..3 {
            cas.put(&object(seed, 100)).unwrap();
        }
        let report = cas.scrub(|progress| match progress.objects_done {
            2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert_eq!((report.stopped, report.progress.objects_done), (true, 2));
        assert!(!report.is_clean());
        assert!(cas.scrub(|_| ControlFlow::Continue(())).is_clean());
    }
}

#[test]
fn what_cannot_be_read_is_told_and_not_taken_for_rot() {
    let folder = Folder::new();
    let cas = folder.cas();
    let id = cas.put(&object(6, 100)).unwrap().id;
    // A folder in its place cannot be read as a file, whoever asks; a mode would not stop a superuser.
    fs::remove_file(folder.object(id)).unwrap();
    fs::create_dir(folder.object(id)).unwrap();
    let report = cas.scrub(|_| ControlFlow::Continue(()));
    assert_eq!(report.unreadable.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id]);
    assert!(report.quarantined.is_empty() && !report.is_clean());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_flipped_bit_in_the_store_makes_a_wrong_byte(
        len in prop::sample::select(vec![1, 1000, GROUP, GROUP + 1, 4 * GROUP]),
        seed: u64,
        at in any::<Index>(),
    ) {
        let folder = Folder::new();
        let bytes = object(seed, len);
        let id = folder.cas().put(&bytes).unwrap().id;
        let files = folder.files("objects");
        let mut bit = at.index(usize::try_from(files.iter().map(|(_, len)| 8 * len).sum::<u64>()).unwrap()) as u64;
        for (path, len) in &files {
            if bit < 8 * len {
                flip(path, bit);
                break;
            }
            bit -= 8 * len;
        }
        let cas = folder.cas();
        let read = cas.open(id).and_then(|found| found.unwrap().read_all());
        let is_found = matches!(read, Err(ReadError::Corrupt { .. }));
        prop_assert!(is_found, "{read:?}");
        let fate = cas.quarantine(id).unwrap();
        let again = cas.open(id).unwrap().map(|found| found.read_all().unwrap());
        match fate {
            Fate::Repaired => prop_assert_eq!(again.as_deref(), Some(&bytes[..])),
            Fate::Quarantined => prop_assert_eq!(again, None),
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert_eq!(cas.put(&bytes).unwrap().id, id);
        prop_assert_eq!(id_of(&cas.open(id).unwrap().unwrap().read_all().unwrap()), id);
    }
}

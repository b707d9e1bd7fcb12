//! Every length × every damage × every moment × every way to read: the bytes that were stored, or none.

use std::{ops::ControlFlow, ops::Range};

use crate::support::{
    Folder, GROUP,
    damage::{Damage, LENGTHS},
    id_of, object,
};
use cas::{Cas, Hot, ReadError, Verified};
use types::ObjectId;

/// When a file is damaged.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Before the store is opened, so that its index knows only what is on the disk.
    BeforeStart,
    /// While the store is open, so that its index knows what was stored.
    WhileOpen,
    /// While somebody has the object open.
    WhileRead,
}

/// Ways to read an object, each of which says what it got.
const READERS: [(&str, Reader); 4] = [
    ("all of it", |object| Ok(vec![(0..object.len(), object.read_all()?.to_vec())])),
    ("its first byte", |object| part(object, 0..object.len().min(1))),
    ("its last byte", |object| part(object, object.len().saturating_sub(1)..object.len())),
    ("into RAM", |object| {
        let hot = Hot::new(64 << 20, 4 << 20);
        let loaded = hot.load(object)?.unwrap();
        assert_eq!(id_of(&loaded), object.id(), "what is kept is what its name says");
        Ok(vec![(0..object.len(), loaded.to_vec())])
    }),
];

type Reader = fn(&Verified) -> Result<Parts, ReadError>;
type Parts = Vec<(Range<u64>, Vec<u8>)>;

fn part(object: &Verified, range: Range<u64>) -> Result<Parts, ReadError> {
    Ok(vec![(range.clone(), object.read(range)?.to_vec())])
}

/// Reads in every way; each is right or corrupt. An object that opens has the length that was stored.
fn read(object: &Verified, stored: &[u8], what: &str) -> bool {
    assert_eq!(object.len(), stored.len() as u64, "{what}: its length is told to clients");
    let mut all_read = true;
    for (reader, read) in READERS {
        match read(object) {
            Ok(parts) => {
                for (range, got) in parts {
                    let at = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                    assert!(got == stored[at], "{what}, {reader}: wrong bytes");
                }
            }
            Err(ReadError::Corrupt { .. }) => all_read = false,
            Err(other) => panic!("{what}, {reader}: {other}"),
        }
    }
    all_read
}

/// An object, and what was done to it.
struct Case {
    what: String,
    stored: Vec<u8>,
    id: ObjectId,
    held: Option<Verified>,
    differs: bool,
}

/// An object of every length for every damage; there is only one object without bytes, which can only grow.
fn damaged(folder: &Folder, cas: &Cas, moment: Moment) -> Vec<Case> {
    let pairs = LENGTHS.iter().flat_map(|len| Damage::ALL.map(|damage| (*len, damage)));
    let pairs = pairs.filter(|(len, damage)| *len > 0 || *damage == Damage::GrownByOne);
    let case = |(seed, (len, damage)): (u64, (usize, Damage))| {
        let stored = object(seed, len);
        let id = cas.put(&stored).unwrap().id;
        let held = matches!(moment, Moment::WhileRead).then(|| cas.open(id).unwrap().unwrap());
        let differs = damage.inflict(&folder.object(id));
        Case { what: format!("{len} bytes, {damage:?}, {moment:?}"), stored, id, held, differs }
    };
    (0..).zip(pairs).map(case).collect()
}

/// Reads all objects in every way, scrubs, and stores what was lost again.
fn judge(moment: Moment) {
    let folder = Folder::new();
    let mut cas = folder.cas();
    let cases = damaged(&folder, &cas, moment);
    if matches!(moment, Moment::BeforeStart) {
        drop(cas);
        cas = folder.cas();
    }
    for Case { what, stored, id, held, differs } in &cases {
        if let Some(held) = held {
            read(held, stored, what);
        }
        let whole = match cas.open(*id) {
            Ok(Some(object)) => read(&object, stored, what),
            // A start removes an object that is longer than one group and has no tree.
            Ok(None) | Err(ReadError::Corrupt { .. }) => false,
            Err(other) => panic!("{what}: {other}"),
        };
        assert_eq!(whole, !differs, "{what}");
    }
    scrubbed(&cas, &cases);
    for Case { what, stored, id, .. } in &cases {
        assert_eq!(cas.put(stored).unwrap().id, *id, "{what}: it can be stored anew");
        assert!(cas.open(*id).unwrap().unwrap().read_all().unwrap() == *stored, "{what}");
    }
    assert!(cas.scrub(|_| ControlFlow::Continue(())).is_clean());
}

/// A scrub tells what is damaged, and what it leaves is good.
fn scrubbed(cas: &Cas, cases: &[Case]) {
    let known: Vec<bool> = cases.iter().map(|case| cas.contains(case.id)).collect();
    let report = cas.scrub(|_| ControlFlow::Continue(()));
    assert!(!report.is_clean() && report.unreadable.is_empty() && report.repaired.is_empty());
    for (Case { what, id, differs, .. }, was_known) in cases.iter().zip(known) {
        assert_eq!(report.quarantined.contains(id), *differs && was_known, "{what}");
        assert_eq!(cas.contains(*id), !differs, "{what}");
    }
}

#[test]
fn no_damage_at_any_length_makes_a_wrong_answer() {
    [Moment::BeforeStart, Moment::WhileOpen, Moment::WhileRead].into_iter().for_each(judge);
}

#[test]
fn an_emptied_object_is_not_taken_for_sound() {
    let folder = Folder::new();
    let id = folder.cas().put(&object(1, 3 * GROUP)).unwrap().id;
    assert!(Damage::Emptied.inflict(&folder.object(id)));
    let cas = folder.cas();
    assert!(matches!(cas.open(id), Err(ReadError::Corrupt { group: 0 })));
    assert_eq!(cas.quarantine(id).unwrap(), cas::Fate::Quarantined);
}

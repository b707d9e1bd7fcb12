//! Accounts across processes: nothing is counted twice, little is lost, and a seal is what it was the first time.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, path::Path, time::Duration};

use proptest::prelude::*;
use ron_accounting::{
    Accounts, AccountsError, BootId, JournalError, Rows, SigningKey, SnapshotError, Used, Windows,
    check_rows, check_seal, read_rows,
};
use types::ActorId;

const SECOND: Duration = Duration::from_secs(1);

fn windows() -> Windows {
    Windows::new(Duration::from_secs(10), Duration::ZERO)
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn open(data: &Path, key: &SigningKey, boot: u8, unix: Duration) -> Accounts {
    Accounts::open(Some(data), windows(), (key.clone(), BootId::new([boot; 16])), unix, 100).unwrap()
}

fn reading(actor: &str, total: u64) -> (ActorId, &'static str, u64) {
    (ActorId::new(actor).unwrap(), "provided.bytes", total)
}

fn sealed_text(accounts: &Accounts, epoch: u64) -> String {
    let (_, file) = accounts.sealed(epoch).unwrap().unwrap();
    assert!(file.starts_with(b"PAR1"));
    let mut text = Vec::new();
    read_rows(&file, |row| {
        rewards::write_row(&mut text, row);
        Ok::<(), SnapshotError>(())
    })
    .unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_process_that_dies_loses_what_it_did_not_write_and_its_successor_counts_nothing_twice() {
    let (dir, key) = (tempfile::tempdir().unwrap(), SigningKey::generate().unwrap());
    let mut first = open(dir.path(), &key, 1, at(1));
    first.flush([reading("alice", 5)], at(2)).unwrap();
    first.flush([reading("alice", 7)], at(3)).unwrap();
    first.flush([reading("alice", 7)], at(3)).unwrap();
    drop(first);
    let mut second = open(dir.path(), &key, 2, at(4));
    second.flush([reading("alice", 2), reading("bob", 1)], at(5)).unwrap();
    let flushed = second.flush([reading("alice", 2), reading("bob", 1)], at(10)).unwrap();
    assert_eq!((flushed.epoch, second.due(at(10)).unwrap()), (1, vec![0]));
    second.seal(0, |_| ()).unwrap();
    let rows = sealed_text(&second, 0);
    assert!(rows.contains(r#""actor":"alice","metric":"provided.bytes","units":"9""#), "{rows}");
    assert_eq!(rows.lines().count(), 2);
}

#[test]
fn a_seal_stays_what_it_was_and_is_told_of_until_somebody_knows() {
    let (dir, key) = (tempfile::tempdir().unwrap(), SigningKey::generate().unwrap());
    let mut accounts = open(dir.path(), &key, 1, at(1));
    accounts.flush([reading("alice", 5)], at(10)).unwrap();
    let sealed = accounts.seal(0, |_| ()).unwrap();
    // Another process, whose clock is behind, still books into the epoch.
    let mut behind =
        Accounts::open(Some(dir.path()), windows(), (key.clone(), BootId::new([2; 16])), at(12), 100)
            .unwrap();
    behind.flush([reading("bob", 5)], at(12)).unwrap();
    assert_eq!(accounts.seal(0, |_| ()).unwrap(), sealed);
    assert_eq!(accounts.due(at(30)).unwrap(), [0; 0]);
    assert_eq!(accounts.untold().unwrap(), [0]);
    accounts.told(0).unwrap();
    assert_eq!(accounts.untold().unwrap(), [0_u64; 0]);
}

#[test]
fn the_latest_epochs_are_listed_sealed_or_not() {
    let (dir, key) = (tempfile::tempdir().unwrap(), SigningKey::generate().unwrap());
    let mut accounts = open(dir.path(), &key, 1, at(1));
    assert_eq!(accounts.latest(9).unwrap(), [0_u64; 0]);
    for (total, unix) in [(5, 10), (5, 40), (7, 45), (9, 50), (10, 51)] {
        accounts.flush([reading("alice", total), reading("bob", total)], at(unix)).unwrap();
    }
    accounts.seal(0, |_| ()).unwrap();
    assert_eq!(accounts.latest(9).unwrap(), [5, 4, 0], "nothing was used in between");
    assert_eq!((accounts.latest(2).unwrap(), accounts.latest(0).unwrap()), (vec![5, 4], vec![]));
}

#[test]
fn somebody_else_can_check_a_seal_and_its_rows() {
    let (dir, key) = (tempfile::tempdir().unwrap(), SigningKey::generate().unwrap());
    let mut accounts = open(dir.path(), &key, 1, at(1));
    accounts.flush([reading("alice", 5)], at(10)).unwrap();
    let sealed = accounts.seal(0, |_| ()).unwrap();
    let rows = accounts.files().fetch(sealed.object).unwrap().unwrap();
    let nodes = BTreeSet::from([key.node()]);
    let seal = check_seal(&sealed.seal.to_bytes(), &nodes).unwrap();
    check_rows(&seal, &rows).unwrap();
    assert!(matches!(
        check_seal(&sealed.seal.to_bytes(), &BTreeSet::new()),
        Err(SnapshotError::UnknownNode(_))
    ));
    assert_eq!(check_rows(&seal, b""), Err(SnapshotError::RowsDiffer));
}

#[test]
fn data_keeps_the_length_of_its_epochs() {
    let (dir, key) = (tempfile::tempdir().unwrap(), SigningKey::generate().unwrap());
    drop(open(dir.path(), &key, 1, at(1)));
    let other = Windows::new(Duration::from_secs(20), Duration::ZERO);
    let opened = Accounts::open(Some(dir.path()), other, (key, BootId::new([1; 16])), at(1), 100);
    assert!(matches!(opened, Err(AccountsError::Journal(JournalError::OtherEpochs { .. }))));
}

#[test]
fn an_epoch_with_the_same_rows_as_an_earlier_one_keeps_them_when_that_is_forgotten() {
    let (dir, key) = (tempfile::tempdir().unwrap(), SigningKey::generate().unwrap());
    let mut accounts = open(dir.path(), &key, 1, at(1));
    accounts.flush([reading("alice", 5)], at(10)).unwrap();
    accounts.flush([reading("alice", 10)], at(20)).unwrap();
    let [first, second] = [0, 1].map(|epoch| accounts.seal(epoch, |_| ()).unwrap());
    assert_eq!(first.object, second.object);
    accounts.prune(0).unwrap();
    assert!(accounts.sealed(1).unwrap().is_some(), "its rows are still here");
    accounts.prune(1).unwrap();
    assert!(accounts.sealed(1).unwrap().is_none());
}

#[test]
fn what_is_forgotten_is_usage_and_files_and_not_that_it_was_sealed() {
    let (dir, key) = (tempfile::tempdir().unwrap(), SigningKey::generate().unwrap());
    let mut accounts = open(dir.path(), &key, 1, at(1));
    accounts.flush([reading("alice", 5)], at(10)).unwrap();
    let sealed = accounts.seal(0, |_| ()).unwrap();
    assert_eq!(accounts.prunable(5).unwrap(), [0_u64; 0], "nobody was told of it yet");
    accounts.told(0).unwrap();
    assert_eq!((accounts.prunable(0).unwrap(), accounts.prunable(5).unwrap()), (vec![], vec![0]));
    accounts.prune(0).unwrap();
    assert_eq!((accounts.prunable(5).unwrap(), accounts.sealed(0).unwrap()), (vec![], None));
    assert_eq!(accounts.seal(0, |_| ()).unwrap(), sealed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Whatever processes count, and whenever they die, the seal has the sum of what was written down.
    #[test]
    fn the_seal_is_the_sum_of_what_was_written(lives in prop::collection::vec(prop::collection::vec(0..1000_u64, 1..5), 1..5)) {
        let (dir, key) = (tempfile::tempdir().unwrap(), SigningKey::generate().unwrap());
        let mut expected = 0;
        for (boot, readings) in lives.iter().enumerate() {
            let mut accounts = open(dir.path(), &key, u8::try_from(boot).unwrap(), at(1));
            let mut total = 0;
            for grown in readings {
                total += grown;
                accounts.flush([reading("alice", total)], at(2)).unwrap();
            }
            expected += total;
        }
        let mut last = open(dir.path(), &key, 99, at(5));
        last.flush([], at(10) + SECOND).unwrap();
        if expected == 0 {
            prop_assert!(last.due(at(11)).unwrap().is_empty());
        } else {
            last.seal(0, |_| ()).unwrap();
            let rows = sealed_text(&last, 0);
            let needle = format!("\"units\":\"{expected}\"");
            prop_assert!(rows.contains(&needle), "{} has no {}", rows, needle);
        }
    }
}

#[test]
fn a_file_of_rows_that_is_lost_or_damaged_is_made_again_of_what_was_written_down() {
    let (dir, key) = (tempfile::tempdir().unwrap(), SigningKey::generate().unwrap());
    let mut accounts = open(dir.path(), &key, 1, at(1));
    accounts.flush([reading("alice", 5)], at(10)).unwrap();
    let object = accounts.seal(0, |_| ()).unwrap().object;
    let text = sealed_text(&accounts, 0);
    accounts.files().remove(object).unwrap();
    assert_eq!(sealed_text(&accounts, 0), text);
    assert!(accounts.files().fetch(object).unwrap().is_some(), "it is there again");
    let used = [Used { actor: ActorId::new("bob").unwrap(), metric: "provided.bytes".to_owned(), units: 3 }];
    let object = accounts.seal_used(1, &used, |_| ()).unwrap().object;
    accounts.files().remove(object).unwrap();
    assert!(matches!(accounts.sealed(1), Err(AccountsError::Lost { epoch: 1 })), "nothing is written down");
    accounts.prune(0).unwrap();
    assert!(accounts.sealed(0).unwrap().is_none(), "it is forgotten");
}

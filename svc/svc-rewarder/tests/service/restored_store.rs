//! A store that is restored from an older backup than the ledger: what was carried over and corrected is not paid again,
//! whatever the numbers of the epochs are.

use std::sync::{Arc, atomic::Ordering};

use rewards::{Action, Amount, Correction, PolicyId, SignedCorrection};
use ron_ledger::{Key, Ledger};

use crate::{
    repair_safety::{Moody, moody_stage},
    stage::{Stage, actor},
    support::Wish,
};

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// A rewarder whose store has computed the epochs `known`, and whose ledger has also paid the epochs `lost`. Bob has 200 from
/// each epoch, and is paid 300 at least; he is to have 900 more by a correction that `lost` has paid.
fn restored(known: &[u64], lost: &[u64]) -> (Arc<Moody>, Stage) {
    let (ledger, stage) = moody_stage(300);
    let (stage, backup) = restored_from(&ledger, stage, known, lost);
    let (_, nodes) = stage.stop();
    (Arc::clone(&ledger), Stage::within(backup, nodes, again(&ledger), 300, Vec::new()))
}

fn again(ledger: &Arc<Moody>) -> Wish {
    Wish { ledger: Arc::clone(ledger) as _, pool: 0, ..Wish::default() }
}

/// The same before the backup is restored.
fn restored_from(
    ledger: &Arc<Moody>,
    stage: Stage,
    known: &[u64],
    lost: &[u64],
) -> (Stage, tempfile::TempDir) {
    let give = |stage: &Stage, epoch: u64| {
        stage.give(epoch, 0, &[("alice", 800), ("bob", 200)]);
        stage.compute(epoch, "settled")
    };
    let runs: Vec<_> = known.iter().map(|epoch| give(&stage, *epoch)).collect();
    if let Some(run) = runs.first() {
        let correction = Correction {
            policy: PolicyId::new("default").unwrap(),
            corrects: run.name(),
            credits: vec![(actor("bob"), Amount::from(900_u64))],
            debits: Vec::new(),
            reason: "rows of bob were missing".to_owned(),
        };
        let signed = SignedCorrection::unsigned(correction).signed_by(&stage.running.signer);
        let answer = stage.running.ask("POST", "/rewarder/corrections", &[], &signed.to_bytes());
        assert_eq!(answer.status, 202);
    }
    let (dir, nodes) = stage.stop();
    let backup = tempfile::tempdir().unwrap();
    copy_folder(dir.path(), backup.path());
    let stage = Stage::within(dir, nodes, again(ledger), 300, Vec::new());
    lost.iter().for_each(|epoch| drop(give(&stage, *epoch)));
    (stage, backup)
}

/// Has an epoch computed whose run the ledger contradicts, and nobody paid by it.
#[track_caller]
fn is_refused(ledger: &Moody, stage: &Stage, epoch: u64) {
    let paid = ledger.paid();
    stage.give(epoch, 0, &[("bob", 1)]);
    stage.ask_for(epoch);
    let found = stage.running.wait_for(Some(epoch), "quarantined");
    assert!(found["reason"].as_str().unwrap().starts_with("conflict: the ledger has"), "{found}");
    assert_eq!(ledger.paid(), paid, "what was carried over is not paid again");
}

#[test]
fn no_run_follows_one_that_the_ledger_contradicts() {
    let (ledger, stage) = restored(&[5], &[6]);
    is_refused(&ledger, &stage, 6);
    stage.give(7, 0, &[("bob", 1)]);
    stage.ask_for(7);
    assert_eq!(stage.submit_order(6, &stage.order(6, Action::Release)), 202);
    let epoch = stage.running.wait_for(Some(6), "quarantined");
    assert!(epoch["reason"].as_str().unwrap().starts_with("conflict"), "{epoch}");
    stage.running.wait_for(Some(7), "computing");
    assert_eq!(ledger.paid(), [1600, 1300], "bob has 200 twice, and 900");
}

#[test]
fn a_run_does_not_skip_an_epoch_that_the_ledger_has_paid() {
    for (known, lost, next) in [
        (&[5][..], 6, 8),
        // An epoch before the last known one, paid later.
        (&[5, 7], 6, 8),
        // An epoch after the next one.
        (&[5], 8, 6),
        (&[5], 8, 7),
        // Long after.
        (&[5], 6, 700),
        // The first of a chain.
        (&[], 6, 5),
        (&[], 6, 7),
    ] {
        println!("the store knows {known:?}, the ledger has paid {lost} since, and {next} is next");
        let (ledger, stage) = restored(known, &[lost]);
        is_refused(&ledger, &stage, next);
    }
}

#[test]
fn a_run_that_paid_nobody_has_its_followers_too() {
    let (ledger, stage) = moody_stage(1000);
    stage.give(5, 0, &[("alice", 1)]);
    stage.compute(5, "settled");
    let (dir, nodes) = stage.stop();
    let backup = tempfile::tempdir().unwrap();
    copy_folder(dir.path(), backup.path());
    let stage = Stage::within(dir, nodes, again(&ledger), 1000, Vec::new());
    for epoch in [6, 7] {
        stage.give(epoch, 0, &[("alice", 1), ("bob", 1)]);
        let run = stage.compute(epoch, "settled");
        assert_eq!(run.batches.get(), u64::from(epoch == 7), "{epoch}");
    }
    assert_eq!(ledger.paid(), [2000, 1000]);
    let (_, nodes) = stage.stop();
    let stage = Stage::within(backup, nodes, again(&ledger), 1000, Vec::new());
    is_refused(&ledger, &stage, 700);
}

#[test]
fn a_run_that_waits_is_known_to_the_ledger_once_one_that_follows_it_is_paid() {
    let (ledger, stage) = moody_stage(300);
    stage.give(5, 0, &[("alice", 800), ("bob", 200)]);
    stage.compute(5, "settled");
    let (dir, nodes) = stage.stop();
    let backup = tempfile::tempdir().unwrap();
    copy_folder(dir.path(), backup.path());
    let stage = Stage::within(dir, nodes, again(&ledger), 300, Vec::new());
    stage.give(6, 0, &[("alice", 1)]);
    ledger.hesitates.store(true, Ordering::SeqCst);
    stage.compute(6, "computed");
    assert_eq!(stage.submit_order(6, &stage.order(6, Action::Hold)), 202);
    ledger.hesitates.store(false, Ordering::SeqCst);
    stage.give(7, 0, &[("alice", 800), ("bob", 200)]);
    stage.compute(7, "settled");
    assert_eq!(ledger.paid(), [1600, 400], "6 is held, and what it carried on is paid by 7");
    let (_, nodes) = stage.stop();
    let stage = Stage::within(backup, nodes, again(&ledger), 300, Vec::new());
    is_refused(&ledger, &stage, 700);
}

#[test]
fn a_ledger_of_an_older_program_is_told_of_every_run_before_the_next_is_paid() {
    let (ledger, stage) = moody_stage(300);
    ledger.is_old.store(true, Ordering::SeqCst);
    let (stage, backup) = restored_from(&ledger, stage, &[5, 7], &[6, 9]);
    ledger.is_old.store(false, Ordering::SeqCst);
    stage.give(8, 0, &[("alice", 1)]);
    stage.compute(8, "settled");
    let told = |key: &str| {
        let request = ledger.request(&Key::new(&format!("reward/chain/{key}")).unwrap()).unwrap();
        request.unwrap_or_else(|| panic!("{key} is not in the ledger")).reference.to_string()
    };
    let mut before = "default".to_owned();
    for epoch in [5, 7, 6, 9, 8] {
        let run = stage.manifest(epoch);
        assert_eq!(told(&before), run.run_key.to_string(), "{epoch}");
        before = run.commitment().to_string();
    }
    let (_, nodes) = stage.stop();
    let stage = Stage::within(backup, nodes, again(&ledger), 300, Vec::new());
    is_refused(&ledger, &stage, 10);
}

#[test]
fn a_store_that_is_restored_before_the_ledger_was_told_of_any_run_is_found_out_by_what_was_paid() {
    let (ledger, stage) = moody_stage(300);
    ledger.is_old.store(true, Ordering::SeqCst);
    let (stage, backup) = restored_from(&ledger, stage, &[5, 7], &[6]);
    let (_, nodes) = stage.stop();
    ledger.is_old.store(false, Ordering::SeqCst);
    let stage = Stage::within(backup, nodes, again(&ledger), 300, Vec::new());
    is_refused(&ledger, &stage, 8);
}

#[test]
fn a_policy_with_another_id_is_paid_by_after_the_chain_of_one_was_stopped() {
    let (ledger, stage) = restored(&[5], &[6]);
    is_refused(&ledger, &stage, 6);
    // More epochs wait behind it than are looked at in one page.
    for epoch in 7..80 {
        stage.give(epoch, 0, &[("bob", 1)]);
        stage.ask_for(epoch);
    }
    let stage = Stage::by_policy("second", stage.stop(), again(&ledger), 0, Vec::new());
    let [alice, bob] = ledger.paid();
    for epoch in [90, 91] {
        stage.give(epoch, 0, &[("alice", 1)]);
        stage.compute(epoch, "settled");
    }
    assert_eq!(ledger.paid(), [alice + 2000, bob], "and nobody by the first");
}

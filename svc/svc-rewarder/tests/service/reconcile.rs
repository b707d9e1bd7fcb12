//! A ledger that was replaced by an older backup: settled epochs are compared with it, and posted again when asked.

use std::{path::Path, sync::Arc};

use ron_ledger::{Ledger, Scrutiny, SqliteLedger};

use crate::support::{Running, Wish, eventually, fund};

fn ledger_at(path: &Path) -> Arc<dyn Ledger> {
    Arc::new(SqliteLedger::open(path, &Scrutiny::Everything).unwrap())
}

/// A rewarder that has settled an epoch, and starts again with the ledger as it was before that epoch. The epoch may be
/// retired by then, and `retain_epochs` applies from then on.
fn restarted_with_an_older_ledger(is_retired: bool, retain_epochs: u64) -> (Running, u64, tempfile::TempDir) {
    restarted_after(is_retired, retain_epochs, 0)
}

/// The same with so many epochs of long ago that are retired and that the ledger has lost too.
fn restarted_after(is_retired: bool, retain_epochs: u64, lost: u64) -> (Running, u64, tempfile::TempDir) {
    let aside = tempfile::tempdir().unwrap();
    let (backup, restored) = (aside.path().join("backup.db"), aside.path().join("restored.db"));
    let ledger = ledger_at(&aside.path().join("ledger.db"));
    fund(&*ledger, "fund/1", 1_000_000);
    ron_ledger::backup(&*ledger, &backup).unwrap();
    let first = Running::with(Wish { ledger, pool: 0, ..Wish::default() }, |_| {});
    first.book("alice", 3);
    let epoch = first.wait_for(None, "settled")["epoch"].as_u64().unwrap();
    assert_eq!(first.balance("actor/alice"), 1000);
    let dir = first.stop();
    if is_retired {
        let store = rusqlite::Connection::open(dir.path().join("data/epochs.sqlite")).unwrap();
        store.execute("UPDATE rewarder_epochs SET retired_at = 1", []).unwrap();
    }
    let store = rusqlite::Connection::open(dir.path().join("data/epochs.sqlite")).unwrap();
    let old = "INSERT INTO rewarder_epochs (epoch, state, inputs, policy, input_document, policy_document, run_key,
                   commitment, batches, posted, settled_at, retired_at)
               SELECT ?1, state, inputs, policy, input_document, policy_document, run_key, commitment, 1, 1, 1, 1
               FROM rewarder_epochs WHERE epoch = ?2";
    for number in 0..lost {
        assert_eq!(store.execute(old, [number, epoch]).unwrap(), 1);
    }
    drop(store);
    let ledger = ledger_at(&restored);
    ron_ledger::restore(&backup, &*ledger).unwrap();
    let retain = |config: &mut svc_rewarder::RewarderConfig| config.retain_epochs = retain_epochs;
    let running = Running::within(dir, Wish { ledger, pool: 0, ..Wish::default() }, retain);
    (running, epoch, aside)
}

#[test]
fn an_older_ledger_is_noticed_and_its_epochs_are_posted_again_once() {
    let (running, epoch, _aside) = restarted_with_an_older_ledger(false, 0);
    eventually("the difference is told", || {
        running.standing().contains(&format!("ledger_behind: epoch {epoch}: 1 batches are not in the ledger"))
    });
    let path = format!("/rewarder/epochs/{epoch}/reconcile");
    let told = running.get(&path);
    assert_eq!((told.status, &told.json()["missing"]), (200, &1.into()), "{told:?}");
    assert_eq!(running.balance("actor/alice"), 0, "nothing is posted before somebody asks for it");
    let asked = running.ask("POST", &path, &[], b"");
    assert_eq!(asked.status, 202, "{asked:?}");
    running.wait_for(Some(epoch), "settled");
    assert_eq!((running.balance("actor/alice"), running.balance("pool/rewards")), (1000, 999_000));
    eventually("the difference is gone", || !running.standing().contains("ledger_behind"));
    let again = running.ask("POST", &path, &[], b"");
    assert_eq!((again.status, &again.json()["missing"]), (200, &0.into()), "{again:?}");
    assert_eq!(running.balance("actor/alice"), 1000, "asking again pays nobody again");
}

#[test]
fn an_epoch_that_was_retired_is_told_and_cannot_be_posted_again() {
    let (running, epoch, _aside) = restarted_with_an_older_ledger(true, 0);
    eventually("the difference is told", || {
        running.standing().contains("not in the ledger; 1 were retired, and cannot be posted again")
    });
    let asked = running.ask("POST", &format!("/rewarder/epochs/{epoch}/reconcile"), &[], b"");
    let said = asked.json();
    assert_eq!((asked.status, &said["missing"], &said["posted_again"]), (200, &1.into(), &false.into()));
    assert_eq!(said["retired"], true, "{said}");
}

#[test]
fn an_epoch_that_the_ledger_lacks_is_not_retired_before_it_is_posted_again() {
    is_not_retired_before_it_is_posted_again(0);
}

#[test]
fn epochs_that_were_retired_hide_no_epoch_that_can_be_posted_again() {
    let running = is_not_retired_before_it_is_posted_again(1100);
    eventually("all of them are counted", || {
        running.standing().contains("; 1100 were retired, and cannot be posted again")
    });
}

fn is_not_retired_before_it_is_posted_again(lost: u64) -> Running {
    let (running, epoch, _aside) = restarted_after(false, 1, lost);
    // Two later epochs, so that the first is none of those to keep; the last is settled in a later look at the old ones.
    for name in ["bob", "carol"] {
        running.book(name, 1);
        eventually("it is paid", || running.balance(&format!("actor/{name}")) > 0);
    }
    let path = format!("/rewarder/epochs/{epoch}");
    let then = running.metric("accounting_epoch");
    eventually("epochs pass", || running.metric("accounting_epoch") >= then + 5.0);
    assert!(running.get(&path).json()["retired_at"].is_null());
    let asked = running.ask("POST", &format!("{path}/reconcile"), &[], b"");
    assert_eq!(asked.status, 202, "{asked:?}");
    eventually("it is paid again", || running.balance("actor/alice") == 1000);
    eventually("it is retired", || running.get(&path).json()["retired_at"].is_u64());
    running
}

#[test]
fn an_epoch_that_is_not_settled_has_nothing_to_reconcile() {
    let running = Running::with(Wish { pool: 0, ..Wish::default() }, |_| {});
    running.book("alice", 1);
    let epoch = running.wait_for(None, "computed")["epoch"].as_u64().unwrap();
    let asked = running.ask("POST", &format!("/rewarder/epochs/{epoch}/reconcile"), &[], b"");
    assert_eq!((asked.status, &asked.json()["missing"]), (200, &0.into()), "{asked:?}");
    assert_eq!(running.ask("POST", "/rewarder/epochs/7/reconcile", &[], b"").status, 404);
    assert_eq!(running.ask("PUT", "/rewarder/epochs/7/reconcile", &[], b"").status, 405);
}

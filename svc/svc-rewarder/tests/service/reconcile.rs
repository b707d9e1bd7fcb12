//! A ledger that was replaced by an older backup: settled epochs are compared with it, and posted again when asked.

use std::{path::Path, sync::Arc};

use ron_ledger::{Ledger, Scrutiny, SqliteLedger};

use crate::support::{Running, Wish, eventually, fund};

fn ledger_at(path: &Path) -> Arc<dyn Ledger> {
    Arc::new(SqliteLedger::open(path, &Scrutiny::Everything).unwrap())
}

/// A rewarder that has settled an epoch, and starts again with the ledger as it was before that epoch.
fn restarted_with_an_older_ledger() -> (Running, u64, tempfile::TempDir) {
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
    let ledger = ledger_at(&restored);
    ron_ledger::restore(&backup, &*ledger).unwrap();
    let running = Running::within(dir, Wish { ledger, pool: 0, ..Wish::default() }, |_| {});
    (running, epoch, aside)
}

#[test]
fn an_older_ledger_is_noticed_and_its_epochs_are_posted_again_once() {
    let (running, epoch, _aside) = restarted_with_an_older_ledger();
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
fn an_epoch_that_is_not_settled_has_nothing_to_reconcile() {
    let running = Running::with(Wish { pool: 0, ..Wish::default() }, |_| {});
    running.book("alice", 1);
    let epoch = running.wait_for(None, "computed")["epoch"].as_u64().unwrap();
    let asked = running.ask("POST", &format!("/rewarder/epochs/{epoch}/reconcile"), &[], b"");
    assert_eq!((asked.status, &asked.json()["missing"]), (200, &0.into()), "{asked:?}");
    assert_eq!(running.ask("POST", "/rewarder/epochs/7/reconcile", &[], b"").status, 404);
    assert_eq!(running.ask("PUT", "/rewarder/epochs/7/reconcile", &[], b"").status, 405);
}

//! Snapshots, backups and restores.

use ron_ledger::{LedgerError, Scrutiny, SqliteLedger, Step, backup, restore, verify};

use crate::support::{Place, balance, batch, funded, hold, pay};

on_every_store!(
    a_backup_has_everything_and_restores_into_any_store,
    a_snapshot_does_not_see_what_is_posted_later,
    a_restored_ledger_goes_on_where_the_backup_ended,
);

fn a_backup_has_everything_and_restores_into_any_store(place: &Place) {
    let ledger = funded(place);
    ledger.post(&batch("a", vec![hold("pool", "ada", 7), pay("pool", "bob", 1)])).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backup.db");
    let tally = backup(&*ledger, &path).unwrap();
    assert_eq!((tally.accounts, tally.requests, tally.entries, tally.links), (4, 2, 7, 2));
    assert!(matches!(backup(&*ledger, &path), Err(LedgerError::BadSetup(_))), "a backup is never replaced");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    for target in targets() {
        let restored = target.open();
        assert_eq!(restore(&path, &*restored), Ok(tally));
        assert!(
            matches!(restore(&path, &*restored), Err(LedgerError::BadSetup(_))),
            "only into an empty one"
        );
        let head = |ledger: &dyn ron_ledger::Ledger| ledger.snapshot().unwrap().head().unwrap();
        assert_eq!(head(&*restored), head(&*ledger));
    }
}

fn targets() -> Vec<Place> {
    vec![
        Place::Memory,
        Place::file(),
        #[cfg(feature = "postgres")]
        Place::server(),
    ]
}

fn a_snapshot_does_not_see_what_is_posted_later(place: &Place) {
    let ledger = funded(place);
    let mut snapshot = ledger.snapshot().unwrap();
    if place.is_kept() {
        ledger.post(&batch("a", vec![pay("pool", "ada", 7)])).unwrap();
    }
    assert_eq!(verify(&mut *snapshot, &[]).map(|tally| tally.requests), Ok(1));
    drop(snapshot);
    let expected = if place.is_kept() { 2 } else { 1 };
    assert_eq!(verify(&mut *ledger.snapshot().unwrap(), &[]).map(|tally| tally.requests), Ok(expected));
}

fn a_restored_ledger_goes_on_where_the_backup_ended(place: &Place) {
    let source = funded(&Place::Memory);
    let paid = batch("a", vec![hold("pool", "ada", 7)]);
    let receipt = source.post(&paid).unwrap().receipt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backup.db");
    backup(&*source, &path).unwrap();
    let ledger = place.open();
    restore(&path, &*ledger).unwrap();
    let again = ledger.post(&paid).unwrap();
    assert_eq!((again.receipt, again.replayed), (receipt, true), "keys are kept forever, across stores");
    ledger.post(&batch("b", vec![Step::Settle(receipt.first_entry)])).unwrap();
    assert_eq!(balance(&*ledger, "ada"), 7);
    verify(&mut *ledger.snapshot().unwrap(), &[]).unwrap();
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backup.db");
    backup(&*funded(&Place::Memory), &path).unwrap();
    let sql = rusqlite::Connection::open(&path).unwrap();
    sql.execute_batch("UPDATE accounts SET balance = '1001' WHERE name = 'pool'").unwrap();
    drop(sql);
    let target = SqliteLedger::in_memory().unwrap();
    assert!(matches!(restore(&path, &target), Err(LedgerError::Damaged(_))));
    assert!(matches!(restore(&folder.path().join("none"), &target), Err(LedgerError::BadSetup(_))));
    assert!(SqliteLedger::open(&path, &Scrutiny::Nothing).is_ok(), "for whoever wants to look into it");
}

//! A ledger that is replaced by an older backup: the node says so, and `omnigate epoch reconcile` makes up for it.

use std::fs;

use super::ground::{Ground, Place, omnigate, patiently};
use crate::support::get;

#[test]
fn an_older_backup_of_the_ledger_is_noticed_and_made_up_for() {
    let mut ground = Ground::new(Place::Files, 1);
    let (url, backup) = (ground.ledger_url(), ground.path().join("backup.db"));
    omnigate(&["ledger", "backup", backup.to_str().unwrap(), "--url", &url]);
    ground.book_epoch();
    let running = ground.start(0, None);
    // The node has noted that all batches are posted: what it has not, it posts by itself.
    patiently("the epoch is settled", || {
        let epoch =
            get(ground.addr(0), "/rewarder/epochs/1000").ok().filter(|answer| answer.status == 200)?;
        (epoch.json()["state"] == "settled").then_some(())
    });
    drop(running);
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(ground.path().join(format!("node-0/ledger.db{suffix}")));
    }
    omnigate(&["ledger", "restore", backup.to_str().unwrap(), "--url", &url]);
    assert_eq!(ground.settled(), 0, "the restored ledger knows nothing of the epoch");
    let running = ground.start(0, None);
    patiently("the node tells", || ground.log().contains("are not in the ledger").then_some(()));
    let config = ground.config(0);
    let output = omnigate(&["epoch", "reconcile", "--config", config.to_str().unwrap()]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("epoch 1000: 2 batches posted again"), "{told}");
    patiently("the epoch is paid", || (ground.settled() == 1).then_some(()));
    ground.check();
    drop(running);
}

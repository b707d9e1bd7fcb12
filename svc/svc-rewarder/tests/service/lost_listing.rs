//! A store that is restored from an older backup has lost the list of snapshots since. The node has its own, and lists them again.

use std::{sync::Arc, time::Duration};

use ron_ledger::{Ledger, SqliteLedger};
use svc_rewarder::{RewarderConfig, StorePlace, seal_epoch};

use crate::support::{Running, Wish, eventually, fund};

/// Seals usage of an epoch as the node does whose data is in a folder.
fn seal(dir: &tempfile::TempDir, epoch: u64) {
    let config = RewarderConfig {
        epoch_duration: Duration::from_secs(1).into(),
        max_epoch_skew: Duration::ZERO.into(),
        ..RewarderConfig::default()
    };
    let rows = br#"{"actor":"alice","metric":"provided.bytes","units":"7"}"#;
    let rows = [&rows[..], b"\n"].concat();
    let data = dir.path().join("data");
    seal_epoch(&config, &data, StorePlace::Local, (epoch, Some(rows.as_slice())), Duration::from_secs(9999))
        .unwrap();
}

/// A rewarder that closes no epoch of long ago but those behind the last that it knows, and a ledger with a full pool.
fn start(dir: tempfile::TempDir) -> Running {
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
    fund(&*ledger, "fund/1", 1_000_000);
    let day = Duration::from_secs(24 * 3600);
    Running::within(dir, Wish { ledger, pool: 0, ..Wish::default() }, |config| {
        config.max_epoch_age = day.into();
    })
}

#[test]
fn epochs_that_a_restored_store_and_ledger_have_lost_are_paid_however_many_they_are() {
    let dir = tempfile::tempdir().unwrap();
    seal(&dir, 1000);
    let running = start(dir);
    assert_eq!(running.ask("POST", "/rewarder/epochs/1000/compute", &[], b"").status, 202);
    running.wait_for(Some(1000), "settled");
    let dir = running.stop();
    let store = dir.path().join("data/epochs.sqlite");
    let backup = dir.path().join("backup.sqlite");
    rusqlite::Connection::open(&store).unwrap().execute("VACUUM INTO ?", [backup.to_str().unwrap()]).unwrap();
    (1001..=1020).for_each(|epoch| seal(&dir, epoch));
    let running = start(dir);
    eventually("all since are paid", || running.balance("actor/alice") == 20_000);
    let dir = running.stop();
    for name in ["epochs.sqlite", "epochs.sqlite-wal", "epochs.sqlite-shm"] {
        let _ = std::fs::remove_file(dir.path().join("data").join(name));
    }
    std::fs::copy(&backup, &store).unwrap();
    // With a ledger that is as old: it has none of them.
    let running = start(dir);
    eventually("they are paid again where that was lost", || running.balance("actor/alice") == 20_000);
    eventually("all are settled", || running.epochs().iter().all(|epoch| epoch["state"] == "settled"));
}

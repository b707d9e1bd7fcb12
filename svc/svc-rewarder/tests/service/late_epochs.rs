//! Epochs that nobody reported usage of in time: no node has them paid afterwards, unless an operator says so.

use std::time::{Duration, SystemTime};

use ron_accounting::{SigningKey, Used, rows_of, seal_rows};
use svc_rewarder::RewarderError;
use types::ActorId;

use crate::support::{Running, Wish, eventually};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A rewarder with epochs of a second that closes them automatically, and counts the snapshots of this node.
fn counting(node: &SigningKey) -> Running {
    let listed = node.node().to_string();
    Running::with(Wish::default(), |config| {
        config.accounting_nodes = vec![listed];
        config.max_epoch_age = DAY.into();
    })
}

/// Has the rewarder take in that an actor provided something in an epoch.
fn give(running: &Running, node: &SigningKey, epoch: u64, actor: &str) {
    assert!(offer(running, node, epoch, actor).unwrap());
}

/// The same, with what the rewarder says to it.
fn offer(running: &Running, node: &SigningKey, epoch: u64, actor: &str) -> Result<bool, RewarderError> {
    let used = [Used { actor: ActorId::new(actor).unwrap(), metric: "provided.bytes".to_owned(), units: 7 }];
    let (rows, root) = rows_of(&used).unwrap();
    let document = seal_rows(node, epoch, 1, root).unwrap().to_bytes();
    let accepting = running.rewarder.accept_snapshot(document, rows);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(accepting)
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn past_epochs_are_not_paid_because_a_node_reports_usage_of_them_now() {
    let node = SigningKey::generate().unwrap();
    let running = counting(&node);
    give(&running, &node, 5, "mallory");
    eventually("an epoch before the first is told of", || {
        running.standing().contains("late_snapshots: 1 epochs have snapshots that came too late")
    });
    let present = now() - 5;
    give(&running, &node, present, "alice");
    running.wait_for(Some(present), "settled");
    let long_ago = now() - 2 * DAY.as_secs();
    for epoch in [6, 1_000_000, long_ago] {
        give(&running, &node, epoch, "mallory");
    }
    // Another one shows that those were looked at.
    give(&running, &node, now() - 3600, "alice");
    eventually("recent epochs are paid", || running.balance("actor/alice") == 2000);
    eventually("the others are told of", || {
        running.standing().contains(&format!("late_snapshots: 4 epochs have snapshots that came too late to be closed automatically, the latest is {long_ago}"))
    });
    assert_eq!(running.balance("actor/mallory"), 0);
    assert_eq!(running.get("/rewarder/epochs/1000000").json()["state"], "open");
    let asked = running.ask("POST", "/rewarder/epochs/1000000/compute", &[], b"");
    assert_eq!(asked.status, 202, "{asked:?}");
    running.wait_for(Some(1_000_000), "settled");
    assert_eq!(running.balance("actor/mallory"), 1000, "as the operator says");
}

#[test]
fn a_node_cannot_fill_the_store_with_rows_that_are_never_counted() {
    let node = SigningKey::generate().unwrap();
    let running = counting(&node);
    for epoch in [now() + 1000, (1 << 53) - 1] {
        let refused = offer(&running, &node, epoch, "mallory").unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("the snapshot is of epoch {epoch}, and now is epoch ")),
            "{refused}"
        );
    }
    give(&running, &node, 1000, "alice");
    assert_eq!(running.ask("POST", "/rewarder/epochs/1000/compute", &[], b"").status, 202);
    running.wait_for(Some(1000), "settled");
    let late = SigningKey::generate().unwrap();
    let listed = [&node, &late].map(|key| key.node().to_string()).to_vec();
    let running = Running::within(running.stop(), Wish::default(), |config| {
        config.accounting_nodes = listed;
        config.automatic = false;
    });
    give(&running, &late, 1000, "mallory");
    let shown = running.get("/rewarder/epochs/1000").json();
    assert_eq!(shown["snapshots"].as_array().map(Vec::len), Some(2), "it is listed: {shown}");
    let store = running.dir.as_ref().unwrap().path().join("data/epochs.sqlite");
    let rows = |epoch: u64| {
        let store = rusqlite::Connection::open(&store).unwrap();
        let find = "SELECT count(*) FROM rewarder_rows JOIN rewarder_snapshots USING (object)
                    WHERE rewarder_snapshots.epoch = ?";
        store.query_row(find, [epoch], |row| row.get::<_, u64>(0)).unwrap()
    };
    assert_eq!(rows(1000), 1, "and its rows are not kept");
    give(&running, &late, 1001, "mallory");
    assert_eq!(rows(1001), 1, "those of an open epoch are");
}

#[test]
fn epochs_after_the_last_closed_one_are_closed_however_long_ago_they_were() {
    let node = SigningKey::generate().unwrap();
    let running = counting(&node);
    give(&running, &node, 1000, "alice");
    let asked = running.ask("POST", "/rewarder/epochs/1000/compute", &[], b"");
    assert_eq!(asked.status, 202, "{asked:?}");
    running.wait_for(Some(1000), "settled");
    // As after an outage of all nodes.
    for epoch in 1001..1100 {
        give(&running, &node, epoch, "alice");
    }
    eventually("all are paid", || running.balance("actor/alice") == 100_000);
}

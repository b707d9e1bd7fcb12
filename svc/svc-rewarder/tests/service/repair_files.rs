//! The files of an epoch after orders about it: they say what the store says.

use std::sync::Arc;

use rewards::Action;
use ron_ledger::{Ledger, SqliteLedger};

use crate::{
    stage::{Stage, actor},
    support::{Wish, eventually},
};

#[test]
fn orders_that_come_after_the_computation_are_published_too() {
    let stage = Stage::new(0, 0);
    stage.give(5, 0, &[("alice", 1)]);
    stage.compute(5, "computed");
    assert_eq!(stage.file(5, "orders.jsonl").0, 404);
    let (hold, release) = (stage.order(5, Action::Hold), stage.order(5, Action::Release));
    assert_eq!(stage.submit_order(5, &hold), 202);
    assert_eq!(stage.file(5, "orders.jsonl"), (200, [&hold[..], b"\n"].concat()));
    assert_eq!(stage.submit_order(5, &release), 202);
    assert_eq!(stage.file(5, "orders.jsonl"), (200, [&hold[..], b"\n", &release[..], b"\n"].concat()));
}

#[test]
fn files_that_could_not_be_tidied_up_are_when_the_order_comes_again_or_at_the_next_start() {
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
    let wish = || Wish { ledger: Arc::clone(&ledger), pool: 0, ..Wish::default() };
    let stage = Stage::with(wish(), 0);
    stage.give(5, 0, &[("alice", 1)]);
    stage.compute(5, "computed");
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Hold)), 202);
    let notice = stage.running.dir.as_ref().unwrap().path().join("data/rewards/5/quarantine.json");
    let text = std::fs::read(&notice).unwrap();
    // A folder of that name cannot be removed as a file is.
    std::fs::remove_file(&notice).unwrap();
    std::fs::create_dir(&notice).unwrap();
    let release = stage.order(5, Action::Release);
    assert_eq!(stage.submit_order(5, &release), 500);
    stage.running.wait_for(Some(5), "computed");
    std::fs::remove_dir(&notice).unwrap();
    std::fs::write(&notice, &text).unwrap();
    assert_eq!(stage.submit_order(5, &release), 200, "it is noted");
    assert!(!notice.exists());
    std::fs::write(&notice, &text).unwrap();
    let (dir, nodes) = stage.stop();
    let _stage = Stage::within(dir, nodes, wish(), 0, Vec::new());
    eventually("a start tidies up", || !notice.exists());
}

#[test]
fn files_of_a_run_that_was_taken_back_are_not_served() {
    let stage = Stage::new(0, 0);
    stage.give(5, 0, &[("alice", 1)]);
    stage.give(5, 1, &[("bob", 3)]);
    let before = stage.compute(5, "computed");
    let folder = stage.running.dir.as_ref().unwrap().path().join("data/rewards/5");
    let names = ["run.json", "commitment", "allocations.jsonl"];
    let old = names.map(|name| std::fs::read(folder.join(name)).unwrap());
    let node = actor(&stage.nodes[1].node().to_string());
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Hold)), 202);
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Exclude(node))), 202);
    stage.running.wait_for(Some(5), "computed");
    let stands = stage.manifest(5).commitment();
    assert_ne!(stands, before.commitment());
    // As on another node of the fleet, which was not told.
    for (name, bytes) in names.iter().zip(old) {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let found = stage.running.get("/rewarder/epochs/5/actors/bob").json();
    assert_eq!(found["lines"], serde_json::json!([]), "{found}");
    assert_eq!(stage.manifest(5).commitment(), stands);
}

#[test]
fn lists_of_an_epoch_that_nobody_knows_are_not_found() {
    let stage = Stage::new(0, 0);
    for path in ["/rewarder/epochs/99/disputes", "/rewarder/epochs/99/actors/al"] {
        assert_eq!(stage.running.get(path).status, 404, "{path}");
    }
}

//! An epoch from the first byte to the last transfer.

use crate::support::{Running, Wish, eventually, fund, names_in};

/// A rewarder that has paid alice and bob for the same epoch. Between the two bookings an epoch may end; then again.
fn with_alice_and_bob() -> (Running, serde_json::Value) {
    loop {
        let running = Running::start();
        running.book("alice", 300);
        running.book("bob", 100);
        let epoch = running.wait_for(None, "settled");
        if epoch["manifest"]["allocations"]["lines"] == 2 {
            return (running, epoch);
        }
    }
}

#[test]
fn what_is_used_is_sealed_computed_proven_and_paid_once() {
    let (running, epoch) = with_alice_and_bob();
    let id = epoch["epoch"].as_u64().unwrap();
    assert_eq!((running.balance("actor/alice"), running.balance("actor/bob")), (750, 250));
    assert_eq!((&epoch["manifest"]["pool"], &epoch["manifest"]["paid"]), (&"1000".into(), &"1000".into()));
    assert_eq!((&epoch["batches"], &epoch["batches_posted"]), (&1.into(), &1.into()));
    assert_eq!(epoch["snapshots"][0]["counts"], true);
    let proof = running.get(&format!("/rewarder/epochs/{id}/proof/alice"));
    assert_eq!((proof.status, proof.header("content-type")), (200, "application/json"));
    assert!(proof.body.len() < 2048, "{}", proof.body.len());
    let manifest =
        rewards::Manifest::read(&running.get(&format!("/rewarder/epochs/{id}/files/run.json")).body).unwrap();
    rewards::Proof::read(&proof.body).unwrap().check(&manifest).unwrap();
    assert_eq!(running.get(&format!("/rewarder/epochs/{id}/proof/carol")).status, 404);
    let again = running.ask("POST", &format!("/rewarder/epochs/{id}/compute"), &[], b"");
    assert_eq!((again.status, again.json()["state"].as_str()), (200, Some("settled")));
    assert_eq!(running.balance("actor/alice"), 750, "asking again pays nobody again");
    // First the store says so, then everything else.
    eventually("the run is counted", || {
        running.metric("reward_runs_total{node=\"test\",service=\"rewarder\",status=\"settled\"}") >= 1.0
    });
    // By the names that they are declared by, to the letter.
    for sum in ["reward_pool_total_minor", "reward_payout_total_minor"] {
        let name = format!("{sum}{{node=\"test\",service=\"rewarder\"}} ");
        eventually(sum, || running.metric(&name) >= 1000.0);
    }
}

#[test]
fn a_settled_epoch_has_its_commitment_as_a_tag() {
    let running = Running::start();
    running.book("alice", 1);
    let epoch = running.wait_for(None, "settled");
    let path = format!("/rewarder/epochs/{}", epoch["epoch"]);
    let tag = format!("\"{}\"", epoch["commitment"].as_str().unwrap());
    assert_eq!(running.get(&path).header("etag"), tag);
    let known = running.ask("GET", &path, &[("if-none-match", &tag)], b"");
    assert_eq!((known.status, known.body.len()), (304, 0));
}

#[test]
fn an_epoch_without_usage_is_no_epoch() {
    let running = Running::start();
    running.book("alice", 1);
    running.wait_for(None, "settled");
    let then = running.metric("accounting_epoch");
    eventually("some epochs pass", || running.metric("accounting_epoch") >= then + 2.0);
    running.book("bob", 1);
    eventually("there is a second one", || running.epochs().len() == 2);
}

#[test]
fn a_pool_that_is_not_funded_waits_and_is_paid_when_it_is() {
    let running = Running::with(Wish { pool: 0, ..Wish::default() }, |_| {});
    running.book("alice", 1);
    let epoch = running.wait_for(None, "computed");
    eventually("the reason is told", || running.standing().contains("unfunded"));
    let epoch = running.get(&format!("/rewarder/epochs/{}", epoch["epoch"])).json();
    assert!(epoch["reason"].as_str().unwrap().starts_with("unfunded"), "{epoch}");
    fund(&*running.ledger, "fund/0", 10);
    fund(&*running.ledger, "fund/1", 5000);
    running.wait_for(None, "settled");
    assert_eq!(running.balance("actor/alice"), 1000);
}

#[test]
fn without_the_automatic_cycle_an_epoch_is_computed_when_it_is_asked_for() {
    let unix = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let began = unix();
    let running = Running::with(Wish::default(), |config| config.automatic = false);
    running.book("alice", 1);
    let mut found = None;
    eventually("the node has sealed an epoch", || {
        found = (began..unix()).find(|epoch| running.get(&format!("/rewarder/epochs/{epoch}")).status == 200);
        found.is_some()
    });
    let path = format!("/rewarder/epochs/{}", found.unwrap());
    assert_eq!(running.get(&path).json()["state"], "open");
    let asked = running.ask("POST", &format!("{path}/compute"), &[], b"");
    assert_eq!(asked.status, 202, "{asked:?}");
    running.wait_for(found, "settled");
}

#[test]
fn a_restart_goes_on_where_the_last_process_was() {
    let first = Running::with(Wish { pool: 0, ..Wish::default() }, |_| {});
    first.book("alice", 1);
    let epoch = first.wait_for(None, "computed");
    let ledger = std::sync::Arc::clone(&first.ledger);
    let dir = first.stop();
    let second = Running::within(dir, Wish { ledger, ..Wish::default() }, |_| {});
    let settled = second.wait_for(epoch["epoch"].as_u64(), "settled");
    assert_eq!(settled["commitment"], epoch["commitment"]);
    assert_eq!(second.balance("actor/alice"), 1000);
}

/// The checkpoints of a ledger.
fn checkpoints(running: &Running) -> Vec<ron_ledger::Checkpoint> {
    running.ledger.snapshot().unwrap().checkpoints(0, 100).unwrap()
}

#[test]
fn whenever_epochs_are_settled_the_node_signs_the_ledger() {
    let running = Running::start();
    running.book("alice", 1);
    running.wait_for(None, "settled");
    eventually("it is signed", || !checkpoints(&running).is_empty());
    let signed = checkpoints(&running);
    assert_eq!(types::NodeId::of_key(&signed[0].key), running.rewarder.node());
    ron_ledger::verify(&mut *running.ledger.snapshot().unwrap(), &[signed[0].key]).unwrap();
    let then = running.metric("accounting_epoch");
    eventually("an epoch passes", || running.metric("accounting_epoch") > then + 1.0);
    running.book("alice", 1);
    eventually("the next one is signed too", || checkpoints(&running).len() == 2);
}

#[test]
fn a_node_whose_word_on_the_ledger_does_not_count_signs_nothing() {
    let running = Running::with(Wish { checkpoint_keys: vec![[1; 32]], ..Wish::default() }, |_| {});
    running.book("alice", 1);
    running.wait_for(None, "settled");
    let then = running.metric("accounting_epoch");
    eventually("an epoch passes", || running.metric("accounting_epoch") > then + 1.0);
    running.book("alice", 1);
    // Before the second is paid, the first would have been signed for.
    eventually("a second one is settled", || {
        running.epochs().iter().filter(|epoch| epoch["state"] == "settled").count() == 2
    });
    assert_eq!(checkpoints(&running), []);
}

#[test]
fn with_amnesia_everything_works_and_nothing_is_written() {
    let running = Running::with(Wish { amnesia: true, ..Wish::default() }, |_| {});
    running.book("alice", 3);
    let epoch = running.wait_for(None, "settled");
    assert_eq!(running.get(&format!("/rewarder/epochs/{}/files/run.json", epoch["epoch"])).status, 200);
    assert_eq!(running.balance("actor/alice"), 1000);
    let dir = running.stop();
    assert_eq!(names_in(dir.path()), ["policy.json"], "what the test put there");
}

/// An epoch that is settled, of a rewarder that goes on with other settings.
fn settled_and_restarted(
    settings: impl FnOnce(&mut svc_rewarder::RewarderConfig),
) -> (Running, serde_json::Value) {
    let ledger: std::sync::Arc<dyn ron_ledger::Ledger> =
        std::sync::Arc::new(ron_ledger::SqliteLedger::in_memory().unwrap());
    let wish = || Wish { ledger: std::sync::Arc::clone(&ledger), ..Wish::default() };
    let keeping = Running::with(wish(), |config| config.retain_epochs = 0);
    keeping.book("alice", 1);
    let epoch = keeping.wait_for(None, "settled");
    let dir = keeping.stop();
    (Running::within(dir, wish(), settings), epoch)
}

#[test]
fn a_retired_epoch_is_gone_with_a_word_where_it_went() {
    let (running, epoch) = settled_and_restarted(|config| {
        config.retain_epochs = 1;
        config.archive_url = "https://archive.example/{epoch}/".to_owned();
    });
    running.book("bob", 1);
    let path = format!("/rewarder/epochs/{}", epoch["epoch"]);
    let run = format!("{path}/files/run.json");
    eventually("the files are gone", || running.get(&run).status != 200);
    for path in [run, format!("{path}/proof/alice")] {
        let gone = running.get(&path);
        assert_eq!((gone.status, gone.reason().as_str()), (410, "gone"), "{gone:?}");
        let detail = gone.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&format!("https://archive.example/{}/", epoch["epoch"])), "{detail}");
        assert!(detail.contains(epoch["commitment"].as_str().unwrap()), "{detail}");
    }
    let after = running.get(&path).json();
    assert_eq!(
        (&after["state"], &after["commitment"]),
        (&epoch["state"], &epoch["commitment"]),
        "what it was stays known"
    );
    assert!(after["retired_at"].is_u64(), "{after}");
    let asked = running.ask("POST", &format!("{path}/reconcile"), &[], b"");
    assert_eq!((asked.status, &asked.json()["missing"]), (200, &0.into()), "{asked:?}");
}

#[test]
fn the_latest_epoch_keeps_its_files_however_long_ago_it_was() {
    let (running, epoch) = settled_and_restarted(|config| config.retain_epochs = 1);
    let run = format!("/rewarder/epochs/{}/files/run.json", epoch["epoch"]);
    let then = running.metric("accounting_epoch");
    eventually("many epochs pass without usage", || running.metric("accounting_epoch") >= then + 5.0);
    assert_eq!(running.get(&run).status, 200);
    assert_eq!(running.get(&format!("/rewarder/epochs/{}/proof/alice", epoch["epoch"])).status, 200);
}

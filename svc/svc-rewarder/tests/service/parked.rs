//! Receivers that cannot be paid: what is theirs is parked, and everybody else is paid.

use std::sync::Arc;

use rewards::{Epoch, Int, ParkedPayouts, PayeeEntry, Payees, PolicyId, SignedPayees};
use ron_ledger::{
    AccountId, Asset, Batch, Floor, Key, Ledger, Reference, SqliteLedger, Step, Terms, Transfer,
};

use crate::{
    stage::{Stage, actor},
    support::{Running, Wish, eventually},
};

fn account(name: &str) -> AccountId {
    AccountId::new(name).unwrap()
}

fn post(ledger: &dyn Ledger, key: &str, steps: Vec<Step>) {
    let batch = Batch::new(Key::new(key).unwrap(), Reference::new("test").unwrap(), 1, steps).unwrap();
    ledger.post(&batch).unwrap();
}

fn open(name: &str, asset: &str) -> Step {
    Step::Open(Terms { account: account(name), asset: Asset::new(asset).unwrap(), floor: Floor::ZERO })
}

/// A rewarder that has settled an epoch of alice, whose accounts count something else, and of bob.
fn with_elsewhere(accounts: &[(&str, &str)]) -> (Running, serde_json::Value) {
    loop {
        let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
        post(&*ledger, "elsewhere", accounts.iter().map(|(name, asset)| open(name, asset)).collect());
        let running = Running::with(Wish { ledger, ..Wish::default() }, |_| {});
        running.book("alice", 300);
        running.book("bob", 100);
        let epoch = running.wait_for(None, "settled");
        // Between the two bookings an epoch may end; then again.
        if epoch["manifest"]["allocations"]["lines"] == 2 {
            return (running, epoch);
        }
    }
}

fn with_alice_elsewhere() -> (Running, serde_json::Value) {
    with_elsewhere(&[("actor/alice", "GOLD")])
}

#[test]
fn a_receiver_that_cannot_be_paid_keeps_nobody_else_from_being_paid() {
    let (running, epoch) = with_alice_elsewhere();
    let balances = ["actor/alice", "parked/alice", "actor/bob"].map(|name| running.balance(name));
    assert_eq!(balances, [0, 750, 250]);
    let id = epoch["epoch"].as_u64().unwrap();
    let reason = epoch["reason"].as_str().unwrap();
    assert!(reason.starts_with("parked: 1 payouts, 750 in all, parked/alice: "), "{reason}");
    let file = running.get(&format!("/rewarder/epochs/{id}/files/parked.json"));
    let parked = ParkedPayouts::read(&file.body).unwrap();
    assert_eq!((parked.epoch.number(), parked.payouts.len()), (id, 1));
    let payout = &parked.payouts[0];
    assert_eq!(
        (payout.receiver.as_str(), payout.amount.minor(), payout.account.as_str(), payout.reason.as_str()),
        ("alice", 750, "parked/alice", "asset_mismatch")
    );
    eventually("readiness tells", || running.standing().contains("parked: epoch"));
    // It is released like any other money.
    let transfer =
        Transfer { from: account("parked/alice"), to: account("alice/credit"), amount: 750_u64.into() };
    let steps = vec![open("alice/credit", "CREDIT"), Step::Transfer(transfer)];
    post(&*running.ledger, "release", steps);
    eventually("that is noticed", || {
        running.get(&format!("/rewarder/epochs/{id}")).json()["reason"].is_null()
    });
    eventually("readiness is quiet", || !running.standing().contains("parked: "));
    assert_eq!(running.balance("alice/credit"), 750);
}

#[test]
fn an_actor_whose_account_is_the_pools_own_is_parked() {
    let pool = |config: &mut svc_rewarder::RewarderConfig| config.pool_account = "actor/alice".to_owned();
    let running = Running::with(Wish { pool: 0, ..Wish::default() }, pool);
    let transfer = Transfer { from: account("mint"), to: account("actor/alice"), amount: 5000_u64.into() };
    let mint =
        Terms { account: account("mint"), asset: Asset::new("CREDIT").unwrap(), floor: Floor::Unlimited };
    let steps = vec![Step::Open(mint), open("actor/alice", "CREDIT"), Step::Transfer(transfer)];
    post(&*running.ledger, "fund", steps);
    running.book("alice", 1);
    running.wait_for(None, "settled");
    assert_eq!((running.balance("actor/alice"), running.balance("parked/alice")), (4000, 1000));
}

/// The pool may have changed its asset, so that what is parked counts another one than the receiver's account and the pool.
#[test]
fn a_parked_account_of_another_asset_keeps_nobody_from_being_paid() {
    let (running, epoch) = with_elsewhere(&[("actor/alice", "GOLD"), ("parked/alice", "SILV")]);
    let balances =
        ["actor/alice", "parked/alice", "parked-CREDIT/alice", "actor/bob"].map(|name| running.balance(name));
    assert_eq!(balances, [0, 0, 750, 250]);
    let reason = epoch["reason"].as_str().unwrap();
    assert!(reason.starts_with("parked: 1 payouts, 750 in all, parked-CREDIT/alice: "), "{reason}");
    is_recognised(running, &epoch);
}

#[test]
fn payouts_of_several_actors_with_one_payee_are_all_listed() {
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
    post(&*ledger, "elsewhere", vec![open("actor/alice", "GOLD")]);
    let stage = Stage::with(Wish { ledger, ..Wish::default() }, 0);
    let entry = PayeeEntry {
        actor: actor("bob"),
        payee: actor("alice"),
        first_epoch: Epoch::new(0).unwrap(),
        last_epoch: None,
        consent: None,
    };
    let payees = Payees::new(PolicyId::new("default").unwrap(), Int::from(1_u32), vec![entry]).unwrap();
    let signed = SignedPayees::unsigned(payees).signed_by(&stage.running.signer);
    assert_eq!(stage.running.ask("PUT", "/rewarder/payees", &[], &signed.to_bytes()).status, 200);
    stage.give(5, 0, &[("alice", 1), ("bob", 1), ("carol", 2)]);
    stage.compute(5, "settled");
    let balances = ["parked/alice", "actor/bob", "actor/carol"].map(|name| stage.running.balance(name));
    assert_eq!(balances, [500, 0, 500]);
    let parked = ParkedPayouts::read(&stage.file(5, "parked.json").1).unwrap();
    let listed = parked.payouts.iter().map(|payout| {
        let actor = payout.actor.as_ref().unwrap();
        (actor.as_str(), payout.receiver.as_str(), payout.amount.minor(), payout.account.as_str())
    });
    let expected = [("alice", "alice", 250, "parked/alice"), ("bob", "alice", 250, "parked/alice")];
    assert_eq!(listed.collect::<Vec<_>>(), expected);
    let epoch = stage.running.get("/rewarder/epochs/5").json();
    assert!(epoch["reason"].as_str().unwrap().starts_with("parked: 2 payouts, 500 in all"), "{epoch}");
}

/// A process may die after a batch with a parked payout was posted, and before that was noted. The next one finds it.
#[test]
fn a_batch_that_was_posted_with_a_parked_payout_is_recognised() {
    let (running, epoch) = with_alice_elsewhere();
    is_recognised(running, &epoch);
}

#[track_caller]
fn is_recognised(running: Running, epoch: &serde_json::Value) {
    let accounts = ["actor/alice", "parked/alice", "parked-CREDIT/alice", "actor/bob"];
    let before = accounts.map(|name| running.balance(name));
    let (id, ledger) = (epoch["epoch"].as_u64().unwrap(), Arc::clone(&running.ledger));
    let dir = running.stop();
    let store = rusqlite::Connection::open(dir.path().join("data/epochs.sqlite")).unwrap();
    let back = "UPDATE rewarder_epochs SET state = 'emitting', posted = 0, reason = NULL WHERE epoch = ?1";
    assert_eq!(store.execute(back, [id]).unwrap(), 1);
    drop(store);
    std::fs::remove_file(dir.path().join(format!("data/rewards/{id}/parked.json"))).unwrap();
    let again = Running::within(dir, Wish { ledger, pool: 0, ..Wish::default() }, |_| {});
    let epoch = again.wait_for(Some(id), "settled");
    assert!(epoch["reason"].as_str().unwrap().starts_with("parked: 1 payouts, 750"), "{epoch}");
    assert_eq!(accounts.map(|name| again.balance(name)), before, "once, and not less");
}

/// Another node may have posted the batches, with what it parked written down in its own files alone.
#[test]
fn payouts_that_another_node_has_parked_are_listed_by_the_one_that_settles() {
    let (running, epoch) = with_alice_elsewhere();
    let (id, ledger) = (epoch["epoch"].as_u64().unwrap(), Arc::clone(&running.ledger));
    let dir = running.stop();
    let store = rusqlite::Connection::open(dir.path().join("data/epochs.sqlite")).unwrap();
    let back = "UPDATE rewarder_epochs SET state = 'emitting', reason = NULL WHERE epoch = ?1";
    assert_eq!(store.execute(back, [id]).unwrap(), 1);
    drop(store);
    std::fs::remove_file(dir.path().join(format!("data/rewards/{id}/parked.json"))).unwrap();
    let again = Running::within(dir, Wish { ledger, pool: 0, ..Wish::default() }, |_| {});
    let epoch = again.wait_for(Some(id), "settled");
    assert!(epoch["reason"].as_str().is_some_and(|why| why.starts_with("parked: 1 payouts, 750")), "{epoch}");
    let file = again.get(&format!("/rewarder/epochs/{id}/files/parked.json"));
    assert_eq!(ParkedPayouts::read(&file.body).unwrap().payouts[0].reason, "parked_before");
}

//! Corrections and registries that should take no effect: of withdrawn keys, of runs that are not settled, or of absurd amounts.
//! And objections, of which there may be many.

use std::sync::Arc;

use rewards::{
    Amount, Correction, Dispute, Epoch, Int, PayeeEntry, Payees, PolicyId, RunName, Sign, SignedCorrection,
    SignedPayees,
};
use ron_accounting::SigningKey;
use ron_ledger::{Ledger, SqliteLedger};

use crate::{
    stage::{Stage, actor},
    support::{Wish, fund},
};

fn credit(run: RunName, amount: u128) -> SignedCorrection {
    SignedCorrection::unsigned(Correction {
        policy: PolicyId::new("default").unwrap(),
        corrects: run,
        credits: vec![(actor("bob"), Amount::new(amount).unwrap())],
        debits: Vec::new(),
        reason: "rows of bob were missing".to_owned(),
    })
}

fn submit(stage: &Stage, signed: &SignedCorrection) -> u16 {
    stage.running.ask("POST", "/rewarder/corrections", &[], &signed.to_bytes()).status
}

fn put_payees(stage: &Stage, key: &SigningKey, version: u64, payee: &str) -> u16 {
    let entry = PayeeEntry {
        actor: actor("bob"),
        payee: actor(payee),
        first_epoch: Epoch::new(0).unwrap(),
        last_epoch: None,
        consent: None,
    };
    let policy = PolicyId::new("default").unwrap();
    let payees = Payees::new(policy, Int::new(version).unwrap(), vec![entry]).unwrap();
    let signed = SignedPayees::unsigned(payees).signed_by(key);
    stage.running.ask("PUT", "/rewarder/payees", &[], &signed.to_bytes()).status
}

#[test]
fn what_a_withdrawn_key_has_signed_takes_no_effect_any_more() {
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::in_memory().unwrap());
    let wish = |pool| Wish { ledger: Arc::clone(&ledger), pool, ..Wish::default() };
    let stolen = SigningKey::generate().unwrap();
    let nodes = [0, 1].map(|_| SigningKey::generate().unwrap());
    let keys = vec![stolen.public_key().to_string()];
    let stage = Stage::within(tempfile::tempdir().unwrap(), nodes, wish(1_000_000), 0, keys);
    assert_eq!(put_payees(&stage, &stage.running.signer, 1, "bobs-bank"), 200);
    stage.give(5, 0, &[("alice", 1), ("bob", 1)]);
    let run = stage.compute(5, "settled").name();
    assert_eq!(put_payees(&stage, &stolen, (1 << 53) - 1, "thief"), 200);
    assert_eq!(submit(&stage, &credit(run, 70).signed_by(&stolen)), 202);
    assert_eq!(submit(&stage, &credit(run, 7).signed_by(&stage.running.signer)), 202);
    let (dir, nodes) = stage.stop();
    let stage = Stage::within(dir, nodes, wish(0), 0, Vec::new());
    stage.give(6, 0, &[("alice", 1), ("bob", 1)]);
    stage.compute(6, "settled");
    let paid = ["actor/thief", "actor/bobs-bank"].map(|account| stage.running.balance(account));
    assert_eq!(paid, [0, 1007]);
    let shown = stage.running.get("/rewarder/payees").json();
    assert_eq!(shown["payees"]["version"], 1, "{shown}");
    assert_eq!(put_payees(&stage, &stage.running.signer, 2, "bobs-other-bank"), 200);
    stage.give(7, 0, &[("bob", 1)]);
    stage.compute(7, "settled");
    assert_eq!(stage.running.balance("actor/bobs-other-bank"), 1000);
}

#[test]
fn a_correction_adds_no_more_than_its_epoch_had_to_divide() {
    let stage = Stage::new(1_000_000, 0);
    stage.give(5, 0, &[("alice", 1), ("bob", 1)]);
    let run = stage.compute(5, "settled").name();
    let sign = |amount| credit(run, amount).signed_by(&stage.running.signer);
    for amount in [Amount::MAX.minor(), 1_000_000_000_000_000, 1001] {
        assert_eq!(submit(&stage, &sign(amount)), 409, "{amount}");
    }
    assert_eq!(submit(&stage, &sign(1000)), 202);
    stage.give(6, 0, &[("alice", 1), ("bob", 1)]);
    stage.compute(6, "settled");
    assert_eq!(stage.paid(), [1000, 2000]);
}

#[test]
fn a_run_is_corrected_only_after_it_is_settled() {
    let stage = Stage::new(0, 0);
    stage.give(5, 0, &[("alice", 1), ("bob", 1)]);
    let run = stage.compute(5, "computed").name();
    let correction = credit(run, 7).signed_by(&stage.running.signer);
    assert_eq!(submit(&stage, &correction), 409, "it may still be computed anew");
    fund(&*stage.running.ledger, "fund/0", 5000);
    stage.running.wait_for(Some(5), "settled");
    assert_eq!(submit(&stage, &correction), 202);
}

#[test]
fn strangers_take_no_room_from_those_who_have_a_line() {
    let stage = Stage::new(1_000_000, 0);
    let payee = SigningKey::generate().unwrap();
    let name = payee.node().to_string();
    stage.give(5, 0, &[(name.as_str(), 1), ("zoe", 3)]);
    let run = stage.compute(5, "settled").name();
    let object = |key: &SigningKey, reason: &str| {
        let dispute = Dispute::of(run, actor(&key.node().to_string()), reason, key).unwrap();
        stage.running.ask("POST", "/rewarder/epochs/5/disputes", &[], &dispute.to_bytes()).status
    };
    let stranger = SigningKey::generate().unwrap();
    assert_eq!((object(&stranger, "mine is missing"), object(&stranger, "mine is missing")), (200, 200));
    assert_eq!(object(&stranger, "all of it is missing"), 409, "one of each stranger");
    for _ in 1..32 {
        assert_eq!(object(&SigningKey::generate().unwrap(), "mine is missing"), 200);
    }
    assert_eq!(object(&SigningKey::generate().unwrap(), "mine is missing"), 409, "and 32 of all");
    for reason in ["one", "two", "three", "four"] {
        assert_eq!(object(&payee, reason), 200, "{reason}");
    }
    assert_eq!(object(&payee, "five"), 409);
    assert_eq!(object(&stage.nodes[1], "a node objects"), 200);
    assert_eq!(object(&stage.running.signer, "the policy's key objects"), 200);
    let listed = stage.running.get("/rewarder/epochs/5/disputes").json();
    assert_eq!(listed["disputes"].as_array().map(Vec::len), Some(38));
}

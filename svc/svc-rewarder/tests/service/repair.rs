//! Epochs that follow each other, and mistakes that are repaired: what waits is paid later, what was held goes on, what was
//! wrong is corrected, and every step is signed and published.

use rewards::{
    Action, Amount, Correction, Digest, Dispute, Epoch, ExclusionNotice, Int, Order, PayeeEntry, Payees,
    PolicyId, RunName, SignedCorrection, SignedOrder, SignedPayees,
};
use ron_accounting::SigningKey;

use crate::{
    stage::{Stage, actor},
    support::{eventually, fund},
};

#[test]
fn what_is_below_the_minimum_is_paid_in_a_later_epoch_and_every_run_names_the_one_before() {
    let stage = Stage::new(1_000_000, 300);
    stage.give(5, 0, &[("alice", 800), ("bob", 200)]);
    let first = stage.compute(5, "settled");
    assert_eq!(stage.paid(), [800, 0]);
    stage.give(6, 0, &[("alice", 900), ("bob", 100)]);
    let second = stage.compute(6, "settled");
    assert_eq!(stage.paid(), [1700, 300], "what waited is paid with what is new");
    assert!(first.linked.clone().unwrap().brought.previous.is_none());
    let linked = second.linked.unwrap();
    assert_eq!(linked.brought.previous, Some(first.name()));
    assert_eq!(linked.brought.carried, first.linked.unwrap().carried_out);
    assert_eq!(stage.file(6, "carried.jsonl").1, b"{\"actor\":\"bob\",\"amount\":\"200\"}\n");
    assert_eq!(stage.running.balance("pool/rewards"), 998_000);
}

#[test]
fn a_held_epoch_goes_on_where_it_was_and_an_order_is_carried_out_once() {
    let stage = Stage::new(0, 0);
    stage.give(5, 0, &[("alice", 3), ("bob", 1)]);
    stage.compute(5, "computed");
    let (hold, release) = (stage.order(5, Action::Hold), stage.order(5, Action::Release));
    assert_eq!(stage.submit_order(5, &release), 409, "it is not quarantined");
    assert_eq!(stage.submit_order(5, &hold), 202);
    stage.running.wait_for(Some(5), "quarantined");
    eventually("its file tells", || stage.file(5, "quarantine.json").0 == 200);
    fund(&*stage.running.ledger, "fund/0", 5000);
    assert_eq!(stage.submit_order(6, &release), 409, "it is about epoch 5");
    let stranger = SigningKey::generate().unwrap();
    let forged =
        SignedOrder::unsigned(SignedOrder::read(&release).unwrap().order().clone()).signed_by(&stranger);
    assert_eq!(stage.submit_order(5, &forged.to_bytes()), 403);
    assert_eq!(stage.submit_order(5, b"{}"), 400);
    assert_eq!(stage.paid(), [0, 0], "nothing is paid while it is held");
    assert_eq!(stage.submit_order(5, &release), 202);
    stage.running.wait_for(Some(5), "settled");
    assert_eq!(stage.paid(), [750, 250]);
    assert_eq!(stage.file(5, "quarantine.json").0, 404);
    for order in [&hold, &release] {
        assert_eq!(stage.submit_order(5, order), 200, "it was carried out before");
    }
    assert_eq!(stage.running.get("/rewarder/epochs/5").json()["state"], "settled");
    eventually("readiness says so", || !stage.running.standing().contains("quarantine"));
}

#[test]
fn a_published_order_is_not_carried_out_again_with_other_signatures() {
    let stage = Stage::new(0, 0);
    stage.give(5, 0, &[("alice", 1)]);
    stage.compute(5, "computed");
    let release = stage.order(5, Action::Release);
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Hold)), 202);
    assert_eq!(stage.submit_order(5, &release), 202);
    let again =
        Order { epoch: Epoch::new(5).unwrap(), action: Action::Hold, reason: "wrong again".to_owned() };
    let again = SignedOrder::unsigned(again).signed_by(&stage.running.signer);
    assert_eq!(stage.submit_order(5, &again.to_bytes()), 202);
    let stranger = SigningKey::generate().unwrap();
    let replayed = SignedOrder::read(&release).unwrap().signed_by(&stranger);
    assert_eq!(stage.submit_order(5, &replayed.to_bytes()), 200, "it was carried out before");
    let epoch = stage.running.get("/rewarder/epochs/5").json();
    assert_eq!((&epoch["state"], &epoch["reason"]), (&"quarantined".into(), &"held: wrong again".into()));
}

#[test]
fn an_objection_to_a_run_that_was_taken_back_is_not_published_with_the_next() {
    let stage = Stage::new(0, 0);
    stage.give(5, 0, &[("alice", 1)]);
    stage.give(5, 1, &[("bob", 3)]);
    let before = stage.compute(5, "computed").name();
    let submit = |run: RunName| {
        let dispute = Dispute::of(run, actor("alice"), "bob was not there", &stage.nodes[0]).unwrap();
        let answer = stage.running.ask("POST", "/rewarder/epochs/5/disputes", &[], &dispute.to_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        rewards::bundle::dispute_file(dispute.hash())
    };
    let old = submit(before);
    let node = actor(&stage.nodes[1].node().to_string());
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Hold)), 202);
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Exclude(node))), 202);
    stage.running.wait_for(Some(5), "computed");
    let new = submit(stage.manifest(5).name());
    assert_eq!((stage.file(5, &old).0, stage.file(5, &new).0), (404, 200), "each belongs to its run");
    let listed = stage.running.get("/rewarder/epochs/5/disputes").json();
    assert_eq!(listed["disputes"].as_array().map(Vec::len), Some(2), "both are kept");
}

#[test]
fn a_held_epoch_is_computed_without_a_node_and_the_reason_is_published() {
    let stage = Stage::new(0, 0);
    stage.give(5, 0, &[("alice", 1)]);
    stage.give(5, 1, &[("bob", 3)]);
    let before = stage.compute(5, "computed");
    let node = stage.nodes[1].node().to_string();
    let exclude = |node: &str| stage.order(5, Action::Exclude(actor(node)));
    assert_eq!(stage.submit_order(5, &exclude(&node)), 409, "it is not quarantined");
    assert_eq!(stage.submit_order(5, &stage.order(5, Action::Hold)), 202);
    stage.running.wait_for(Some(5), "quarantined");
    assert_eq!(stage.submit_order(5, &exclude("nobody")), 409, "it has no such snapshot");
    let order = exclude(&node);
    assert_eq!(stage.submit_order(5, &order), 202);
    stage.running.wait_for(Some(5), "computed");
    fund(&*stage.running.ledger, "fund/0", 5000);
    stage.running.wait_for(Some(5), "settled");
    assert_eq!(stage.paid(), [1000, 0]);
    assert_ne!(stage.manifest(5).commitment(), before.commitment());
    let notice = ExclusionNotice::read(&stage.file(5, "excluded.json").1).unwrap();
    let said: Vec<_> = notice.excluded.iter().map(|one| (one.reason.as_str(), one.detail.as_str())).collect();
    assert_eq!(said, [("ordered", "its disk lost rows")]);
    let orders = stage.file(5, "orders.jsonl").1;
    assert_eq!(orders.split(|byte| *byte == b'\n').nth(1), Some(&order[..]), "the second order");
}

#[test]
fn a_paid_epoch_is_corrected_once_by_a_later_one() {
    let stage = Stage::new(1_000_000, 0);
    stage.give(5, 0, &[("alice", 1), ("bob", 1)]);
    let paid = stage.compute(5, "settled");
    let correction = |run: RunName| Correction {
        policy: PolicyId::new("default").unwrap(),
        corrects: run,
        credits: vec![(actor("bob"), Amount::from(50_u64))],
        debits: vec![(actor("alice"), Amount::from(20_u64))],
        reason: "rows of bob were missing".to_owned(),
    };
    let submit = |document: &[u8]| stage.running.ask("POST", "/rewarder/corrections", &[], document).status;
    let signed = SignedCorrection::unsigned(correction(paid.name())).signed_by(&stage.running.signer);
    let stranger = SignedCorrection::unsigned(correction(paid.name())).signed_by(&stage.nodes[0]);
    assert_eq!(submit(&stranger.to_bytes()), 403);
    let other = RunName { commitment: Digest::new([1; 32]), ..paid.name() };
    let of_other = SignedCorrection::unsigned(correction(other)).signed_by(&stage.running.signer);
    assert_eq!(submit(&of_other.to_bytes()), 409, "there is no such run");
    assert_eq!((submit(&signed.to_bytes()), submit(&signed.to_bytes())), (202, 200));
    stage.give(6, 0, &[("alice", 1), ("bob", 1)]);
    let correcting = stage.compute(6, "settled");
    assert_eq!(stage.paid(), [980, 1050]);
    let named = correcting.linked.unwrap().brought.corrections;
    assert_eq!(named, [(paid.name(), signed.correction().hash())]);
    let name = rewards::bundle::correction_file(signed.correction().hash());
    assert_eq!(stage.file(6, &name), (200, signed.to_bytes()));
    stage.give(7, 0, &[("alice", 1), ("bob", 1)]);
    stage.compute(7, "settled");
    assert_eq!(stage.paid(), [1480, 1550], "it takes effect once");
    let listed = stage.running.get("/rewarder/corrections").json();
    assert_eq!(listed["corrections"].as_array().map(Vec::len), Some(1));
}

#[test]
fn payouts_go_to_payees_from_the_next_run_on() {
    let stage = Stage::new(1_000_000, 0);
    let entry = |name: &str, payee: &str| PayeeEntry {
        actor: actor(name),
        payee: actor(payee),
        first_epoch: Epoch::new(0).unwrap(),
        last_epoch: None,
        consent: None,
    };
    let put = |version: u32, entries: Vec<PayeeEntry>| {
        let payees = Payees::new(PolicyId::new("default").unwrap(), Int::from(version), entries).unwrap();
        let signed = SignedPayees::unsigned(payees).signed_by(&stage.running.signer);
        stage.running.ask("PUT", "/rewarder/payees", &[], &signed.to_bytes()).status
    };
    assert_eq!(stage.running.get("/rewarder/payees").status, 404);
    assert_eq!(put(2, vec![entry("bob", "bobs-bank")]), 200);
    assert_eq!(put(2, vec![entry("bob", "thief")]), 409, "that version is taken");
    assert_eq!(put(1, Vec::new()), 409, "it is older");
    let key = stage.nodes[0].node().to_string();
    assert_eq!(put(3, vec![entry(&key, "thief")]), 400, "a key has to consent");
    stage.give(5, 0, &[("alice", 1), ("bob", 1)]);
    stage.compute(5, "settled");
    assert_eq!((stage.paid(), stage.running.balance("actor/bobs-bank")), ([500, 0], 500));
    assert_eq!(stage.file(5, "payees.json").0, 200);
}

#[test]
fn a_dispute_is_published_with_its_epoch_if_it_comes_from_somebody_concerned() {
    let stage = Stage::new(1_000_000, 0);
    stage.give(5, 0, &[("alice", 1)]);
    let run = stage.compute(5, "settled").name();
    let submit = |run: RunName, key: &SigningKey| {
        let dispute = Dispute::of(run, actor("alice"), "300 requests are missing", key).unwrap();
        let answer = stage.running.ask("POST", "/rewarder/epochs/5/disputes", &[], &dispute.to_bytes());
        (answer.status, dispute)
    };
    assert_eq!(submit(run, &SigningKey::generate().unwrap()).0, 403);
    assert_eq!(submit(RunName { commitment: Digest::new([1; 32]), ..run }, &stage.nodes[1]).0, 409);
    let (status, dispute) = submit(run, &stage.nodes[1]);
    assert_eq!(status, 200);
    let name = rewards::bundle::dispute_file(dispute.hash());
    assert_eq!(stage.file(5, &name), (200, dispute.to_bytes()));
    let listed = stage.running.get("/rewarder/epochs/5/disputes").json();
    assert_eq!(listed["disputes"][0]["reason"], "300 requests are missing");
}

#[test]
fn what_somebody_earned_is_found_by_name_and_by_its_beginning() {
    let stage = Stage::new(1_000_000, 0);
    stage.give(5, 0, &[("alice", 1), ("alina", 1), ("bob", 2)]);
    stage.compute(5, "settled");
    stage.give(6, 0, &[("bob", 2)]);
    stage.compute(6, "settled");
    let history = stage.running.get("/rewarder/actors/alice").json();
    assert_eq!(history["epochs"].as_array().map(Vec::len), Some(1), "{history}");
    let line = &history["epochs"][0];
    assert_eq!((&line["epoch"], &line["line"]["payout"]), (&5.into(), &"250".into()));
    let bob = stage.running.get("/rewarder/actors/bob?limit=1").json();
    assert_eq!((&bob["epochs"][0]["epoch"], &bob["next"]), (&6.into(), &6.into()));
    assert_eq!(stage.running.get("/rewarder/actors/nobody").json()["epochs"], serde_json::json!([]));
    let found = stage.running.get("/rewarder/epochs/5/actors/al").json();
    let names: Vec<_> = found["lines"].as_array().unwrap().iter().map(|line| &line["actor"]).collect();
    assert_eq!(names, ["alice", "alina"]);
    assert_eq!(stage.running.get("/rewarder/actors/%20").status, 400);
}

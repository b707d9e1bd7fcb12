//! Epochs that follow each other: `epoch verify --chain`, orders and disputes in bundles, statements, and documents that are
//! signed on the command line.

use std::{fs, path::PathBuf};

use rewards::{
    Action, Amount, Correction, Dispute, Epoch, Int, Order, PayeeEntry, Payees, Policy, PolicyId, Run,
    RunName, Sign, SignedCorrection, SignedOrder, SignedPayees, SignedPolicy,
};
use serde_json::Value;
use tempfile::TempDir;
use types::ActorId;

use crate::{
    bundle::{Counted, Plan, TakenOver, key, node_id, write},
    cli_run::{Ran, omnigate, run},
};

const NODE: u8 = 1;
const AUTHORITY: u8 = 9;

/// Everything but the chain is required.
const ALONE: &[&str] = &["--require", "policy,seals,rows,commitment"];

/// Epochs 5, 6 and 7 in `epochs`, each after the one before. Ada earns most; bo is below the minimum until the third.
struct Fixture {
    dir: TempDir,
    plans: Vec<Plan>,
}

fn plan(epoch: u64, bo: u128, taken: TakenOver) -> Plan {
    let terms = r#"{"cap_ppm":1000000,"first_epoch":0,"format":"omnigate-policy/1","id":"default","last_epoch":null,
        "min_payout":"250","pool":"1000","residual":{"rule":"keep"},"ruleset":3,"version":1,
        "weights_ppm":{"provided.bytes":1000000}}"#;
    let policy = SignedPolicy::unsigned(Policy::read(terms.as_bytes()).unwrap()).signed_by(&key(AUTHORITY));
    let row = |name: &str, units| ((name.to_owned(), "provided.bytes".to_owned()), units);
    let counted = vec![Counted::by(NODE, epoch, [row("=ada", 1000 - bo), row("bo", bo)].into())];
    Plan { policy, epoch, counted, attesters: vec![NODE], taken }
}

/// What the epoch after a run takes over from it.
fn after(run: &Run) -> TakenOver {
    let carried = run.carried_out().cloned().unwrap_or_default();
    TakenOver { previous: Some(run.manifest().name()), carried, ..TakenOver::default() }
}

fn correction() -> SignedCorrection {
    let corrected = plan(5, 100, TakenOver::default()).run().manifest().name();
    let correction = Correction {
        policy: PolicyId::new("default").unwrap(),
        corrects: corrected,
        credits: vec![(ActorId::new("bo").unwrap(), Amount::from(7_u64))],
        debits: Vec::new(),
        reason: "a row was lost".to_owned(),
    };
    SignedCorrection::unsigned(correction).signed_by(&key(AUTHORITY))
}

impl Fixture {
    fn new() -> Self {
        let first = plan(5, 100, TakenOver::default());
        let second = plan(6, 120, after(&first.run()));
        let corrected = TakenOver { corrections: vec![correction()], ..after(&second.run()) };
        let fixture =
            Self { dir: TempDir::new().unwrap(), plans: vec![first, second, plan(7, 130, corrected)] };
        fixture.plans.iter().for_each(|plan| fixture.put(plan));
        fs::write(fixture.path("nodes"), format!("{}\n", node_id(NODE))).unwrap();
        fs::write(fixture.path("policy.key"), &*rewards::ed25519::SecretKey::text(&[AUTHORITY; 32])).unwrap();
        fs::write(fixture.path("bo.key"), &*rewards::ed25519::SecretKey::text(&[77; 32])).unwrap();
        for name in ["policy.key", "bo.key"] {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(fixture.path(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        fixture
    }

    fn put(&self, plan: &Plan) {
        write(&plan.files(), &self.path(&format!("epochs/{}", plan.epoch)));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Ran {
        run(omnigate(self.dir.path(), words))
    }

    fn verify(&self, more: &[&str]) -> Ran {
        let authority = key(AUTHORITY).public_key().to_string();
        let known = ["epoch", "verify", "epochs/7", "--nodes", "nodes", "--policy-key", &authority];
        self.run(&[&known[..], more].concat())
    }

    #[track_caller]
    fn fails(&self, more: &[&str], words: &str) {
        let ran = self.verify(more);
        assert_eq!(ran.code, Some(1), "{}", ran.out);
        assert!(ran.err.contains(words) || ran.out.contains(words), "{}{}", ran.out, ran.err);
    }
}

#[test]
fn the_chain_is_followed_to_its_first_run() {
    let fixture = Fixture::new();
    let ran = fixture.verify(&["--chain", "--actor", "bo"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    assert!(
        ran.out.contains("proved      chain        followed over 2 links to the first run"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("sum           1227 + 0 + 0 = 1000 + 220 + 7"), "{}", ran.out);
    assert!(ran.out.contains("carried       220 from before, 0 to the next epoch"), "{}", ran.out);
    let shown = fixture.verify(&["--json", "--chain", "--epochs", "epochs"]).out;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["verified"], &shown["linked"]["previous"]["epoch"]), (&true.into(), &6.into()));
}

#[test]
fn a_link_that_is_missing_or_wrong_is_told() {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.path("epochs/5")).unwrap();
    fixture.fails(&["--chain"], "NOT PROVED  chain        followed over 1 links; b3k:");
    fixture.fails(&[], "epoch 7: not verified: chain\n");
    let alone = fixture.verify(ALONE);
    assert_eq!(alone.code, Some(0), "one epoch by itself is verified without the others: {}", alone.out);
    assert!(alone.out.contains("not proved  chain        it follows b3k:"), "{}", alone.out);
    // Another run of epoch 6 beside it.
    fixture.put(&plan(6, 121, fixture.plans[1].taken.clone()));
    for flags in [&[][..], &["--chain"], ALONE] {
        fixture.fails(flags, "the chain is wrong at epoch 7: it follows b3k:");
    }
    // Epoch 7 takes over more than epoch 6 carried on.
    let fixture = Fixture::new();
    let mut more = fixture.plans[2].clone();
    let bo = ActorId::new("bo").unwrap();
    more.taken.carried = rewards::Carried::new(vec![(bo, Amount::from(240_u64))]).unwrap();
    fixture.put(&more);
    fixture.fails(&[], "epoch 6 carried 220 over, and it takes over 240");
}

/// Nothing vouches for amounts that are taken over but the run that carried them on, verified itself.
#[test]
fn amounts_that_no_verified_run_carried_on_are_not_taken_over() {
    let fixture = Fixture::new();
    let carried =
        rewards::Carried::new(vec![(ActorId::new("mallory").unwrap(), Amount::from(9_000_000_u64))]);
    let carried = carried.unwrap();
    // No such run is there.
    let mut third = fixture.plans[2].clone();
    let invented = RunName { epoch: Epoch::new(4).unwrap(), commitment: rewards::Digest::new([7; 32]) };
    third.taken = TakenOver { previous: Some(invented), carried: carried.clone(), ..TakenOver::default() };
    fixture.put(&third);
    fixture.fails(&[], "NOT PROVED  chain        followed over 0 links; b3k:0707");
    // There is a run.json of it, and nothing else.
    let mut manifest = fixture.plans[1].run().manifest().clone();
    let linked = manifest.linked.as_mut().unwrap();
    linked.carried_out = carried.file().clone();
    manifest.pool = Amount::from(8_999_780_u64 + 1000);
    let document = manifest.to_bytes();
    fs::remove_dir_all(fixture.path("epochs/6")).unwrap();
    fs::create_dir(fixture.path("epochs/6")).unwrap();
    fs::write(fixture.path("epochs/6/run.json"), &document).unwrap();
    third.taken.previous = Some(rewards::Manifest::read(&document).unwrap().name());
    fixture.put(&third);
    for flags in [&[][..], &["--chain"]] {
        fixture.fails(flags, "error: the chain is wrong at epoch 6: ");
    }
}

#[test]
fn every_earlier_bundle_is_verified_itself() {
    for (file, words) in [
        ("policy.json", "the chain is wrong at epoch 5: policy.json"),
        ("allocations.jsonl", "the chain is wrong at epoch 5: "),
        ("commitment", "the chain is wrong at epoch 5: "),
        ("brought.json", "the chain is wrong at epoch 5: brought.json"),
    ] {
        let fixture = Fixture::new();
        fs::write(fixture.path("epochs/5").join(file), "garbage\n").unwrap();
        fixture.fails(&[], words);
        assert_eq!(fixture.verify(ALONE).code, Some(0), "{file}");
    }
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.path("epochs/5/snapshots")).unwrap();
    fixture
        .fails(&[], "NOT PROVED  chain        followed over 2 links; seals of epoch 5 is not proved: 0 of 1");
    let ran = fixture.verify(&["--require", "policy,commitment,chain"]);
    assert_eq!(
        ran.code,
        Some(0),
        "what is not required of this run is not of others: {}{}",
        ran.out,
        ran.err
    );
    let fixture = Fixture::new();
    let notice = r#"{"detail":"counted twice","epoch":6,"format":"omnigate-quarantine/1","intents":0,"reason":"held"}"#;
    fs::write(fixture.path("epochs/6/quarantine.json"), notice).unwrap();
    fixture.fails(&[], "the chain is wrong at epoch 6: epoch 6 is quarantined, nothing of it was paid: held");
    assert_eq!(fixture.verify(ALONE).code, Some(0));
    // A trusted key's policy and a stranger's snapshot.
    let mut first = fixture.plans[0].clone();
    let rows = first.counted[0].rows.clone();
    first.counted = vec![Counted::by(201, 5, rows)];
    let second = plan(6, 120, after(&first.run()));
    let third = plan(7, 130, after(&second.run()));
    [&first, &second, &third].into_iter().for_each(|plan| fixture.put(plan));
    fixture.fails(&[], "the chain is wrong at epoch 5: snapshots of ");
}

#[test]
fn two_runs_do_not_have_one_place_in_the_chain() {
    // Epoch 7 follows epoch 5 as epoch 6 does, and takes over what that one took.
    let fixture = Fixture::new();
    fixture.put(&plan(7, 130, after(&fixture.plans[0].run())));
    for flags in [&[][..], &["--chain"], ALONE] {
        fixture.fails(flags, "the chain is wrong at epoch 7: b3k:");
        fixture.fails(flags, "of epoch 6 follows epoch 5 as well");
    }
    // Epoch 7 says that nothing was before it.
    let fixture = Fixture::new();
    fixture.put(&plan(7, 130, TakenOver::default()));
    fixture.fails(&[], "the chain is wrong at epoch 7: it follows no run, and nor does b3k:");
    // The chain of another policy beside it is no other run of this one.
    let fixture = Fixture::new();
    let mut other = plan(3, 100, TakenOver::default());
    let terms = String::from_utf8(other.policy.to_bytes()).unwrap();
    let terms = &serde_json::from_str::<Value>(&terms).unwrap()["policy"];
    let terms = terms.to_string().replace("\"default\"", "\"another\"");
    other.policy = SignedPolicy::unsigned(Policy::read(terms.as_bytes()).unwrap()).signed_by(&key(AUTHORITY));
    fixture.put(&other);
    let ran = fixture.verify(&[]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
}

#[test]
fn the_run_before_is_of_the_epoch_that_is_named() {
    for (number, folder) in [(3, "epochs/3"), (99, "epochs/99")] {
        let fixture = Fixture::new();
        fs::rename(fixture.path("epochs/6"), fixture.path(folder)).unwrap();
        let mut third = fixture.plans[2].clone();
        let commitment = fixture.plans[1].run().commitment();
        third.taken.previous = Some(RunName { epoch: Epoch::new(number).unwrap(), commitment });
        fixture.put(&third);
        for flags in [&[][..], ALONE] {
            let words =
                format!("the chain is wrong at epoch 7: the run that it calls epoch {number} is of 6");
            fixture.fails(flags, &words);
        }
    }
}

#[test]
fn the_registry_of_payees_does_not_go_back() {
    let registry = |version: u64, payee: &str| {
        let entry = PayeeEntry {
            actor: ActorId::new("bo").unwrap(),
            payee: ActorId::new(payee).unwrap(),
            first_epoch: Epoch::new(0).unwrap(),
            last_epoch: None,
            consent: None,
        };
        let id = PolicyId::new("default").unwrap();
        let payees = Payees::new(id, Int::new(version).unwrap(), vec![entry]).unwrap();
        Some(SignedPayees::unsigned(payees).signed_by(&key(AUTHORITY)))
    };
    let verified = |later: Option<SignedPayees>| {
        let fixture = Fixture::new();
        let first = plan(5, 100, TakenOver { payees: registry(2, "bos-bank"), ..TakenOver::default() });
        let second = plan(7, 130, TakenOver { payees: later, ..after(&first.run()) });
        fs::remove_dir_all(fixture.path("epochs/6")).unwrap();
        [&first, &second].into_iter().for_each(|plan| fixture.put(plan));
        fixture
    };
    for later in [registry(2, "bos-bank"), registry(3, "another")] {
        let ran = verified(later).verify(&[]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    }
    for (later, words) in [
        (registry(1, "old-bank"), "its registry of payees is version 1, after version 2"),
        (registry(2, "old-bank"), "its registry of payees is not the one that was version 2 before"),
        (None, "it has no registry of payees, and the run before has one"),
    ] {
        verified(later).fails(&[], words);
    }
}

#[test]
fn a_correction_takes_effect_once_and_corrects_the_run_that_it_names() {
    let fixture = Fixture::new();
    let mut second = fixture.plans[1].clone();
    second.taken.corrections = vec![correction()];
    let mut third = fixture.plans[2].clone();
    third.taken = TakenOver { corrections: vec![correction()], ..after(&second.run()) };
    fixture.put(&second);
    fixture.put(&third);
    fixture.fails(&["--chain"], "takes effect in a later run as well");
    let fixture = Fixture::new();
    fixture.put(&plan(5, 101, TakenOver::default()));
    fixture.fails(&["--chain"], "a correction names b3k:");
}

#[test]
fn orders_and_disputes_in_a_bundle_are_checked_and_shown() {
    let fixture = Fixture::new();
    let run = fixture.plans[2].run().manifest().name();
    let order = |epoch, action, signer| {
        let order =
            Order { epoch: Epoch::new(epoch).unwrap(), action, reason: "its disk lost rows".to_owned() };
        let signed = SignedOrder::unsigned(order).signed_by(&key(signer)).to_bytes();
        fs::write(fixture.path("epochs/7/orders.jsonl"), [signed, b"\n".to_vec()].concat()).unwrap();
    };
    order(7, Action::Release, AUTHORITY);
    let dispute = Dispute::of(run, ActorId::new("bo").unwrap(), "too little", &key(NODE)).unwrap();
    fs::create_dir(fixture.path("epochs/7/disputes")).unwrap();
    let file = fixture.path(&format!("epochs/7/{}", rewards::bundle::dispute_file(dispute.hash())));
    fs::write(&file, dispute.to_bytes()).unwrap();
    let ran = fixture.verify(&[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    assert!(ran.out.contains("order         released: its disk lost rows"), "{}", ran.out);
    assert!(ran.out.contains("disputed      the line of bo: too little"), "{}", ran.out);
    order(7, Action::Release, 77);
    fixture.fails(&[], "not signed by a trusted key");
    order(6, Action::Release, AUTHORITY);
    fixture.fails(&[], "an order is about epoch 6");
    order(7, Action::Exclude(ActorId::new(&node_id(NODE).to_string()).unwrap()), AUTHORITY);
    fixture.fails(&[], "counts, and an order excludes it");
    fs::remove_file(fixture.path("epochs/7/orders.jsonl")).unwrap();
    fs::write(&file, Dispute { actor: ActorId::new("=ada").unwrap(), ..dispute }.to_bytes()).unwrap();
    fixture.fails(&[], "no signed objection to this run");
}

#[test]
fn a_statement_lists_what_was_earned_carried_and_paid() {
    let fixture = Fixture::new();
    let statement = |actor: &str, more: &[&str]| {
        let ran = fixture.run(&[&["epoch", "statement", "epochs", actor][..], more].concat());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
        ran.out
    };
    let text = statement("bo", &[]);
    assert!(text.contains("3 epochs, 357 due in all, 0 carried over to the next"), "{text}");
    let csv = statement("bo", &["--format", "csv"]);
    let rows: Vec<_> = csv.lines().collect();
    assert_eq!(rows.len(), 4);
    assert!(rows[1].starts_with("5,100000000,100,0,0,0,100,0,carried,bo,b3k:"), "{csv}");
    assert!(rows[3].starts_with("7,130000000,130,220,7,0,0,357,full,bo,b3k:"), "{csv}");
    let ada = statement("=ada", &["--format", "csv", "--from", "6", "--to", "6"]);
    assert!(ada.lines().count() == 2 && ada.contains(",'=ada,"), "no formula: {ada}");
    let html = statement("bo", &["--format", "html"]);
    assert!(html.starts_with("<!doctype html>") && html.contains("357 due in all"), "{html}");
    assert!(!html.contains("http"), "nothing is loaded from elsewhere");
    let json: Value = serde_json::from_str(&statement("bo", &["--format", "json", "--to", "6"])).unwrap();
    assert_eq!((&json["due"], &json["carried"]), (&"0".into(), &"220".into()));
    assert!(statement("nobody", &[]).contains("0 epochs, 0 due"));
    let lines = fixture.path("epochs/6/allocations.jsonl");
    let altered = fs::read_to_string(&lines).unwrap().replace("\"share\":\"120\"", "\"share\":\"121\"");
    fs::write(lines, altered).unwrap();
    let ran = fixture.run(&["epoch", "statement", "epochs", "bo"]);
    assert_eq!(ran.code, Some(1), "lines that are not the run's are no statement: {}", ran.out);
}

#[test]
fn a_statement_follows_the_chain_and_counts_no_epoch_twice() {
    let fixture = Fixture::new();
    let statement =
        |more: &[&str]| fixture.run(&[&["epoch", "statement", "epochs", "bo"][..], more].concat());
    // Epoch 6 was set aside, and computed after epoch 7.
    let seventh = plan(7, 130, after(&fixture.plans[0].run()));
    let sixth = plan(6, 10, after(&seventh.run()));
    [&seventh, &sixth].into_iter().for_each(|plan| fixture.put(plan));
    let carried = "3 epochs, 0 due in all, 240 carried over to the next\n";
    assert!(statement(&[]).out.ends_with(carried), "{}", statement(&[]).out);
    let from_seven = statement(&["--from", "7"]).out;
    assert!(from_seven.ends_with("1 epochs, 0 due in all, 230 carried over to the next\n"), "{from_seven}");
    // Numbers are written in one way.
    for name in ["epochs/006", "epochs/+6"] {
        write(&sixth.files(), &fixture.path(name));
    }
    assert!(statement(&[]).out.ends_with(carried), "{}", statement(&[]).out);
    // An epoch under the number of another.
    write(&sixth.files(), &fixture.path("epochs/8"));
    let ran = statement(&[]);
    assert!(ran.code == Some(1) && ran.err.contains("run.json: it is the run of epoch 6"), "{}", ran.err);
    fs::remove_dir_all(fixture.path("epochs/8")).unwrap();
    // A registry of payees that the run does not name.
    let payees = Payees::new(PolicyId::new("default").unwrap(), Int::from(1), Vec::new()).unwrap();
    let payees = SignedPayees::unsigned(payees).signed_by(&key(201)).to_bytes();
    fs::write(fixture.path("epochs/6/payees.json"), payees).unwrap();
    let ran = statement(&[]);
    assert!(ran.code == Some(1) && ran.err.contains("is not the registry that the run names"), "{}", ran.err);
}

#[test]
fn documents_are_signed_on_the_command_line() {
    let fixture = Fixture::new();
    let printed = |words: &[&str]| {
        let ran = fixture.run(words);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}: {}", ran.out);
        ran.out
    };
    let order =
        printed(&["epoch", "order", "7", "hold", "--reason", "node b reports twice", "--key", "policy.key"]);
    let order = SignedOrder::read(order.trim_end().as_bytes()).unwrap();
    assert_eq!(order.order().action, Action::Hold);
    let ran = fixture.run(&["epoch", "order", "7", "exclude", "--reason", "x", "--key", "policy.key"]);
    assert_eq!(ran.code, Some(2), "a node is missing: {}", ran.err);
    let dispute =
        printed(&["epoch", "dispute", "epochs/7", "bo", "--reason", "too little", "--key", "bo.key"]);
    assert!(Dispute::read(dispute.trim_end().as_bytes()).unwrap().is_good(&rewards::ed25519::Ed25519));

    let entry = printed(&["epoch", "consent", "--payee", "bos-bank", "--key", "bo.key", "--last-epoch", "9"]);
    assert!(entry.contains(&node_id(77).to_string()), "{entry}");
    let registry = |entry: &str| {
        let text = format!(
            r#"{{"format":"omnigate-payees/1","policy":"default","version":1,"entries":[ {entry} ]}}"#
        );
        fs::write(fixture.path("payees.json"), text).unwrap();
        fixture.run(&["policy", "sign", "payees.json", "--key", "policy.key"])
    };
    let signed = registry(&entry);
    assert_eq!(signed.code, Some(0), "{}", signed.err);
    let keys = [key(AUTHORITY).public_key()];
    let read = SignedPayees::read(signed.out.as_bytes()).unwrap();
    assert!(read.judge(&keys, &rewards::ed25519::Ed25519).is_ok());
    let moved = registry(&entry.replace("bos-bank", "thief"));
    assert!(moved.code == Some(1) && moved.err.contains("has not consented"), "{}", moved.err);

    let delegate = key(AUTHORITY).public_key().to_string();
    let word = printed(&["epoch", "consent", "--payee", "x", "--key", "bo.key", "--delegate", &delegate]);
    fs::write(fixture.path("word.json"), word).unwrap();
    let by_delegate = printed(&[
        "epoch",
        "consent",
        "--payee",
        "bos-bank",
        "--key",
        "policy.key",
        "--delegation",
        "word.json",
        "--actor",
        &node_id(77).to_string(),
    ]);
    assert_eq!(registry(&by_delegate).code, Some(0));

    let unsigned =
        serde_json::from_slice::<Value>(&correction().to_bytes()).unwrap()["correction"].to_string();
    fs::write(fixture.path("correction.json"), unsigned).unwrap();
    let signed = printed(&["policy", "sign", "correction.json", "--key", "policy.key"]);
    assert_eq!(SignedCorrection::read(signed.as_bytes()).unwrap(), correction());
    let ran = fixture.run(&["epoch", "submit", "correction.json"]);
    assert!(ran.code == Some(1) && ran.err.contains("it is no signed order"), "{}", ran.err);
}

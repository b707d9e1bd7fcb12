//! `omnigate epoch claims`: payouts as a tree for a contract, and what is refused.

use std::{fs, path::Path};

use rewards::{Epoch, Int, PayeeEntry, Payees, Policy, PolicyId, SignedPayees, SignedPolicy};
use serde_json::Value;
use tempfile::TempDir;
use types::ActorId;

use crate::{
    bundle::{Counted, Plan, TakenOver, key, write},
    cli_run::{Ran, omnigate, run},
};

const BUNDLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/golden/sealed");

/// A folder with the files of an epoch that pays node-a, node-b and node-c.
fn bundle() -> TempDir {
    let dir = TempDir::new().unwrap();
    for name in ["run.json", "allocations.jsonl"] {
        fs::copy(Path::new(BUNDLE).join(name), dir.path().join(name)).unwrap();
    }
    dir
}

fn claims(dir: &TempDir, words: &str) -> Ran {
    let words = format!("epoch claims . {words}");
    run(omnigate(dir.path(), &words.split_whitespace().collect::<Vec<_>>()))
}

fn address(digit: char) -> String {
    format!("0x{}", digit.to_string().repeat(40))
}

#[test]
fn payouts_to_one_address_are_added_up_and_proven() {
    let dir = bundle();
    let (one, two) = (address('1'), address('2'));
    fs::write(dir.path().join("book"), format!("node-a,{one}\nnode-b,{two}\nnode-c,{two}\n")).unwrap();

    let written = claims(&dir, "--addresses book --output tree.json");
    assert_eq!(written.code, Some(0), "{}", written.err);
    let tree: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("tree.json")).unwrap()).unwrap();
    let root = tree["tree"][0].as_str().unwrap();
    assert_eq!(
        written.out,
        format!("epoch     7\nroot      {root}\nclaims    2\nclaimable 648490 minor units\n")
    );
    assert_eq!(tree["format"], "standard-v1");
    let values: Vec<_> = tree["values"].as_array().unwrap().iter().map(|value| &value["value"]).collect();
    assert_eq!(
        values,
        [&Value::from(vec![one.as_str(), "400001"]), &Value::from(vec![two.as_str(), "248489"])]
    );

    let proof = claims(&dir, &format!("--addresses book --proof {two}"));
    let proof: Value = serde_json::from_str(&proof.out).unwrap();
    assert_eq!((&proof["amount"], &proof["root"]), (&Value::from("248489"), &Value::from(root)));
    assert_eq!(proof["proof"].as_array().unwrap().len(), 1);
}

#[test]
fn who_has_no_address_is_named_and_left_out_only_if_that_is_asked_for() {
    let dir = bundle();
    fs::write(dir.path().join("book"), format!("node-a,{}\n", address('1'))).unwrap();
    let refused = claims(&dir, "--addresses book");
    assert_eq!(refused.code, Some(1));
    let said =
        "2 of those who are paid have no address, 248489 minor units in all, to be paid to node-b, node-c;";
    assert!(refused.err.contains(said), "{}", refused.err);
    assert_eq!(refused.out, "");

    let left_out = claims(&dir, "--addresses book --allow-unbound --output tree.json");
    assert_eq!(left_out.code, Some(0), "{}", left_out.err);
    let said =
        "claims    1\nclaimable 400001 minor units\nleft out  248489 minor units of 2 without an address\n";
    assert!(left_out.out.ends_with(said), "{}", left_out.out);

    let nobody = claims(&dir, "--allow-unbound");
    assert!(nobody.err.contains("there is nothing to claim"), "{}", nobody.err);
    assert_eq!(nobody.code, Some(1));
}

#[test]
fn lines_of_another_run_and_mistyped_addresses_are_refused() {
    let dir = bundle();
    fs::write(dir.path().join("book"), "node-a,0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD\n").unwrap();
    let mistyped = claims(&dir, "--addresses book");
    assert_eq!(mistyped.code, Some(1));
    assert!(mistyped.err.contains("book: line 1: the checksum of the address is wrong"), "{}", mistyped.err);

    fs::write(dir.path().join("book"), format!("node-a,{}\n", address('1'))).unwrap();
    let path = dir.path().join("allocations.jsonl");
    let lines = fs::read_to_string(&path).unwrap().replacen("\"400001\"", "\"400002\"", 1);
    fs::write(&path, lines).unwrap();
    let other = claims(&dir, "--addresses book --allow-unbound");
    assert_eq!(other.code, Some(1));
    assert!(
        other.err.contains("no claims of epoch 7: the lines are not those that run.json names"),
        "{}",
        other.err
    );
}

/// Epoch 7, in which ada, whose name is an address, earns 700, and zoe earns 300; both have other payees.
fn redirected(payee_of_ada: &str, payee_of_zoe: &str) -> TempDir {
    let terms = r#"{"cap_ppm":1000000,"first_epoch":0,"format":"omnigate-policy/1","id":"default","last_epoch":null,
        "min_payout":"0","pool":"1000","residual":{"rule":"keep"},"ruleset":3,"version":1,
        "weights_ppm":{"provided.bytes":1000000}}"#;
    let policy = SignedPolicy::unsigned(Policy::read(terms.as_bytes()).unwrap()).signed_by(&key(9));
    let row = |name: &str, units| ((name.to_owned(), "provided.bytes".to_owned()), units);
    let counted = vec![Counted::by(1, 7, [row(&address('4'), 700), row("zoe", 300)].into())];
    let entry = |actor: &str, payee: &str| PayeeEntry {
        actor: ActorId::new(actor).unwrap(),
        payee: ActorId::new(payee).unwrap(),
        first_epoch: Epoch::new(7).unwrap(),
        last_epoch: Some(Epoch::new(7).unwrap()),
        consent: None,
    };
    let entries = vec![entry(&address('4'), payee_of_ada), entry("zoe", payee_of_zoe)];
    let payees = Payees::new(PolicyId::new("default").unwrap(), Int::from(1_u32), entries).unwrap();
    let payees = SignedPayees::unsigned(payees).signed_by(&key(9));
    let taken = TakenOver { payees: Some(payees), ..TakenOver::default() };
    let plan = Plan { policy, epoch: 7, counted, attesters: Vec::new(), taken };
    let dir = TempDir::new().unwrap();
    write(&plan.files(), dir.path());
    dir
}

#[test]
fn a_payout_is_claimed_by_the_payee_of_its_actor() {
    let dir = redirected(&address('5'), "account");
    let refused = claims(&dir, "");
    assert!(refused.err.contains("1 of those who are paid have no address, 300"), "{}", refused.err);
    assert!(refused.err.contains("to be paid to account;"), "{}", refused.err);
    // The actors themselves have nothing to claim.
    let book = format!("account,{}\nzoe,{}\n{},{}\n", address('6'), address('7'), address('4'), address('7'));
    fs::write(dir.path().join("book"), book).unwrap();
    let written = claims(&dir, "--addresses book");
    let tree: Value = serde_json::from_str(&written.out).unwrap_or_else(|_| panic!("{}", written.err));
    let mut values: Vec<_> = tree["values"].as_array().unwrap().iter().map(|value| &value["value"]).collect();
    values.sort_by_key(|value| value.to_string());
    let claim = |digit, amount: &str| Value::from(vec![address(digit), amount.to_owned()]);
    assert_eq!(values, [&claim('5', "700"), &claim('6', "300")]);

    let other = redirected(&address('8'), "account");
    fs::copy(other.path().join("payees.json"), dir.path().join("payees.json")).unwrap();
    let refused = claims(&dir, "--allow-unbound");
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("payees.json: it is not the registry that run.json names"),
        "{}",
        refused.err
    );
    fs::remove_file(dir.path().join("payees.json")).unwrap();
    assert_eq!(
        claims(&dir, "--allow-unbound").code,
        Some(1),
        "without the registry nobody knows who is paid"
    );
}

#[test]
fn nothing_of_a_quarantined_epoch_is_claimed() {
    let dir = bundle();
    fs::write(dir.path().join("book"), format!("node-a,{}\n", address('1'))).unwrap();
    assert_eq!(claims(&dir, "--addresses book --allow-unbound").code, Some(0));
    let notice = r#"{"detail":"counted twice","epoch":7,"format":"omnigate-quarantine/1","intents":0,"reason":"held"}"#;
    fs::write(dir.path().join("quarantine.json"), notice).unwrap();
    for more in ["", &format!("--proof {}", address('1')), "--output tree.json"] {
        let refused = claims(&dir, &format!("--addresses book --allow-unbound {more}"));
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{more}");
        let said = "epoch 7 is quarantined, nothing of it was paid: held: counted twice";
        assert!(refused.err.contains(said), "{}", refused.err);
    }
}

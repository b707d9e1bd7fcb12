//! `omnigate epoch claims`: payouts as a tree for a contract, and what is refused.

use std::{fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;

use crate::cli_run::{Ran, omnigate, run};

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
    let said = "2 of those who are paid have no address, 248489 minor units in all: node-b, node-c;";
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

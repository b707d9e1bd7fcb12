//! `omnigate epoch verify --ledger`: whether an epoch's payouts are in a ledger, and what is said if they are not.

use std::{fs, path::Path};

use ron_ledger::{
    AccountId, Asset, Batch, Floor, Key, Ledger, Reference, Scrutiny, SqliteLedger, Step, Terms, Transfer,
};
use tempfile::TempDir;

use crate::{
    bundle::{Plan, node_id, write},
    cli_run::{Ran, omnigate, run},
};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/golden/v1");
const KEY: &str = "ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";

fn account(name: &str) -> AccountId {
    AccountId::new(name).unwrap()
}

/// A ledger with a funded account.
fn funded(path: &Path, pool: &str) -> SqliteLedger {
    let ledger = SqliteLedger::open(path, &Scrutiny::Everything).unwrap();
    let open = |name, floor| {
        Step::Open(Terms { account: account(name), asset: Asset::new("CREDIT").unwrap(), floor })
    };
    let transfer = Transfer { from: account("mint"), to: account(pool), amount: 5_000_000_u64.into() };
    let steps = vec![open("mint", Floor::Unlimited), open(pool, Floor::ZERO), Step::Transfer(transfer)];
    let reference = Reference::new("").unwrap();
    ledger.post(&Batch::new(Key::new("fund").unwrap(), reference, 1, steps).unwrap()).unwrap();
    ledger
}

#[test]
fn payouts_are_looked_for_in_the_ledger_that_is_named() {
    let dir = TempDir::new().unwrap();
    let plan = Plan::resealed(Path::new(GOLDEN), &[1, 2]);
    write(&plan.files(), &dir.path().join("bundle"));
    fs::write(dir.path().join("nodes"), format!("{}\n{}\n", node_id(1), node_id(2))).unwrap();
    let verify = |more: &str| -> Ran {
        let words =
            format!("epoch verify bundle --policy-key {KEY} --nodes nodes --ledger sqlite:ledger.db {more}");
        run(omnigate(dir.path(), &words.split_whitespace().collect::<Vec<_>>()))
    };
    let ran = verify("");
    assert!(ran.code == Some(1) && ran.err.contains("there is no ledger ledger.db"), "{}", ran.err);
    assert!(!dir.path().join("ledger.db").exists(), "looking makes nothing");

    let ledger = funded(&dir.path().join("ledger.db"), "pool/rewards");
    let ran = verify("");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.starts_with("epoch 7: not verified: settled\n"), "{}", ran.out);
    assert!(ran.out.contains("the batch reward/7/0 is not in the ledger"), "{}", ran.out);
    assert_eq!(verify("--require rows").code, Some(0), "what is not required is said and no more");

    for intent in plan.run().batches() {
        ledger.post(&svc_rewarder::payout_batch(&intent, &account("pool/rewards")).unwrap()).unwrap();
    }
    let ran = verify("");
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("  proved      settled      1 batches are in the ledger"), "{}", ran.out);
    let ran = verify("--pool-account pool/others --require none");
    assert!(
        ran.code == Some(1) && ran.err.contains("is not what this run pays from pool/others"),
        "{}",
        ran.err
    );
}

#[test]
fn a_ledger_with_other_payouts_under_the_same_key_is_found() {
    let dir = TempDir::new().unwrap();
    let mut plan = Plan::resealed(Path::new(GOLDEN), &[1, 2]);
    write(&plan.files(), &dir.path().join("bundle"));
    let ledger = funded(&dir.path().join("ledger.db"), "pool/rewards");
    plan.counted[0].rows.values_mut().for_each(|units| *units += 1);
    for intent in plan.run().batches() {
        ledger.post(&svc_rewarder::payout_batch(&intent, &account("pool/rewards")).unwrap()).unwrap();
    }
    let words = "epoch verify bundle --ledger sqlite:ledger.db --require none";
    let ran = run(omnigate(dir.path(), &words.split(' ').collect::<Vec<_>>()));
    assert!(ran.code == Some(1) && ran.err.contains("reward/7/0 in the ledger is not what"), "{}", ran.err);
}

#[test]
fn another_run_that_follows_the_same_run_is_found() {
    let dir = TempDir::new().unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/golden/v3");
    let manifest = rewards::Manifest::read(&fs::read(Path::new(golden).join("run.json")).unwrap()).unwrap();
    let previous = manifest.linked.as_ref().unwrap().brought.previous.unwrap().commitment.to_string();
    let key = rewards::chain_key(manifest.policy_id.as_str(), Some(&previous));
    for (run_key, expected) in [(manifest.run_key.to_string(), false), ("b3k:another".to_owned(), true)] {
        let ledger = funded(&dir.path().join("ledger.db"), "pool/rewards");
        let terms = Terms {
            account: account("pool/rewards"),
            asset: Asset::new("CREDIT").unwrap(),
            floor: Floor::ZERO,
        };
        let (key, reference) = (Key::new(&key).unwrap(), Reference::new(&run_key).unwrap());
        ledger.post(&Batch::new(key, reference, 1, vec![Step::Open(terms)]).unwrap()).unwrap();
        drop(ledger);
        let words = ["epoch", "verify", golden, "--ledger", "sqlite:ledger.db", "--require", "none"];
        let ran = run(omnigate(dir.path(), &words));
        let found =
            ran.err.contains("the ledger has b3k:another as the run that follows the run before this one");
        assert_eq!((found, ran.code == Some(1)), (expected, expected), "{}{}", ran.out, ran.err);
        fs::remove_file(dir.path().join("ledger.db")).unwrap();
    }
}

#[test]
fn a_payout_that_is_parked_is_settled_and_named() {
    let dir = TempDir::new().unwrap();
    let plan = Plan::resealed(Path::new(GOLDEN), &[1, 2]);
    let folder = dir.path().join("bundle");
    write(&plan.files(), &folder);
    let ledger = funded(&dir.path().join("ledger.db"), "pool/rewards");
    for intent in plan.run().batches() {
        let step = |transfer: &rewards::Transfer| {
            let kind = if transfer.to.as_str() == "node-b" { "parked" } else { "actor" };
            let to = account(&format!("{kind}/{}", transfer.to));
            let amount = ron_ledger::Amount::try_from(transfer.amount.minor()).unwrap();
            Step::Transfer(Transfer { from: account("pool/rewards"), to, amount })
        };
        let steps = intent.transfers.iter().map(step).collect();
        let (key, run) = (Key::new(&intent.key()), Reference::new(&intent.run_key.to_string()));
        ledger.post(&Batch::opening_receivers(key.unwrap(), run.unwrap(), 1, steps).unwrap()).unwrap();
    }
    let verify = || {
        let words = "epoch verify bundle --ledger sqlite:ledger.db --require settled";
        run(omnigate(dir.path(), &words.split(' ').collect::<Vec<_>>()))
    };
    let parked = |amount: &str| {
        format!(
            r#"{{"epoch":7,"format":"omnigate-parked/1","payouts":[{{"account":"parked/node-b","actor":"node-b","amount":"{amount}","detail":"it counts GOLD","reason":"asset_mismatch"}}]}}"#
        )
    };
    fs::write(folder.join("parked.json"), parked("124245")).unwrap();
    let ran = verify();
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    for words in [
        "1 batches are in the ledger as they have to be; parked, because their accounts could not take it: node-b\n",
        "  parked        124245 of node-b in parked/node-b: it counts GOLD\n",
    ] {
        assert!(ran.out.contains(words), "{}", ran.out);
    }
    fs::write(folder.join("parked.json"), parked("124246")).unwrap();
    let ran = verify();
    assert!(ran.code == Some(1) && ran.err.contains("the run does not pay 124246 to node-b"), "{}", ran.err);
}

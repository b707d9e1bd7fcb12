//! Versions of a policy and the keys that sign them, while both change.

use rewards::{Policy, Sign, SignedPolicy};
use ron_accounting::SigningKey;

use crate::{
    stage::Stage,
    support::{Wish, eventually},
};

/// A version of the policy that pays so much from an epoch on.
fn terms(version: u64, pool: u64, first_epoch: u64) -> SignedPolicy {
    let terms = format!(
        r#"{{"cap_ppm":1000000,"first_epoch":{first_epoch},"format":"omnigate-policy/1","id":"default","last_epoch":null,
        "min_payout":"0","pool":"{pool}","residual":{{"rule":"keep"}},"ruleset":3,"version":{version},
        "weights_ppm":{{"provided.bytes":1000000}}}}"#
    );
    SignedPolicy::unsigned(Policy::read(terms.as_bytes()).unwrap())
}

fn put(stage: &Stage, policy: &SignedPolicy) -> u16 {
    stage.running.ask("PUT", "/rewarder/policy/default", &[], &policy.to_bytes()).status
}

/// The same rewarder with another list of keys that sign policies, and without putting a policy.
fn restarted(stage: Stage, keys: Vec<String>) -> Stage {
    let ledger = std::sync::Arc::clone(&stage.running.ledger);
    let (dir, nodes) = stage.stop();
    let wish = Wish { ledger, pool: 0, ..Wish::default() };
    Stage::trusting((dir, nodes), wish, keys)
}

#[test]
fn a_version_by_a_key_that_was_withdrawn_stands_in_nobodys_way() {
    let stage = Stage::new(1_000_000, 0);
    let (owner, thief) = (stage.running.signer.public_key().to_string(), SigningKey::generate().unwrap());
    let stage = restarted(stage, vec![owner.clone(), thief.public_key().to_string()]);
    assert_eq!(put(&stage, &terms((1 << 53) - 1, 999_999, 0).signed_by(&thief)), 200);
    let stage = restarted(stage, vec![owner]);
    stage.give(5, 0, &[("alice", 1)]);
    stage.compute(5, "settled");
    assert_eq!(stage.paid()[0], 1000, "by the version before");
    let second = terms(2, 700, 0).signed_by(&stage.running.signer);
    assert_eq!(put(&stage, &second), 200);
    assert_eq!(stage.running.get("/rewarder/policy/default").body, second.to_bytes());
    stage.give(6, 0, &[("alice", 1)]);
    stage.compute(6, "settled");
    assert_eq!(stage.paid()[0], 1700);
}

#[test]
fn keys_are_changed_by_signing_the_same_version_with_both() {
    let stage = Stage::new(1_000_000, 0);
    let (old, new) = (stage.running.signer.public_key().to_string(), SigningKey::generate().unwrap());
    let stage = restarted(stage, vec![old.clone(), new.public_key().to_string()]);
    let both = terms(1, 1000, 0).signed_by(&stage.running.signer).signed_by(&new);
    assert_eq!(put(&stage, &both), 200);
    assert_eq!(put(&stage, &terms(1, 1000, 0).signed_by(&stage.running.signer)), 200, "no signature is lost");
    let stage = restarted(stage, vec![new.public_key().to_string()]);
    stage.give(5, 0, &[("alice", 1)]);
    stage.compute(5, "settled");
    assert_eq!(stage.paid()[0], 1000);
}

#[test]
fn a_version_that_begins_later_leaves_the_epochs_before_to_the_version_before() {
    let stage = Stage::new(1_000_000, 0);
    assert_eq!(put(&stage, &terms(2, 700, 6).signed_by(&stage.running.signer)), 200);
    for (epoch, paid) in [(5, 1000), (6, 1700)] {
        stage.give(epoch, 0, &[("alice", 1)]);
        stage.compute(epoch, "settled");
        eventually("it is paid", || stage.paid()[0] == paid);
    }
}

//! One node's absurd rows: its snapshot is left out with a signed reason, and everybody else is paid.

use rewards::{ExclusionNotice, MAX_SNAPSHOT_POINTS};
use ron_accounting::{Ed25519, SigningKey, Used, rows_of, seal_rows};
use types::ActorId;

use crate::support::{Running, Wish, eventually};

fn used(actor: &str, metric: &str, units: u128) -> Used {
    Used { actor: ActorId::new(actor).unwrap(), metric: metric.to_owned(), units }
}

/// Has the rewarder take in a node's snapshot of epoch 5.
fn give(running: &Running, key: &SigningKey, rows: &[Used]) {
    let (file, root) = rows_of(rows).unwrap();
    let document = seal_rows(key, 5, rows.len(), root).unwrap().to_bytes();
    let accepting = running.rewarder.accept_snapshot(document, file);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(accepting).unwrap());
}

/// A rewarder that counts two nodes, and what they have given before the epoch was closed.
fn with_two(honest: &[Used], absurd: &[Used]) -> (Running, [SigningKey; 2]) {
    let keys = [0, 1].map(|_| SigningKey::generate().unwrap());
    let listed = keys.iter().map(|key| key.node().to_string()).collect();
    let running = Running::with(Wish::default(), |config| {
        config.accounting_nodes = listed;
        config.automatic = false;
    });
    give(&running, &keys[0], honest);
    give(&running, &keys[1], absurd);
    assert_eq!(running.ask("POST", "/rewarder/epochs/5/compute", &[], b"").status, 202);
    (running, keys)
}

#[test]
fn a_node_with_absurd_units_is_left_out_and_everybody_else_is_paid() {
    let honest = [used("alice", "provided.bytes", 7)];
    let (running, keys) = with_two(&honest, &[used("mallory", "provided.bytes", u128::MAX)]);
    running.wait_for(Some(5), "settled");
    assert_eq!((running.balance("actor/alice"), running.balance("actor/mallory")), (1000, 0));
    let file = |name: &str| running.get(&format!("/rewarder/epochs/5/files/{name}"));
    let notice = ExclusionNotice::read(&file("excluded.json").body).unwrap();
    assert!(notice.is_good(&Ed25519), "it is signed");
    assert_eq!(types::NodeId::of_key(notice.key.as_bytes()), running.rewarder.node());
    let said: Vec<_> =
        notice.excluded.iter().map(|one| (one.snapshot.node.to_string(), one.reason.as_str())).collect();
    assert_eq!(said, [(keys[1].node().to_string(), "overflow")]);
    let list = rewards::InputSet::read_list(&file("inputs.json").body).unwrap();
    assert_eq!(list.len(), 1, "what counts is what the run was computed from");
    let epoch = running.get("/rewarder/epochs/5").json();
    let counts = |key: &SigningKey| {
        let mut snapshots = epoch["snapshots"].as_array().unwrap().iter();
        snapshots.find(|one| one["node"] == key.node().to_string()).unwrap()["counts"].clone()
    };
    assert_eq!((counts(&keys[0]), counts(&keys[1])), (true.into(), false.into()));
    eventually("readiness tells", || running.standing().contains("excluded: epoch 5: 1 snapshots"));
}

/// Sums of others overflow with it, and its own do not: the limit on one snapshot says whose fault that is.
#[test]
fn a_node_that_makes_the_sums_of_others_overflow_is_left_out() {
    let honest = [used("alice", "provided.bytes", MAX_SNAPSHOT_POINTS / 1_000_000)];
    let most = u128::MAX / 1_000_000 - 1;
    let (running, _) = with_two(&honest, &[used("mallory", "provided.bytes", most)]);
    running.wait_for(Some(5), "settled");
    assert_eq!((running.balance("actor/alice"), running.balance("actor/mallory")), (1000, 0));
}

#[test]
fn metrics_that_nobody_pays_for_count_nothing_however_many_there_are() {
    let honest = [used("alice", "provided.bytes", 750)];
    let many: Vec<_> = (0..200).map(|at| used("bob", &format!("made.up.{at:03}"), u128::MAX)).collect();
    let many = [many, vec![used("bob", "provided.bytes", 250)]].concat();
    let (running, _) = with_two(&honest, &many);
    running.wait_for(Some(5), "settled");
    assert_eq!((running.balance("actor/alice"), running.balance("actor/bob")), (750, 250));
    assert_eq!(running.get("/rewarder/epochs/5/files/excluded.json").status, 404, "nobody is left out");
}

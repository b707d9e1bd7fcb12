//! Rewarders that share a store: they race for the same epochs, one of them dies now and then, and everybody is paid once.

use svc_rewarder::CRASH_POINTS;

use super::{
    ground::{Ground, Place, omnigate, patiently},
    server::Database,
};
use crate::support::get;

#[test]
fn two_rewarders_on_one_store_pay_once_while_one_keeps_dying() {
    let mut ground = Ground::new(Place::Postgres(Database::new()), 2);
    let steady = ground.start(0, None);
    // It has no usage of its own to seal. Every other point, unless all are asked for.
    let step = if std::env::var_os("OMNIGATE_FULL_PROOFS").is_some() { 1 } else { 2 };
    let points = CRASH_POINTS.iter().filter(|point| !point.starts_with("seal.")).step_by(step);
    for (number, point) in points.enumerate() {
        ground.book_epoch();
        let mut dying = ground.start(1, Some(point));
        // The other may be quicker at some points; then it is killed where it stands.
        patiently("it dies, or all is paid without it", || {
            (dying.is_dead() || ground.settled() == number + 1).then_some(())
        });
    }
    let both = ground.start(1, None);
    patiently("every epoch is settled", || (ground.settled() == ground.epochs.len()).then_some(()));
    drop((steady, both));
    ground.check();
}

#[test]
fn a_replica_serves_the_bundle_of_an_epoch_that_the_other_has_computed() {
    let mut ground = Ground::new(Place::Postgres(Database::new()), 2);
    ground.book_epoch();
    let first = ground.start(0, None);
    patiently("the epoch is settled", || (ground.settled() == 1).then_some(()));
    drop(first);
    let folder = |node: usize| ground.path().join(format!("node-{node}/rewards/1000"));
    assert!(!folder(1).exists(), "the other has not computed it");
    let _second = ground.start(1, None);
    let epoch = patiently("the replica tells of the epoch", || {
        get(ground.addr(1), "/rewarder/epochs/1000").ok().filter(|answer| answer.status == 200)
    });
    assert!(epoch.json()["manifest"].is_object() && !epoch.json()["files"][0].is_null(), "{}", epoch.body);
    for name in ["run.json", "allocations.jsonl", "commitment", "policy.json"] {
        let path = format!("/rewarder/epochs/1000/files/{name}");
        let answer = patiently("the replica answers", || {
            get(ground.addr(1), &path).ok().filter(|answer| answer.status == 200)
        });
        assert_eq!(answer.body.as_bytes(), std::fs::read(folder(0).join(name)).unwrap(), "{name}");
    }
    let files = |node| {
        omnigate(&["epoch", "rerun", folder(node).to_str().unwrap(), "--into", folder(9).to_str().unwrap()])
    };
    assert!(String::from_utf8_lossy(&files(1).stdout).len() < 1 << 20, "the folder is a whole bundle");
    let unknown = get(ground.addr(1), "/rewarder/epochs/1000/files/nothing.json").unwrap();
    assert_eq!(unknown.status, 404);
}

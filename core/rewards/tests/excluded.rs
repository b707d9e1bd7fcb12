//! Snapshots that are judged by themselves, and the notice of those that are left out.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use rewards::{
    Excluded, ExclusionNotice, InputSet, Limits, MAX_SNAPSHOT_POINTS, Quarantine, Ruleset, compute,
    judge_snapshot,
};
use support::{Rows, Seal, actor, each, epoch, inputs, policy, rows, served, snapshot};

/// The rows of one node, with what the policy does not pay for left out.
fn alone(list: &Rows) -> InputSet {
    let mut set = InputSet::builder(epoch(7), [actor("node-0")].into(), Limits::default())
        .paid_by(&policy(Ruleset::V1, 1000));
    let mut taken = set.snapshot(snapshot("node-0", list)).unwrap();
    each(list).for_each(|row| taken.row(row).unwrap());
    taken.finish().unwrap();
    set.close().unwrap()
}

#[test]
fn a_snapshot_is_judged_by_its_points_alone() {
    let policy = policy(Ruleset::V1, 1000);
    // A unit counts a million.
    let most = MAX_SNAPSHOT_POINTS / 1_000_000;
    for (units, fits) in [(0, true), (1, true), (most, true), (most + 1, false)] {
        let judged = judge_snapshot(&policy, &alone(&served(&[("ada", units)])));
        assert_eq!(judged.is_ok(), fits, "{units}");
    }
    let split = served(&[("ada", most), ("bo", most)]);
    let refused = judge_snapshot(&policy, &alone(&split)).unwrap_err();
    assert_eq!(refused.code(), "overflow");
    assert!(judge_snapshot(&policy, &alone(&served(&[("ada", u128::MAX)]))).is_err());
    // As many as an epoch may have, each at its limit, add up.
    assert!(MAX_SNAPSHOT_POINTS.checked_mul(Limits::default().max_snapshots as u128).is_some());
}

#[test]
fn metrics_that_are_not_paid_for_are_hashed_and_not_added_up() {
    let names: Vec<String> = (0..100).map(|at| format!("made.up.{at:03}")).collect();
    let mut list: Vec<_> = names.iter().map(|name| ("ada", name.as_str(), u128::MAX)).collect();
    list.push(("ada", "served.bytes", 7));
    let list = rows(&list);
    assert_eq!(
        inputs(std::slice::from_ref(&list)).unwrap_err(),
        Quarantine::TooMany("metrics"),
        "unless it is said"
    );
    let set = alone(&list);
    assert_eq!(set.snapshots()[0], snapshot("node-0", &list), "the snapshot has all its rows");
    let run = compute(&policy(Ruleset::V1, 1000), &set).unwrap();
    assert_eq!((run.lines(), run.manifest().score_total), (1, 7_000_000));
}

#[test]
fn a_notice_is_signed_and_read_again() {
    let excluded = Excluded {
        snapshot: snapshot("node-1", &served(&[("ada", 1)])),
        reason: "overflow".to_owned(),
        detail: "the points of one snapshot overflow".to_owned(),
    };
    let notice = ExclusionNotice::of(epoch(7), vec![excluded], &Seal(5));
    let read = ExclusionNotice::read(&notice.to_bytes()).unwrap();
    assert!(read == notice && read.is_good(&Seal(0)));
    let moved = ExclusionNotice { epoch: epoch(8), ..read.clone() };
    assert!(!moved.is_good(&Seal(0)));
    let fewer = ExclusionNotice { excluded: Vec::new(), ..read };
    assert!(!fewer.is_good(&Seal(0)));
}

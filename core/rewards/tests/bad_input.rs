//! Every kind of bad input has one answer: a reason with a code, and nothing to pay.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeSet;

use rewards::{
    Amount, InputSet, InputSetBuilder, Int, Limits, Metric, Policy, PolicyError, PolicyTerms, PublicKey,
    Quarantine, Residual, Row, RowFault, Ruleset, Sign, SignedPolicy, Snapshot, SnapshotSeal, Usage,
    UsageFault, compute,
};
use support::{Seal, actor, each, epoch, inputs, policy, served, snapshot, terms};

fn builder(limits: Limits) -> InputSetBuilder {
    InputSet::builder(epoch(7), [actor("node-0"), actor("node-1")].into(), limits)
}

/// The answer to a snapshot with these lines, whatever it is named.
fn answer_to(lines: &[&str]) -> Quarantine {
    let mut set = builder(Limits::default());
    let mut taken = set.snapshot(snapshot("node-0", &served(&[]))).unwrap();
    let refused = lines.iter().find_map(|line| taken.line(line.as_bytes()).err());
    let refused = refused.or_else(|| taken.finish().err());
    assert_eq!(
        set.close().map(|_| ()).unwrap_err(),
        refused.clone().unwrap(),
        "a set with a bad snapshot never closes"
    );
    refused.unwrap()
}

fn row(actor: &str, metric: &str, units: &str) -> String {
    format!(r#"{{"actor":"{actor}","metric":"{metric}","units":"{units}"}}"#)
}

#[test]
fn each_bad_row_is_named_by_its_place_and_its_fault() {
    let good = row("m", "m", "1");
    let long = "a".repeat(129);
    let cases = [
        (row("l", "m", "1"), RowFault::Unsorted, "rows_unsorted"),
        (row("m", "l", "1"), RowFault::Unsorted, "rows_unsorted"),
        (good.clone(), RowFault::Duplicate, "rows_duplicated"),
        (row("", "m", "1"), RowFault::Actor, "actor_not_canonical"),
        (row("two words", "m", "1"), RowFault::Actor, "actor_not_canonical"),
        (row("é", "m", "1"), RowFault::Actor, "actor_not_canonical"),
        (row(&long, "m", "1"), RowFault::Actor, "actor_not_canonical"),
        (row("n", "M", "1"), RowFault::Metric, "metric_not_canonical"),
        (row("n", "", "1"), RowFault::Metric, "metric_not_canonical"),
        (row("n", "m", "-1"), RowFault::NegativeUnits, "units_negative"),
        (row("n", "m", "340282366920938463463374607431768211456"), RowFault::HugeUnits, "units_huge"),
        (row("n", "m", "1.5"), RowFault::Malformed, "row_malformed"),
        (row("n", "m", "01"), RowFault::Malformed, "row_malformed"),
        (row("n", "m", ""), RowFault::Malformed, "row_malformed"),
        (row("n\\u0041", "m", "1"), RowFault::Malformed, "row_malformed"),
        (row("n\\/", "m", "1"), RowFault::Malformed, "row_malformed"),
        (format!("{} ", row("n", "m", "1")), RowFault::Malformed, "row_malformed"),
        (r#"{"actor":"n","metric":"m","units":1}"#.to_owned(), RowFault::Malformed, "row_malformed"),
        (r#"{"metric":"m","actor":"n","units":"1"}"#.to_owned(), RowFault::Malformed, "row_malformed"),
        (String::new(), RowFault::Malformed, "row_malformed"),
    ];
    for (line, fault, code) in cases {
        let answer = answer_to(&[&good, &line]);
        assert_eq!(answer, Quarantine::Row { node: actor("node-0"), row: 1, fault }, "{line}");
        assert_eq!(answer.code(), code);
    }
}

#[test]
fn the_first_row_is_judged_like_any_other() {
    for (line, fault) in [(row("", "m", "1"), RowFault::Actor), (row("n", "", "1"), RowFault::Metric)] {
        let answer = answer_to(&[&line]);
        assert_eq!(answer, Quarantine::Row { node: actor("node-0"), row: 0, fault }, "{line}");
    }
    let nobody = Row { actor: "", metric: "m", units: 1 };
    assert_eq!(rewards::RowsHasher::new().push(nobody), Err(RowFault::Actor));
}

#[test]
fn rows_and_lines_of_one_actor_may_follow_each_other() {
    let rows = [("a", "l", 1), ("a", "m", 2), ("b\"", "l", 3), ("b\"", "m", 4), ("c", "l", 5)];
    let rows = rows.map(|(actor, metric, units)| Row { actor, metric, units });
    let mut line = Vec::new();
    let mut hasher = rewards::RowsHasher::new();
    rows.iter().for_each(|row| hasher.push(*row).unwrap());
    let named =
        Snapshot { rows: Int::from(5), rows_root: hasher.finish(), ..snapshot("node-0", &served(&[])) };
    for as_lines in 0..32_u32 {
        let mut set = builder(Limits::default());
        let mut taken = set.snapshot(named.clone()).unwrap();
        for (at, row) in rows.iter().enumerate() {
            line.clear();
            rewards::write_row(&mut line, *row);
            let one = line.strip_suffix(b"\n").unwrap();
            if as_lines >> at & 1 == 1 { taken.line(one) } else { taken.row(*row) }.unwrap();
        }
        assert_eq!(taken.finish(), Ok(()), "{as_lines:05b}");
    }
}

#[test]
fn every_truncated_row_is_refused() {
    let whole = row("a\\\"b\\\\", "m", "17");
    let mut room = String::new();
    assert_eq!(
        rewards::read_row(whole.as_bytes(), &mut room),
        Ok(Row { actor: "a\"b\\", metric: "m", units: 17 })
    );
    for end in 0..whole.len() {
        assert!(rewards::read_row(&whole.as_bytes()[..end], &mut room).is_err(), "{end}");
    }
}

#[test]
fn a_snapshot_is_refused_unless_its_rows_are_those_it_is_named_by() {
    assert_eq!(answer_to(&[&row("a", "m", "1")]).code(), "rows_differ");
    let rows = served(&[("a", 1), ("b", 2)]);
    let named = snapshot("node-0", &rows);
    let finish = |snapshot: Snapshot, rows| {
        let mut set = builder(Limits::default());
        let mut taken = set.snapshot(snapshot).unwrap();
        each(rows).for_each(|row| taken.row(row).unwrap());
        taken.finish()
    };
    assert_eq!(finish(named.clone(), &rows), Ok(()));
    let miscounted = Snapshot { rows: Int::from(3), ..named.clone() };
    for (snapshot, rows) in
        [(named.clone(), &served(&[("a", 1)])), (named, &served(&[("a", 1), ("b", 3)])), (miscounted, &rows)]
    {
        assert_eq!(finish(snapshot, rows), Err(Quarantine::RowsDiffer(actor("node-0"))));
    }
}

#[test]
fn a_snapshot_that_was_begun_and_not_finished_spoils_the_set() {
    let mut set = builder(Limits::default());
    set.snapshot(snapshot("node-0", &served(&[("a", 1)])))
        .unwrap()
        .row(Row { actor: "a", metric: "served.bytes", units: 1 })
        .unwrap();
    let unfinished = Quarantine::RowsDiffer(actor("node-0"));
    assert_eq!(set.snapshot(snapshot("node-1", &served(&[]))).map(|_| ()).unwrap_err(), unfinished);
    assert_eq!(builder(Limits::default()).merge(set).unwrap_err(), unfinished);
}

#[test]
fn snapshots_of_strangers_other_epochs_and_second_ones_are_refused() {
    let empty = served(&[]);
    let mut set = builder(Limits::default());
    let refused = |set: &mut InputSetBuilder, snapshot| set.snapshot(snapshot).map(|_| ()).unwrap_err();
    assert_eq!(refused(&mut set, snapshot("stranger", &empty)), Quarantine::UnknownNode(actor("stranger")));
    let mut set = builder(Limits::default());
    let early = Snapshot { epoch: epoch(6), ..snapshot("node-0", &empty) };
    let wrong = Quarantine::WrongEpoch { node: actor("node-0"), epoch: epoch(6) };
    assert_eq!(refused(&mut set, early), wrong);
    let mut set = builder(Limits::default());
    set.snapshot(snapshot("node-0", &empty)).unwrap().finish().unwrap();
    let twice = Quarantine::SnapshotTwice(actor("node-0"));
    assert_eq!(refused(&mut set, snapshot("node-0", &empty)), twice);
    let mut halves = [0, 1].map(|_| builder(Limits::default()));
    for half in &mut halves {
        half.snapshot(snapshot("node-0", &empty)).unwrap().finish().unwrap();
    }
    let [mut left, right] = halves;
    assert_eq!(left.merge(right).unwrap_err(), twice);
    assert_eq!(left.close().map(|_| ()).unwrap_err(), twice);
    let mut later = InputSet::builder(epoch(8), [actor("node-0")].into(), Limits::default());
    later.snapshot(Snapshot { epoch: epoch(8), ..snapshot("node-0", &empty) }).unwrap().finish().unwrap();
    assert_eq!(builder(Limits::default()).merge(later).unwrap_err().code(), "wrong_epoch");
}

#[test]
fn limits_hold_to_the_last_one_allowed() {
    let limits = Limits { max_actors: 2, max_metrics: 1, max_snapshots: 1 };
    let take = |rows: support::Rows| {
        let mut set = builder(limits);
        let mut taken = set.snapshot(snapshot("node-0", &rows)).unwrap();
        each(&rows).try_for_each(|row| taken.row(row))
    };
    assert_eq!(take(served(&[("a", 1), ("b", 1)])), Ok(()));
    assert_eq!(take(served(&[("a", 1), ("b", 1), ("c", 1)])), Err(Quarantine::TooMany("actors")));
    let metrics = support::rows(&[("a", "x", 1), ("a", "y", 1)]);
    assert_eq!(take(metrics), Err(Quarantine::TooMany("metrics")));
    let mut set = builder(limits);
    set.snapshot(snapshot("node-0", &served(&[]))).unwrap().finish().unwrap();
    let second = set.snapshot(snapshot("node-1", &served(&[]))).map(|_| ());
    assert_eq!(second.unwrap_err(), Quarantine::TooMany("snapshots"));
    let mut halves = [0, 1].map(|_| builder(limits));
    for (at, half) in halves.iter_mut().enumerate() {
        half.snapshot(snapshot(&support::node(at), &served(&[]))).unwrap().finish().unwrap();
    }
    let [mut left, right] = halves;
    assert_eq!(left.merge(right).unwrap_err(), Quarantine::TooMany("snapshots"));
    let mut all = builder(limits);
    let mut one = builder(limits);
    one.snapshot(snapshot("node-0", &served(&[]))).unwrap().finish().unwrap();
    assert_eq!(all.merge(one), Ok(()), "as many as allowed");
    assert_eq!(inputs(&[served(&[("a", 1), ("b", 0)])]).unwrap().actors(), 2);
}

#[test]
fn usage_says_what_it_could_not_add() {
    let add = |actor, metric, units| Usage::new(1, 1).add(Row { actor, metric, units });
    assert_eq!(add("a", "m", u128::MAX), Ok(()));
    assert_eq!(add("", "m", 1), Err(UsageFault::Actor));
    assert_eq!(add("a", "M", 1), Err(UsageFault::Metric));
    let mut usage = Usage::new(1, 1);
    usage.add(Row { actor: "a", metric: "m", units: u128::MAX }).unwrap();
    assert_eq!(usage.add(Row { actor: "a", metric: "m", units: 1 }), Err(UsageFault::Overflow));
    assert_eq!(usage.add(Row { actor: "b", metric: "m", units: 1 }), Err(UsageFault::TooManyActors));
    assert_eq!(usage.add(Row { actor: "a", metric: "n", units: 1 }), Err(UsageFault::TooManyMetrics));
    assert_eq!(usage.add_numbered(1, 0, 0), Err(UsageFault::Actor), "numbers are given out, not made up");
    assert_eq!(usage.add_numbered(0, 1, 0), Err(UsageFault::Metric));
    assert_eq!(usage.add_numbered(0, 0, 1), Err(UsageFault::Overflow));
}

#[test]
fn numbers_and_names_add_to_the_same_sums() {
    let mut usage = Usage::new(3, 2);
    let (b, a) = (usage.actor("b").unwrap(), usage.actor("a").unwrap());
    let (y, x) = (usage.metric("y").unwrap(), usage.metric("x").unwrap());
    assert_eq!(
        (usage.actor("b"), usage.metric("y"), usage.actor("")),
        (Ok(b), Ok(y), Err(UsageFault::Actor))
    );
    usage.add_numbered(a, x, 1).unwrap();
    usage.add_numbered(b, y, 2).unwrap();
    usage.add(Row { actor: "a", metric: "x", units: 4 }).unwrap();
    let table = usage.into_table();
    let expected = [Row { actor: "a", metric: "x", units: 5 }, Row { actor: "b", metric: "y", units: 2 }];
    assert!(table.rows().eq(expected) && table.actors() == 2);
}

#[test]
fn terms_that_make_no_sense_are_refused_at_the_very_edge() {
    type Change = fn(&mut PolicyTerms);
    let metric = |name: &str| Metric::new(name).unwrap();
    let cases: &[(Change, bool)] = &[
        (|t| t.pool = Amount::ZERO, false),
        (|t| t.pool = Amount::from(1), true),
        (|t| t.weights_ppm.clear(), false),
        (|t| *t.weights_ppm.values_mut().next().unwrap() = 0, false),
        (|t| *t.weights_ppm.values_mut().next().unwrap() = 1, true),
        (|t| *t.weights_ppm.values_mut().next().unwrap() = Policy::MAX_WEIGHT_PPM, true),
        (|t| *t.weights_ppm.values_mut().next().unwrap() = Policy::MAX_WEIGHT_PPM + 1, false),
        (|t| t.cap_ppm = 0, false),
        (|t| t.cap_ppm = 1, true),
        (|t| t.cap_ppm = 1_000_000, true),
        (|t| t.cap_ppm = 1_000_001, false),
        (|t| (t.cap_ppm, t.min_payout) = (500_000, Amount::from(500_000)), true),
        (|t| (t.cap_ppm, t.min_payout) = (500_000, Amount::from(500_001)), false),
        (|t| (t.first_epoch, t.last_epoch) = (epoch(3), Some(epoch(3))), true),
        (|t| (t.first_epoch, t.last_epoch) = (epoch(3), Some(epoch(2))), false),
    ];
    for (at, (change, fits)) in cases.iter().enumerate() {
        let mut terms = terms(Ruleset::V1, 1_000_000);
        change(&mut terms);
        assert_eq!(Policy::new(terms).is_ok(), *fits, "case {at}");
    }
    let mut used = terms(Ruleset::V1, 1);
    used.weights_ppm = [(metric("used.requests"), 1)].into();
    assert_eq!(Policy::new(used).unwrap_err().code(), "policy_senseless");
    for (count, fits) in [(64, true), (65, false)] {
        let mut many = terms(Ruleset::V1, 1);
        many.weights_ppm = (0..count).map(|at| (metric(&format!("m{at}")), 1)).collect();
        assert_eq!(Policy::new(many).is_ok(), fits);
    }
}

#[test]
fn a_policy_pays_no_epoch_it_does_not_apply_to() {
    let mut terms = terms(Ruleset::V1, 100);
    (terms.first_epoch, terms.last_epoch) = (epoch(7), Some(epoch(7)));
    let now = Policy::new(terms.clone()).unwrap();
    let inputs = inputs(&[served(&[("a", 1)])]).unwrap();
    assert!(compute(&now, &inputs).is_ok());
    for (first, last) in [(8, 9), (5, 6)] {
        (terms.first_epoch, terms.last_epoch) = (epoch(first), Some(epoch(last)));
        let stale = compute(&Policy::new(terms.clone()).unwrap(), &inputs).map(|_| ()).unwrap_err();
        assert_eq!((stale.clone(), stale.code()), (PolicyError::Stale(epoch(7)).into(), "policy_stale"));
    }
}

#[test]
fn only_a_later_version_replaces_a_policy() {
    let version = |number: u32, pool| {
        let mut terms = terms(Ruleset::V1, pool);
        terms.version = Int::from(number);
        Policy::new(terms).unwrap()
    };
    let in_force = version(2, 100);
    assert_eq!(version(2, 100).may_replace(&in_force), Ok(()), "the same one again");
    assert_eq!(version(3, 50).may_replace(&in_force), Ok(()));
    for stale in [version(2, 101), version(1, 100)] {
        let refused = stale.may_replace(&in_force).unwrap_err();
        assert_eq!((&refused, refused.code()), (&PolicyError::Superseded(2), "policy_stale"));
    }
}

#[test]
fn a_policy_counts_when_trusted_keys_signed_it_and_none_of_them_something_else() {
    let (old, new, strange) = (Seal(1), Seal(2), Seal(3));
    let trusted = [old.public_key(), new.public_key()];
    let unsigned = SignedPolicy::unsigned(policy(Ruleset::V1, 100));
    let judge = |signed: &SignedPolicy, trusted: &[PublicKey]| {
        let read = SignedPolicy::read(&signed.to_bytes()).unwrap();
        read.judge(trusted, &Seal(0)).map(|_| ()).map_err(|error| error.code())
    };
    assert_eq!(judge(&unsigned, &trusted), Err("policy_unsigned"));
    let stranger = unsigned.clone().signed_by(&strange);
    assert_eq!(judge(&stranger, &trusted), Err("policy_untrusted"));
    assert_eq!(judge(&stranger, &[]), Err("policy_untrusted"));
    let rotating = stranger.signed_by(&new).signed_by(&old).signed_by(&old);
    assert_eq!(judge(&rotating, &trusted), Ok(()));
    assert_eq!(judge(&rotating, &trusted[1..]), Ok(()), "those who know only the new key");
    assert_eq!(rotating.keys().count(), 3);
    let by = |keys: u8| {
        let signed = (1..=keys).fold(unsigned.clone(), |signed, key| signed.signed_by(&Seal(key)));
        SignedPolicy::read(&signed.to_bytes()).is_ok()
    };
    assert!(by(16) && !by(17), "as many signatures as allowed, and one more");
    let other = SignedPolicy::unsigned(policy(Ruleset::V1, 101)).signed_by(&old);
    let signature_of_other = String::from_utf8(other.to_bytes()).unwrap();
    let good = String::from_utf8(unsigned.signed_by(&old).to_bytes()).unwrap();
    let forged = signature_of_other.replace(r#""pool":"101""#, r#""pool":"100""#);
    assert_ne!(forged, good);
    let read = SignedPolicy::read(forged.as_bytes()).unwrap();
    assert_eq!(read.judge(&trusted, &Seal(0)).unwrap_err(), PolicyError::Forged(old.public_key()));
}

#[test]
fn documents_of_policies_are_refused_unless_they_are_the_one_text_of_known_terms() {
    let good =
        String::from_utf8(SignedPolicy::unsigned(policy(Ruleset::V1, 100)).signed_by(&Seal(1)).to_bytes())
            .unwrap();
    let code = |text: &str| SignedPolicy::read(text.as_bytes()).map(|_| ()).map_err(|error| error.code());
    assert_eq!(code(&good), Ok(()));
    let repeated = good.replacen(
        "\"signatures\":[",
        &format!("\"signatures\":[{},", &good[good.find("[{").unwrap() + 1..good.len() - 2]),
        1,
    );
    let cases = [
        (r#""ruleset":1"#, r#""ruleset":99"#, "policy_unknown_version"),
        ("omnigate-policy/1", "omnigate-policy/2", "policy_unknown_version"),
        ("omnigate-signed-policy/1", "omnigate-signed-policy/9", "policy_unknown_version"),
        (r#""pool":"100""#, r#""pool":"-100""#, "policy_malformed"),
        (r#""pool":"100""#, r#""pool":100"#, "policy_malformed"),
        (r#""pool":"100""#, r#""pool":"170141183460469231731687303715884105728""#, "policy_malformed"),
        (r#""pool":"100""#, r#""pool":"0""#, "policy_senseless"),
        (r#""cap_ppm":1000000"#, r#""cap_ppm":1000000.5"#, "policy_malformed"),
        (r#""cap_ppm":1000000"#, r#""cap_ppm":4294967296"#, "policy_malformed"),
        (r#""cap_ppm":1000000,"#, "", "policy_malformed"),
        (r#""cap_ppm":1000000,"#, r#""cap":1,"cap_ppm":1000000,"#, "policy_malformed"),
        (r#""rule":"keep""#, r#""rule":"burn""#, "policy_malformed"),
        (r#""rule":"keep""#, r#""rule":"pay","to":"a b""#, "policy_malformed"),
        (r#""last_epoch":null"#, r#""last_epoch":"9""#, "policy_malformed"),
        ("served.bytes", "Served.bytes", "policy_malformed"),
        ("{\"format\"", "{ \"format\"", "policy_malformed"),
    ];
    for (from, to, expected) in cases {
        assert!(good.contains(from), "{from}");
        assert_eq!(code(&good.replacen(from, to, 1)), Err(expected), "{to}");
    }
    assert_eq!(code(&repeated), Err("policy_malformed"), "one signature per key");
    for end in 0..good.len() {
        assert!(code(&good[..end]).is_err());
    }
    assert!(Policy::read(b"{}").is_err());
    let mut pays = terms(Ruleset::V2, 5);
    pays.residual = Residual::Pay(actor("treasury"));
    pays.last_epoch = Some(epoch(9));
    let pays = Policy::new(pays).unwrap();
    assert_eq!(Policy::read(&pays.to_bytes()).unwrap(), pays);
}

#[test]
fn a_seal_is_good_for_the_snapshot_it_was_made_for() {
    let sealed = snapshot("node-0", &served(&[("a", 1)])).seal(&Seal(4));
    let read = SnapshotSeal::read(&sealed.to_bytes()).unwrap();
    assert!(read == sealed && read.is_good(&Seal(0)));
    let moved = SnapshotSeal { snapshot: Snapshot { epoch: epoch(8), ..sealed.snapshot.clone() }, ..sealed };
    assert!(!moved.is_good(&Seal(0)));
}

#[test]
fn a_quarantined_epoch_leaves_a_document_that_says_why() {
    let reason = Quarantine::Row { node: actor("node-0"), row: 3, fault: RowFault::Unsorted };
    let said = String::from_utf8(reason.notice(epoch(7)).to_bytes()).unwrap();
    let expected = concat!(
        r#"{"detail":"row 3 of node-0's snapshot: it belongs before the row above it","epoch":7,"#,
        r#""format":"omnigate-quarantine/1","intents":0,"reason":"rows_unsorted"}"#,
    );
    assert_eq!(said, expected);
    let all = [
        Quarantine::UnknownNode(actor("n")),
        Quarantine::SnapshotTwice(actor("n")),
        Quarantine::WrongEpoch { node: actor("n"), epoch: epoch(1) },
        Quarantine::BadSeal(actor("n")),
        Quarantine::RowsDiffer(actor("n")),
        Quarantine::TooMany("actors"),
        Quarantine::Overflow("units"),
        Quarantine::Brought("a correction is there twice"),
        Quarantine::Conservation { pool: Amount::from(3), paid: Amount::from(1), residual: Amount::from(1) },
        reason,
        PolicyError::Unsigned.into(),
    ];
    let codes: BTreeSet<_> = all.iter().map(Quarantine::code).collect();
    assert_eq!(codes.len(), all.len(), "each reason has a code of its own");
    let page = include_str!("../../../docs/rewards-format.md");
    for code in codes {
        assert!(page.contains(&format!("`{code}`")), "{code} is not on the page of formats");
    }
}

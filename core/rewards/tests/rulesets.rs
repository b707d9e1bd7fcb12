//! Every ruleset that was ever shipped comes to the bytes it came to when it was shipped.
//!
//! The epochs are bundles under `tests/oracle/golden`, which the independent checker reads too. A ruleset's files are
//! added with it and never changed.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::sync::Arc;

use rewards::{
    Attestation, Brought, BroughtNames, Carried, Claim, DocumentError, InputSet, Intent, Limits, LineCheck,
    LineError, LineSearch, Manifest, Mismatch, Proof, ProofError, Ruleset, Run, SignedCorrection,
    SignedPayees, SignedPolicy, Snapshot, bundle, verify, verify_after,
};
use support::{Seal, actor};

/// The files of one epoch.
struct Golden {
    policy: &'static [u8],
    inputs: &'static [u8],
    rows: [&'static [u8]; 2],
    run: &'static [u8],
    allocations: &'static [u8],
    commitment: &'static str,
}

macro_rules! golden {
    ($folder:literal) => {
        Golden {
            policy: include_bytes!(concat!("../../../tests/oracle/golden/", $folder, "/policy.json")),
            inputs: include_bytes!(concat!("../../../tests/oracle/golden/", $folder, "/inputs.json")),
            rows: [
                include_bytes!(concat!(
                    "../../../tests/oracle/golden/",
                    $folder,
                    "/snapshots/e032dafeb287ae273c97715153498d3f01e702f6e7eee41acaacf0ab45764592.jsonl"
                )),
                include_bytes!(concat!(
                    "../../../tests/oracle/golden/",
                    $folder,
                    "/snapshots/bb6c9d885ab66e91dd86e8a9f71614799e31746a643b26ce034b1c7f8c4666f9.jsonl"
                )),
            ],
            run: include_bytes!(concat!("../../../tests/oracle/golden/", $folder, "/run.json")),
            allocations: include_bytes!(concat!(
                "../../../tests/oracle/golden/",
                $folder,
                "/allocations.jsonl"
            )),
            commitment: include_str!(concat!("../../../tests/oracle/golden/", $folder, "/commitment")),
        }
    };
}

fn of(ruleset: Ruleset) -> Golden {
    match ruleset {
        Ruleset::V1 => golden!("v1"),
        Ruleset::V2 => golden!("v2"),
        Ruleset::V3 => golden!("v3"),
    }
}

impl Golden {
    fn snapshots(&self) -> Vec<Snapshot> {
        InputSet::read_list(self.inputs).unwrap()
    }

    fn input_set(&self) -> InputSet {
        let snapshots = self.snapshots();
        let nodes = snapshots.iter().map(|snapshot| snapshot.node.clone()).collect();
        let mut set = InputSet::builder(snapshots[0].epoch, nodes, Limits::default());
        for (snapshot, rows) in snapshots.into_iter().zip(self.rows) {
            let mut taken = set.snapshot(snapshot).unwrap();
            lines(rows).for_each(|line| taken.line(line).unwrap());
            taken.finish().unwrap();
        }
        set.close().unwrap()
    }

    /// What the epoch of ruleset 3 takes over; the others take nothing over.
    fn brought(&self) -> Brought {
        if !SignedPolicy::read(self.policy).unwrap().policy().terms().ruleset.is_chained() {
            return Brought::default();
        }
        let correction = SignedCorrection::read(include_bytes!(concat!(
            "../../../tests/oracle/golden/v3/corrections/",
            "07d8c60f6947de41566cf20d3b9232c9f9df7d63dd778357d2de0858f45674a9.json"
        )));
        let payees = SignedPayees::read(include_bytes!("../../../tests/oracle/golden/v3/payees.json"));
        let carried = Carried::read(include_bytes!("../../../tests/oracle/golden/v3/carried.jsonl"));
        let document = include_bytes!("../../../tests/oracle/golden/v3/brought.json");
        let brought = Brought {
            previous: BroughtNames::read(document).unwrap().previous,
            carried: Arc::new(carried.unwrap()),
            corrections: Arc::new(vec![correction.unwrap().correction().clone()]),
            payees: Some(Arc::new(payees.unwrap().payees().clone())),
        };
        assert_eq!(brought.names().to_bytes(), document);
        brought
    }

    fn verified(&self) -> Result<Run, Mismatch> {
        let claim = Claim { manifest: self.run, commitment: self.commitment.trim_end().parse().unwrap() };
        verify_after(
            SignedPolicy::read(self.policy).unwrap().policy(),
            &self.input_set(),
            &self.brought(),
            claim,
        )
    }
}

fn lines(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    file.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n')
}

#[test]
fn each_ruleset_comes_to_the_bytes_it_always_came_to() {
    for ruleset in Ruleset::ALL {
        let golden = of(ruleset);
        let run = golden.verified().unwrap();
        assert_eq!(run.policy().terms().ruleset, ruleset);
        assert_eq!(run.document(), golden.run);
        assert_eq!(run.inputs().list(), golden.inputs);
        let mut file = Vec::new();
        (0..run.lines()).for_each(|line| run.write_line(line, &mut file));
        assert_eq!(file, golden.allocations);
        assert_eq!(Ruleset::from_number(ruleset.number().into()), Some(ruleset));
    }
    assert_eq!(Ruleset::from_number(0).or(Ruleset::from_number(4)), None);
}

#[test]
fn each_ruleset_pays_in_the_batches_it_always_paid_in() {
    let body = |ruleset| {
        let intents: Vec<Intent> = of(ruleset).verified().unwrap().batches().collect();
        assert_eq!((intents.len(), intents[0].key().as_str()), (1, "reward/7/0"));
        assert_eq!(ruleset.batch_size(), 1000);
        String::from_utf8(intents[0].body()).unwrap()
    };
    assert_eq!(
        body(Ruleset::V1),
        concat!(
            r#"{"batch":0,"batches":1,"epoch":7,"format":"omnigate-intent/1","#,
            r#""run_key":"b3k:6b0a8cac25586f6a554a436022f0534e85e5969484631472b9530584cc61905e","transfers":["#,
            r#"{"amount":"400001","to":"node-a"},{"amount":"124245","to":"node-b"},{"amount":"124244","to":"node-c"},"#,
            r#"{"amount":"351513","to":"treasury"}]}"#
        )
    );
    assert!(body(Ruleset::V2).ends_with(r#"{"amount":"11719","to":"treasury"}]}"#));
}

#[test]
fn a_claim_that_differs_anywhere_is_refused_with_the_place() {
    let golden = of(Ruleset::V1);
    let (policy, inputs) = (SignedPolicy::read(golden.policy).unwrap(), golden.input_set());
    let commitment = golden.commitment.trim_end().parse().unwrap();
    let text = str::from_utf8(golden.run).unwrap();
    let refusal = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let manifest = text.replacen(from, to, 1);
        verify(policy.policy(), &inputs, Claim { manifest: manifest.as_bytes(), commitment })
            .map(|_| ())
            .unwrap_err()
    };
    let root = &text[text.find("b3k:").unwrap()..][..68];
    for (from, to, field) in [
        (r#""epoch":7"#, r#""epoch":8"#, "epoch"),
        (r#""version":1"#, r#""version":2"#, "policy"),
        (r#""id":"default""#, r#""id":"other""#, "policy"),
        (r#""ruleset":1"#, r#""ruleset":2"#, "ruleset"),
        (r#""snapshots":2"#, r#""snapshots":3"#, "inputs"),
        (r#""run_key":"b3k:6"#, r#""run_key":"b3k:7"#, "run_key"),
        (r#""score_total":"1"#, r#""score_total":"2"#, "score_total"),
        (r#""batches":1"#, r#""batches":2"#, "batches"),
        (r#""lines":5"#, r#""lines":4"#, "allocations"),
        (root, &root.replace(":e", ":f"), "allocations"),
    ] {
        assert_eq!(refusal(from, to), Mismatch::Field(field), "{to}");
    }
    let unclosed = Mismatch::Unreadable(DocumentError::Wrong("residual"));
    assert_eq!(refusal(r#""paid":"648490""#, r#""paid":"648491""#), unclosed, "sums that do not close");
    let shifted = text.replace("648490", "648491").replace("351513", "351512");
    let claim = Claim { manifest: shifted.as_bytes(), commitment };
    assert_eq!(verify(policy.policy(), &inputs, claim).map(|_| ()).unwrap_err(), Mismatch::Field("paid"));
    let greater = text.replace("1000003", "1000004").replace("351513", "351514");
    let claim = Claim { manifest: greater.as_bytes(), commitment };
    assert_eq!(verify(policy.policy(), &inputs, claim).map(|_| ()).unwrap_err(), Mismatch::Field("pool"));
    let other = of(Ruleset::V2).commitment.trim_end().parse().unwrap();
    let claim = Claim { manifest: golden.run, commitment: other };
    assert_eq!(verify(policy.policy(), &inputs, claim).map(|_| ()).unwrap_err(), Mismatch::Commitment);
    for end in 0..text.len() {
        assert!(Manifest::read(&golden.run[..end]).is_err(), "{end}");
    }
}

#[test]
fn lines_that_differ_are_missing_or_too_many_are_found() {
    let golden = of(Ruleset::V1);
    let run = golden.verified().unwrap();
    let all: Vec<_> = lines(golden.allocations).collect();
    let check = |given: &[&[u8]]| {
        let mut check = LineCheck::new(&run);
        given.iter().try_for_each(|line| check.line(line)).and_then(|()| check.finish())
    };
    assert_eq!(check(&all), Ok(()));
    assert_eq!(check(&all[..4]), Err(Mismatch::Lines { found: 4, expected: 5 }));
    assert_eq!(check(&[&all[..], &all[4..]].concat()), Err(Mismatch::Lines { found: 6, expected: 5 }));
    let richer = String::from_utf8(all[1].to_vec()).unwrap().replace("124245", "124246");
    assert_eq!(check(&[all[0], richer.as_bytes()]), Err(Mismatch::Line(1)));
    assert_eq!(check(&[all[1]]), Err(Mismatch::Line(0)));
}

#[test]
fn every_line_has_a_proof_that_is_the_same_from_the_run_and_from_the_file() {
    for ruleset in Ruleset::ALL {
        let golden = of(ruleset);
        let run = golden.verified().unwrap();
        for allocation in run.allocations() {
            let proof = run.prove(allocation.actor).unwrap();
            assert_eq!(proof.check(run.manifest()), Ok(()));
            assert_eq!(Proof::read(&proof.to_bytes()).unwrap(), proof);
            let mut search = LineSearch::new(allocation.actor);
            lines(golden.allocations).for_each(|line| search.line(line).unwrap());
            assert_eq!(search.finish(run.manifest()).unwrap(), proof);
        }
        assert!(run.prove("acme").is_none() && run.prove("nobody").is_none());
        let mut absent = LineSearch::new("acme");
        lines(golden.allocations).for_each(|line| absent.line(line).unwrap());
        assert_eq!(absent.finish(run.manifest()), Err(LineError::Absent));
        let mut cut = LineSearch::new("node-a");
        lines(golden.allocations).skip(1).for_each(|line| cut.line(line).unwrap());
        assert_eq!(cut.finish(run.manifest()), Err(LineError::OtherRun));
        assert!(LineSearch::new("a").line(b"{}").is_err());
    }
}

#[test]
fn a_proof_is_about_one_line_of_one_run() {
    let run = of(Ruleset::V1).verified().unwrap();
    let other = of(Ruleset::V2).verified().unwrap();
    let proof = run.prove("node-b").unwrap();
    assert_eq!(proof.check(other.manifest()), Err(ProofError::OtherRun));
    let mut richer = proof.clone();
    richer.allocation.payout = rewards::Amount::from(999_999);
    assert_eq!(richer.check(run.manifest()), Err(ProofError::Path));
    let document = proof.to_bytes();
    let text = String::from_utf8(document.clone()).unwrap();
    let path = text.split("\"path\":\"").nth(1).unwrap().split('"').next().unwrap();
    // 31 and 33 bytes, and more hashes than any tree is deep.
    for wrong in [42, 44, 54 * 128 / 3] {
        let replaced = text.replace(path, &"A".repeat(wrong));
        assert_eq!(Proof::read(replaced.as_bytes()), Err(DocumentError::Wrong("path")), "{wrong}");
    }
    for at in 0..document.len() {
        // No flipped bit leaves a proof that holds.
        for bit in 0..8 {
            let mut flipped = document.clone();
            flipped[at] ^= 1 << bit;
            let holds = Proof::read(&flipped).is_ok_and(|proof| proof.check(run.manifest()).is_ok());
            assert!(!holds, "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn an_attestation_is_about_one_run() {
    let run = of(Ruleset::V1).verified().unwrap();
    let attestation = Attestation::of(&run, &Seal(5));
    let read = Attestation::read(&attestation.to_bytes()).unwrap();
    assert!(read == attestation && read.is_good(&Seal(0)));
    let moved = Attestation { commitment: of(Ruleset::V2).verified().unwrap().commitment(), ..read.clone() };
    assert!(!moved.is_good(&Seal(0)));
    let moved = Attestation { epoch: support::epoch(8), ..read };
    assert!(!moved.is_good(&Seal(0)));
}

#[test]
fn a_payout_is_explained_to_the_last_unit() {
    for (ruleset, divided, between) in
        [(Ruleset::V1, 1_000_003, 12_073_002_000_000), (Ruleset::V2, 600_002, 3_072_001_000_000)]
    {
        let run = of(ruleset).verified().unwrap();
        for allocation in run.allocations().filter(|allocation| allocation.actor != "node-a") {
            let explained = run.explain(allocation.actor).unwrap();
            let points: u128 =
                explained.points.iter().map(|part| part.units * u128::from(part.weight_ppm)).sum();
            assert!(
                explained.points.iter().all(|part| part.points == part.units * u128::from(part.weight_ppm))
            );
            assert_eq!((points, explained.allocation), (allocation.score, allocation));
            assert_eq!((explained.divided.minor(), explained.between), (divided, between));
            assert_eq!(explained.whole * between + explained.remainder, divided * allocation.score);
            assert_eq!(explained.whole + u128::from(allocation.extra), allocation.share.minor());
        }
        assert_eq!(run.explain("node-a").unwrap().points.len(), 2);
        assert_eq!(run.explain("acme"), None);
    }
}

#[test]
fn the_list_of_inputs_is_canonical_and_in_order() {
    let golden = of(Ruleset::V1);
    assert_eq!(golden.snapshots()[0].node, actor("node-1"));
    let text = str::from_utf8(golden.inputs).unwrap();
    let swapped = text.replace("node-1", "node-9");
    assert_eq!(InputSet::read_list(swapped.as_bytes()), Err(DocumentError::Wrong("inputs")));
    let twice = text.replace("node-1", "node-2");
    assert_eq!(InputSet::read_list(twice.as_bytes()), Err(DocumentError::Wrong("inputs")));
    assert_eq!(InputSet::read_list(b"{}"), Err(DocumentError::Wrong("inputs")));
}

#[test]
fn files_of_a_bundle_are_named_by_what_they_hold() {
    let snapshot = of(Ruleset::V1).snapshots().remove(0);
    assert_eq!(
        bundle::rows_file(snapshot.rows_root),
        "snapshots/e032dafeb287ae273c97715153498d3f01e702f6e7eee41acaacf0ab45764592.jsonl"
    );
    let key = rewards::PublicKey::new([0xab; 32]);
    let digits = "ab".repeat(32);
    assert_eq!(
        bundle::seal_file(snapshot.rows_root, key),
        format!(
            "snapshots/e032dafeb287ae273c97715153498d3f01e702f6e7eee41acaacf0ab45764592.{digits}.seal.json"
        )
    );
    assert_eq!(bundle::attestation_file(key), format!("attestations/{digits}.json"));
}

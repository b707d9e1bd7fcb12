//! `omnigate epoch` and `omnigate policy`: what a stranger can check with files alone, and what is refused.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    bundle::{Plan, key, node_id, write},
    cli_run::{Ran, omnigate, run},
};
use rewards::Sign;
use serde_json::{Value, json};
use tempfile::TempDir;

const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle");
const KEY: &str = "ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";

/// The nodes whose bundles these are, by the numbers of their keys.
const NODES: [u8; 2] = [1, 2];

/// A folder of its own with the bundle of a ruleset in `v1` or `v2`, and the ids of the nodes in `nodes`.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { dir: TempDir::new().unwrap() };
        for version in ["v1", "v2"] {
            write(&sealed(version).files(), &fixture.path(version));
        }
        let ids: String = NODES.iter().map(|node| format!("{}  # a comment\n", node_id(*node))).collect();
        fs::write(fixture.path("nodes"), format!("# whose word counts\n\n{ids}")).unwrap();
        fixture
    }

    /// Checks a bundle as somebody does who knows whose policy and which nodes count.
    fn verify(&self, words: &str) -> Ran {
        self.run(&format!("epoch verify {words} --policy-key {KEY} --nodes nodes"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the program with these words.
    fn run(&self, words: &str) -> Ran {
        run(omnigate(self.dir.path(), &words.split_whitespace().collect::<Vec<_>>()))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Replaces words in a file.
    fn alter(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "{name} has no {from}");
        fs::write(self.path(name), text.replacen(from, to, 1)).unwrap();
    }

    fn snapshot_file(&self, at: usize) -> String {
        let list: Value = serde_json::from_str(&self.read("v1/inputs.json")).unwrap();
        let root = list[at]["rows_root"].as_str().unwrap();
        format!("v1/snapshots/{}.jsonl", root.strip_prefix("b3k:").unwrap())
    }
}

/// The epoch of a ruleset, with nodes that have keys.
fn sealed(version: &str) -> Plan {
    Plan::resealed(&Path::new(ORACLE).join("golden").join(version), &NODES)
}

/// The name of a file in the first bundle, by what it is.
fn file_of(kind: &str) -> String {
    let files = sealed("v1").files();
    let name = files.keys().find(|name| name.contains(kind)).unwrap();
    format!("v1/{name}")
}

#[track_caller]
fn assert_refused(ran: &Ran, words: &str) {
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains(words), "{words:?} is not in {:?}", ran.err);
}

#[test]
fn a_bundle_is_verified_and_the_sums_are_shown() {
    let fixture = Fixture::new();
    let ran = fixture.verify("v1 --actor node-c --actor node-a");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    for words in [
        "epoch 7: verified\n",
        "  proved      calculation  run.json and 5 lines",
        "  proved      policy       default version 1, ruleset 1, signed by ed25519:3d40",
        "  proved      seals        2 of 2 snapshots are sealed by the nodes that they name, which you trust\n",
        "  proved      rows         10 rows in 2 snapshots, every row added up\n",
        "  proved      commitment   b3k:",
        "  not proved  settled      no ledger was looked into",
        " 648490 + 351513 = 1000003\n",
        "node-c is paid 124244\n",
        " 1500000 units × 1000000 ppm = 1500000000000 points\n",
        " 1000003 × 1500000000000 ÷ 12073002000000 = 124244, remainder 6439512000000\n",
        " 400001 (the cap: 400000 ppm of the pool)\n",
    ] {
        assert!(ran.out.contains(words), "{words:?} is missing in\n{}", ran.out);
    }
    let ran = fixture.verify("v2 --json --actor node-c");
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&shown["paid"], &shown["residual"]), (&json!("988284"), &json!("11719")));
    assert_eq!(
        (&shown["actors"][0]["payout"], &shown["actors"][0]["divided"]),
        (&json!("292969"), &json!("600002"))
    );
    assert_eq!((&shown["verified"], &shown["policy"]["trusted"]), (&json!(true), &json!(true)));
    assert_eq!(shown["checks"][0]["check"], "policy");
    let ran = fixture.verify("v1 --actor acme");
    assert_eq!(ran.code, Some(1), "whoever asks for somebody without a line is told so");
    assert!(ran.out.ends_with("acme has no line: no units that count\n"), "{}", ran.out);
}

/// What is required and not proved fails the check, whatever else is right.
#[test]
fn what_is_required_and_not_proved_is_a_failure_and_is_named() {
    let fixture = Fixture::new();
    let policy = format!("--policy-key {KEY}");
    let commitment = fixture.read("v1/commitment");
    let published = format!("--commitment {commitment}");
    let all = format!("{policy} --nodes nodes");
    for (flags, code, verdict) in [
        (String::new(), 1, "not verified: policy, seals, commitment"),
        (policy.clone(), 1, "not verified: seals, commitment"),
        ("--nodes nodes".to_owned(), 1, "not verified: policy"),
        (published.clone(), 1, "not verified: policy, seals"),
        (all.clone(), 0, "verified"),
        (format!("{published} --require rows,commitment"), 0, "verified"),
        ("--require none".to_owned(), 0, "verified"),
        ("--require rows".to_owned(), 0, "verified"),
        (format!("{all} --require settled"), 1, "not verified: settled"),
    ] {
        let ran = fixture.run(&format!("epoch verify v1 {flags}"));
        assert_eq!(ran.code, Some(code), "{flags}: {}{}", ran.out, ran.err);
        assert!(ran.out.starts_with(&format!("epoch 7: {verdict}\n")), "{flags}: {}", ran.out);
    }
    let ran = fixture.run("epoch verify v1 --json");
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &shown["verified"]), (Some(1), &json!(false)));
    assert_eq!(shown["checks"][1]["required"], true);
    let other = fixture.read("v2/commitment");
    assert_refused(
        &fixture.run(&format!("epoch verify v1 {all} --commitment {other}")),
        "the commitment is b3k:",
    );
    let ran = fixture.run("epoch verify v1 --require rows,everything");
    assert!(ran.code == Some(2) && ran.err.contains("`everything` is no check"), "{}", ran.err);
    for (nodes, words) in [("", "names no node"), ("b3:12\n", "nodes, line 1: a node is named by")] {
        fs::write(fixture.path("nodes"), nodes).unwrap();
        assert_refused(&fixture.verify("v1"), words);
    }
    fs::write(fixture.path("nodes"), format!("{}\n", node_id(NODES[0]))).unwrap();
    let left_out = format!("snapshots of {} do not count here", node_id(NODES[1]));
    assert_refused(&fixture.verify("v1"), &left_out);
}

#[test]
fn what_a_node_believes_is_taken_from_its_configuration() {
    let fixture = Fixture::new();
    let [one, other] = NODES.map(node_id);
    let config = |nodes: &str| {
        let text = format!("[rewarder]\npolicy_keys = [\"{KEY}\"]\naccounting_nodes = [{nodes}]\n");
        fs::write(fixture.path("omnigate.toml"), text).unwrap();
        fixture.run("epoch verify v1 --config omnigate.toml")
    };
    let ran = config(&format!("\"{one}\", \"{other}\""));
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_refused(&config(&format!("\"{one}\"")), "do not count here");
    assert!(!fixture.path("data").exists(), "looking makes nothing");
}

#[test]
fn rows_that_are_missing_are_a_failure_unless_allowed_and_the_others_are_checked() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path(&fixture.snapshot_file(0))).unwrap();
    let ran = fixture.verify("v1");
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("epoch 7: not verified: rows\n"), "{}", ran.out);
    assert!(
        ran.out.contains("NOT PROVED  rows         the rows of 1 of 2 snapshots are not in the bundle"),
        "{}",
        ran.out
    );
    let allowed = "v1 --require policy,seals,commitment";
    let ran = fixture.verify(allowed);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("  not proved  rows  "), "{}", ran.out);
    // Rows that are there are checked, whatever is missing.
    let second = fixture.snapshot_file(1);
    fixture.alter(&second, "2000001", "2000002");
    assert_refused(&fixture.verify(allowed), "snapshot are not the sealed ones");
    assert_refused(&fixture.run("epoch verify v1 --require none"), "snapshot are not the sealed ones");
}

/// An epoch whose allocations say less than the rows that are there is found, although other rows are missing.
#[test]
fn allocations_with_fewer_units_than_the_rows_that_are_there_are_found() {
    let fixture = Fixture::new();
    let (truly, mut less) = (sealed("v1"), sealed("v1"));
    for counted in &mut less.counted {
        counted.rows.values_mut().for_each(|units| *units /= 2);
    }
    // Units as the allocations have them, under the names of the true snapshots.
    let mut files = less.files();
    files.retain(|name, _| !name.starts_with("snapshots/"));
    let [first, _] = &truly.counted[..] else { panic!("two nodes") };
    files.insert(rewards::bundle::rows_file(first.snapshot().rows_root), first.lines());
    files.insert(rewards::bundle::INPUTS.to_owned(), truly.files()[rewards::bundle::INPUTS].clone());
    write(&files, &fixture.path("less"));
    assert_refused(&fixture.run("epoch verify less --require none"), "and allocations.jsonl has");
}

#[test]
fn an_epoch_that_is_set_aside_is_not_verified_whatever_was_computed() {
    let fixture = Fixture::new();
    let notice = r#"{"detail":"somebody else has the key","epoch":7,"format":"omnigate-quarantine/1","intents":1,"reason":"conflict"}"#;
    fs::write(fixture.path("v1/quarantine.json"), notice).unwrap();
    let words = "epoch 7 is quarantined, 1 of its batches were paid: conflict: somebody else has the key";
    assert_refused(&fixture.verify("v1"), words);
    fs::create_dir(fixture.path("8")).unwrap();
    fs::write(fixture.path("8/quarantine.json"), notice.replace("\"intents\":1", "\"intents\":0")).unwrap();
    assert_refused(&fixture.verify("8"), "quarantined, nothing of it was paid");
    fs::write(fixture.path("8/quarantine.json"), "{}").unwrap();
    assert_refused(&fixture.verify("8"), "quarantine.json: the format is not");
}

#[test]
fn of_a_folder_with_epochs_the_latest_is_verified() {
    let fixture = Fixture::new();
    // The last one is not computed yet.
    fs::create_dir_all(fixture.path("epochs/11")).unwrap();
    for (bundle, epoch) in [("v1", "9"), ("v2", "10")] {
        fs::rename(fixture.path(bundle), fixture.path("epochs").join(epoch)).unwrap();
    }
    let [all, tenth, ninth] =
        ["epochs", "epochs/10", "epochs/9"].map(|folder| fixture.verify(&format!("{folder} --json")));
    assert_eq!((all.code, &all.out), (Some(0), &tenth.out));
    assert_ne!(all.out, ninth.out);
    let ran = fixture.run("epoch show first");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("an epoch is a number"), "{}", ran.err);
}

#[test]
fn whatever_is_altered_in_a_bundle_is_found() {
    let stranger = format!("ed25519:{}", "00".repeat(32));
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            "v1/policy.json",
            r#""pool":"1000003""#,
            r#""pool":"2000003""#,
            "policy.json: the signature of ed25519:3d40",
        ),
        ("v1/inputs.json", r#""rows":6"#, r#""rows":7"#, "it is not the seal of one of the snapshots"),
        ("ROWS", "7000000", "7000001", "'s snapshot are not the sealed ones"),
        ("ROWS", "node-b", "node-!", "'s snapshot: it belongs before the row above it"),
        ("ROWS", "\"7000000\"", "\"-1\"", "'s snapshot: its units are negative"),
        ("v1/run.json", "648490", "648491", "run.json: `residual` has a value it cannot have"),
        (
            "v1/run.json",
            r#""batches":1"#,
            r#""batches":2"#,
            "run.json says something else than what is computed: batches",
        ),
        ("v1/run.json", r#"{"allocations""#, r#"{ "allocations""#, "not in canonical form"),
        ("v1/allocations.jsonl", "124245", "124246", "line 2 of allocations.jsonl is not what is computed"),
        ("v1/commitment", "b3k:", "b3k:0", "commitment: expected a digest"),
        ("SEAL", r#""signature":""#, r#""signature":"0"#, "signature"),
        ("v1/commitment", "b3k:", "", "commitment: expected a digest"),
    ];
    for (file, from, to, words) in cases {
        let fixture = Fixture::new();
        let file = match *file {
            "ROWS" => fixture.snapshot_file(0),
            "SEAL" => file_of(".seal.json"),
            file => file.to_owned(),
        };
        fixture.alter(&file, from, to);
        assert_refused(&fixture.verify("v1"), words);
        assert_refused(&fixture.run("epoch verify v1 --require none"), words);
    }
    let fixture = Fixture::new();
    assert_refused(
        &fixture.run(&format!("epoch verify v1 --policy-key {stranger}")),
        "not signed by a trusted key",
    );
    let other = fixture.read("v2/commitment");
    fs::write(fixture.path("v1/commitment"), other.as_bytes()).unwrap();
    assert_refused(&fixture.verify("v1"), "the commitment is not that of run.json");
    let fixture = Fixture::new();
    let attestation = file_of("attestations/");
    fixture.alter(&attestation, "\"epoch\":7", "\"epoch\":8");
    assert_refused(&fixture.verify("v1"), "does not attest to this run");
    let fixture = Fixture::new();
    fs::write(fixture.path("v1/snapshots/more.jsonl"), "").unwrap();
    assert_refused(&fixture.verify("v1"), "snapshots/more.jsonl: it belongs to none of the snapshots");
    fs::remove_file(fixture.path("v2/run.json")).unwrap();
    assert_refused(&fixture.run("epoch verify v2"), "v2 cannot be read: it has no run.json and no epochs");
    assert_refused(&fixture.run("epoch verify v3"), "there is no v3");
    let long = "x".repeat(20_000);
    fs::write(fixture.path("v1/allocations.jsonl"), &long).unwrap();
    assert_refused(&fixture.run("epoch prove v1 node-a"), "a line does not end");
}

#[test]
fn rows_may_come_in_the_file_that_the_node_sealed() {
    let fixture = Fixture::new();
    let sealed = [0, 1].map(|at| fixture.path(&fixture.snapshot_file(at)).with_extension("parquet"));
    for (at, sealed) in sealed.iter().enumerate() {
        let lines = fixture.path(&fixture.snapshot_file(at));
        let mut used = Vec::new();
        ron_accounting::read_rows(&fs::read(&lines).unwrap(), |row| {
            let actor = types::ActorId::new(row.actor).unwrap();
            used.push(ron_accounting::Used { actor, metric: row.metric.to_owned(), units: row.units });
            Ok::<_, ron_accounting::SnapshotError>(())
        })
        .unwrap();
        fs::write(sealed, ron_accounting::rows_of(&used).unwrap().0).unwrap();
        if at == 0 {
            // Both kinds of file may be there, and both are checked.
            assert_eq!(fixture.verify("v1").code, Some(0));
            let whole = fs::read(sealed).unwrap();
            fs::write(sealed, &whole[..whole.len() - 1]).unwrap();
            assert_eq!(fixture.verify("v1").code, Some(1));
            fs::write(sealed, whole).unwrap();
        }
        fs::remove_file(lines).unwrap();
    }
    let ran = fixture.verify("v1");
    assert!(ran.out.contains("10 rows in 2 snapshots, every row added up"), "{}{}", ran.out, ran.err);
    for threads in ["1", "2"] {
        let ran = fixture.run(&format!("epoch rerun v1 --into out --threads {threads}"));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        for file in ["run.json", "allocations.jsonl", "commitment"] {
            assert_eq!(fixture.read(&format!("v1/{file}")), fixture.read(&format!("out/{file}")));
        }
    }
    let [first, second] = sealed;
    let file = fs::read(&second).unwrap();
    for damaged in [&file[..file.len() - 1], &fs::read(first).unwrap()] {
        fs::write(&second, damaged).unwrap();
        assert_refused(&fixture.run("epoch rerun v1 --into out"), "epoch 7 cannot be paid: rows_differ: ");
    }
}

#[test]
fn a_proof_convinces_whoever_has_the_run() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run("epoch prove v1 node-c -o proof.json").code, Some(0));
    let told = "node-c is paid 124244 (full): line 3 of 5 of epoch 7, whose pool is 1000003\n";
    let ran = fixture.run("epoch verify proof.json --run v1/run.json");
    assert_eq!(ran.code, Some(1), "anyone can invent a run: {}{}", ran.out, ran.err);
    assert!(ran.out.starts_with(told) && ran.out.contains("\n  NOT PROVED  commitment"), "{}", ran.out);
    let ran = fixture.run("epoch verify proof.json --run v1/run.json --json");
    let said = serde_json::from_str::<Value>(&ran.out).unwrap();
    assert_eq!((&said["payout"], &said["verified"]), (&"124244".into(), &false.into()), "{said}");
    assert!(ran.code == Some(1) && ran.err.is_empty());
    let ran = fixture.run("epoch verify proof.json --run v1/run.json --require none");
    assert!(ran.code == Some(0) && ran.out.contains("\n  not proved  commitment"), "{}{}", ran.out, ran.err);
    let of = |bundle: &str| fixture.read(&format!("{bundle}/commitment"));
    let ran = fixture.run(&format!("epoch verify proof.json --run v1/run.json --commitment {}", of("v1")));
    assert!(ran.code == Some(0) && ran.out.contains(", which you named\n"), "{}{}", ran.out, ran.err);
    let ran = fixture.run(&format!("epoch verify proof.json --run v1/run.json --commitment {}", of("v2")));
    assert_refused(&ran, "v1/run.json: the commitment is b3k:");
    assert_refused(&fixture.run("epoch verify proof.json --run v2/run.json"), "it is about another run");
    let ran = fixture.run("epoch verify proof.json");
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    fixture.alter("proof.json", "124244", "124245");
    assert_refused(&fixture.run("epoch verify proof.json --run v1/run.json"), "the path does not lead");
    assert_refused(&fixture.run("epoch prove v1 acme"), "there is no line of that actor");
    fixture.alter("v1/allocations.jsonl", "400001", "400002");
    assert_refused(&fixture.run("epoch prove v1 node-c"), "the lines are not those that run.json names");
}

#[test]
fn an_epoch_that_cannot_be_paid_leaves_the_reason_and_nothing_else() {
    let fixture = Fixture::new();
    fixture.alter(&fixture.snapshot_file(1), "2000001", "2000002");
    let ran = fixture.run("epoch rerun v1 --into out");
    assert_refused(&ran, "epoch 7 cannot be paid: rows_differ: ");
    let names: Vec<_> =
        fs::read_dir(fixture.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["quarantine.json"]);
    assert!(fixture.read("out/quarantine.json").contains(r#""intents":0,"reason":"rows_differ""#));
}

/// R1: the machine, its settings and the order of work leave no trace in the bytes. Where a release build is around
/// (`OMNIGATE_RELEASE` names it), it has to come to the same bytes as this one.
#[test]
fn the_same_epoch_comes_to_the_same_bytes_everywhere() {
    let fixture = Fixture::new();
    let mut programs = vec![PathBuf::from(env!("CARGO_BIN_EXE_omnigate"))];
    programs.extend(std::env::var_os("OMNIGATE_RELEASE").map(PathBuf::from));
    let settings = [
        ("C", "UTC", "1"),
        ("tr_TR.UTF-8", "Asia/Kathmandu", "2"),
        ("ar_EG.UTF-8", "America/St_Johns", "7"),
        ("de_DE.UTF-8", "Pacific/Apia", "2"),
    ];
    for version in ["v1", "v2"] {
        for program in &programs {
            for (locale, zone, threads) in settings {
                let mut command = Command::new(program);
                command.env_clear().env("LC_ALL", locale).env("LANG", locale).env("TZ", zone);
                command.current_dir(fixture.dir.path());
                command.args(["epoch", "rerun", version, "--into", "out", "--threads", threads]);
                let ran = run(command);
                assert_eq!(ran.code, Some(0), "{}", ran.err);
                for file in ["run.json", "allocations.jsonl", "commitment"] {
                    let (expected, found) =
                        (fixture.read(&format!("{version}/{file}")), fixture.read(&format!("out/{file}")));
                    assert_eq!(
                        expected,
                        found,
                        "{file} with {locale}, {zone}, {threads} threads, {}",
                        program.display()
                    );
                }
            }
        }
    }
}

/// Thousands of epochs are compared when `OMNIGATE_ORACLE_EPOCHS` asks for them.
#[test]
fn an_independent_implementation_agrees_on_random_epochs() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no python3, so the second implementation of the calculus was not run");
        return;
    }
    let epochs = std::env::var("OMNIGATE_ORACLE_EPOCHS").unwrap_or_else(|_| "120".to_owned());
    let mut command = Command::new("python3");
    command.current_dir(ORACLE).args([
        "-B",
        "oracle.py",
        "compare",
        env!("CARGO_BIN_EXE_omnigate"),
        "--epochs",
        &epochs,
    ]);
    let ran = run(command);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    assert_eq!(ran.out, format!("{epochs} epochs agree\n"));
    let mut command = Command::new("python3");
    command.current_dir(ORACLE).args(["-B", "oracle.py", "check", "golden/v1", "golden/v2"]);
    let ran = run(command);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "v1 agrees\nv2 agrees\n"), "{}", ran.err);
}

#[test]
fn a_policy_is_signed_checked_and_shown() {
    let fixture = Fixture::new();
    let made = fixture.run("policy keygen old.key");
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(made.err.contains("old.key") && made.err.contains("rewarder.policy_keys"), "{}", made.err);
    let old = made.out.trim().to_owned();
    let new = fixture.run("policy keygen new.key").out.trim().to_owned();
    assert_refused(&fixture.run("policy keygen old.key"), "old.key");
    let terms = json!({
        "format": "omnigate-policy/1", "id": "default", "version": 3, "ruleset": 2, "pool": "5000", "cap_ppm": 250_000,
        "min_payout": "1", "residual": { "rule": "keep" }, "first_epoch": 4, "last_epoch": 9,
        "weights_ppm": { "served.bytes": 1_000_000 },
    });
    fs::write(fixture.path("terms.json"), format!("{terms:#}\n")).unwrap();
    let signed = fixture.run("policy sign terms.json --key old.key");
    assert_eq!(signed.code, Some(0), "{}", signed.err);
    fs::write(fixture.path("once.json"), &signed.out).unwrap();
    fs::write(fixture.path("twice.json"), fixture.run("policy sign once.json --key new.key").out).unwrap();
    for (words, code, answer) in [
        (format!("once.json --key {old}"), 0, "good: default version 3, b3k:"),
        (format!("once.json --key {new}"), 1, "refused: policy_untrusted: "),
        (format!("twice.json --key {new}"), 0, "good: "),
        (format!("twice.json --key {old} --epoch 9"), 0, "good: "),
        (format!("twice.json --key {old} --epoch 10"), 1, "refused: policy_stale: "),
        (format!("twice.json --key {old} --epoch 3"), 1, "refused: policy_stale: "),
        (format!("terms.json --key {old}"), 1, "refused: policy_"),
    ] {
        let ran = fixture.run(&format!("policy check {words}"));
        assert_eq!(ran.code, Some(code), "{words}: {}{}", ran.out, ran.err);
        assert!(ran.out.starts_with(answer), "{words}: {}", ran.out);
    }
    fixture.alter("once.json", r#""pool":"5000""#, r#""pool":"5001""#);
    assert!(
        fixture
            .run(&format!("policy check once.json --key {old}"))
            .out
            .starts_with("refused: policy_forged: ")
    );
    let shown = fixture.run("policy show twice.json");
    for words in
        ["policy default version 3, ruleset 2\n", "1250 (250000 ppm of the pool)", "4 to 9", &old, &new]
    {
        assert!(shown.out.contains(words), "{words} is missing in\n{}", shown.out);
    }
    let canonical: Value = serde_json::from_str(&fixture.run("policy show terms.json --json").out).unwrap();
    assert_eq!(canonical, terms);
    assert_refused(&fixture.run("policy sign terms.json --key terms.json"), "terms.json");
    fs::write(fixture.path("terms.json"), "{}").unwrap();
    assert_refused(&fixture.run("policy sign terms.json --key old.key"), "terms.json: the format is not");
}

/// The page shows the files of one epoch, laid out for reading. `OMNIGATE_WRITE_GOLDEN` writes these files.
#[test]
fn the_page_of_formats_shows_files_that_verify() {
    let page = fs::read_to_string(Path::new(ORACLE).join("../../docs/rewards-format.md")).unwrap();
    let golden = Path::new(ORACLE).join("golden/sealed");
    let plan = sealed("v1");
    let mut files = plan.files();
    files.insert("proof-node-c.json".to_owned(), plan.run().prove("node-c").unwrap().to_bytes());
    let ids: String = NODES.iter().map(|node| format!("{}\n", node_id(*node))).collect();
    files.insert("nodes".to_owned(), ids.into_bytes());
    if std::env::var_os("OMNIGATE_WRITE_GOLDEN").is_some() {
        write(&files, &golden);
    }
    for (name, bytes) in &files {
        assert_eq!(fs::read(golden.join(name)).unwrap(), *bytes, "{name}");
    }
    let (first, node) = (&plan.counted[0], digits(&key(plan.counted[0].seed)));
    let root = first.snapshot().rows_root.hex();
    let documents = |text: &str| -> Vec<Value> {
        serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect()
    };
    let mut shown = 0;
    for block in page.split("\n```json ").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap();
        let file = match name {
            "rows" => format!("snapshots/{root}.jsonl"),
            "seal" => format!("snapshots/{root}.{node}.seal.json"),
            "attestation" => format!("attestations/{node}.json"),
            name => name.to_owned(),
        };
        let Some(bytes) = files.get(&file) else { continue };
        let text = str::from_utf8(bytes).unwrap();
        assert_eq!(documents(rest.split("\n```").next().unwrap()), documents(text), "{name}");
        shown += 1;
    }
    assert_eq!(shown, 8, "the page has lost its examples");
    let proof = golden.join("proof-node-c.json");
    let proof = ["epoch", "verify", proof.to_str().unwrap(), "--run", "run.json", "--nodes", "nodes"];
    let ran = run(omnigate(&golden, &proof));
    assert!(ran.code == Some(0) && ran.out.contains(", attested to by b3:"), "{}{}", ran.out, ran.err);
    let ran = run(omnigate(&golden, &["epoch", "verify", ".", "--policy-key", KEY, "--nodes", "nodes"]));
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
}

fn digits(key: &rewards::ed25519::SecretKey) -> String {
    key.public_key().to_string()["ed25519:".len()..].to_owned()
}

#[test]
fn what_a_node_has_written_down_is_shown_by_epoch_sealed_or_not() {
    let fixture = Fixture::new();
    let nothing = fixture.run("epoch usage");
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.err.contains("usage.sqlite") && nothing.err.contains("help"), "{}", nothing.err);
    assert!(!fixture.path("data").exists(), "looking makes nothing");

    fs::create_dir(fixture.path("data")).unwrap();
    let hour = std::time::Duration::from_secs(3600);
    let mut journal = ron_accounting::Journal::open(&fixture.path("data/usage.sqlite"), hour).unwrap();
    let used = |name, units| (types::ActorId::new(name).unwrap(), "provided.bytes", units);
    for (epoch, units) in [(7, vec![used("ada", 5)]), (9, vec![used("ada", 1), used("bo", 20)])] {
        let page = ron_accounting::Page { epoch, units };
        journal.book(ron_accounting::BootId::new([1; 16]), std::slice::from_ref(&page)).unwrap();
        // Another life of the same node.
        journal.book(ron_accounting::BootId::new([2; 16]), &[page]).unwrap();
    }
    assert_eq!(fixture.run("epoch seal 7").code, Some(0));
    let shown = fixture.run("epoch usage");
    let lines = "7  sealed  ada  provided.bytes  10\n9  open    ada  provided.bytes  2\n9  open    bo   provided.bytes  40\n";
    assert_eq!((shown.code, shown.out.as_str(), shown.err.as_str()), (Some(0), lines, ""));
    assert_eq!(fixture.run("epoch usage --limit 1").out.lines().count(), 2);
    assert_eq!(fixture.run("epoch usage 7").out.lines().count(), 1);
    let document: Value = serde_json::from_str(&fixture.run("epoch usage 9 --json").out).unwrap();
    assert_eq!(document[0]["used"][1], json!({ "actor": "bo", "metric": "provided.bytes", "units": "40" }));
}

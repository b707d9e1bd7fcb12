//! What strangers put into a bundle: files that nobody vouches for, text that a terminal takes for commands, and files that
//! are none. None of it is shown as part of an epoch that is verified.

use std::{fs, os::unix::ffi::OsStrExt as _, path::PathBuf, process::Command};

use rewards::{
    Amount, Dispute, Epoch, Excluded, ExclusionNotice, Int, ParkedPayout, ParkedPayouts, PayeeEntry, Payees,
    Policy, PolicyId, Sign, SignedPayees, SignedPolicy,
};
use tempfile::TempDir;
use types::ActorId;

use crate::{
    bundle::{Counted, Plan, TakenOver, key, node_id, write},
    cli_run::{Ran, omnigate, run},
};

const NODE: u8 = 1;
const AUTHORITY: u8 = 9;
const STRANGER: u8 = 201;
/// Is trusted as well, and has not signed the policy of the bundle.
const SECOND_AUTHORITY: u8 = 10;

/// Epoch 7 in `bundle`, in which ada earns 700 and the actor with key 77 earns 300.
struct Fixture {
    dir: TempDir,
    plan: Plan,
}

impl Fixture {
    fn of(ruleset: u64) -> Self {
        let terms = format!(
            r#"{{"cap_ppm":1000000,"first_epoch":0,"format":"omnigate-policy/1","id":"default","last_epoch":null,
            "min_payout":"0","pool":"1000","residual":{{"rule":"keep"}},"ruleset":{ruleset},"version":1,
            "weights_ppm":{{"provided.bytes":1000000}}}}"#
        );
        let policy =
            SignedPolicy::unsigned(Policy::read(terms.as_bytes()).unwrap()).signed_by(&key(AUTHORITY));
        let row = |name: &str, units| ((name.to_owned(), "provided.bytes".to_owned()), units);
        let rows = [row("ada", 700), row(&node_id(77).to_string(), 300)];
        let counted = vec![Counted::by(NODE, 7, rows.into())];
        let plan = Plan { policy, epoch: 7, counted, attesters: vec![NODE], taken: TakenOver::default() };
        let fixture = Self { dir: TempDir::new().unwrap(), plan };
        fs::write(fixture.dir.path().join("nodes"), format!("{}\n", node_id(NODE))).unwrap();
        fixture.reset();
        fixture
    }

    /// Writes the bundle as it was.
    fn reset(&self) {
        write(&self.plan.files(), &self.dir.path().join("bundle"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("bundle").join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    fn verify(&self) -> Ran {
        let [first, second] = [AUTHORITY, SECOND_AUTHORITY].map(|seed| key(seed).public_key().to_string());
        let known = ["--nodes", "nodes", "--policy-key", &first, "--policy-key", &second];
        run(omnigate(self.dir.path(), &[&["epoch", "verify", "bundle"][..], &known].concat()))
    }

    #[track_caller]
    fn verifies(&self, words: &str) {
        let ran = self.verify();
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
        assert!(ran.out.contains(words), "{words:?} is not in {}", ran.out);
    }

    #[track_caller]
    fn refuses(&self, words: &str) {
        let ran = self.verify();
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{words}: {}", ran.err);
        assert!(ran.err.contains(words), "{words:?} is not in {:?}", ran.err);
        self.reset();
    }
}

fn actor(name: &str) -> ActorId {
    ActorId::new(name).unwrap()
}

#[test]
fn a_notice_of_snapshots_left_out_is_signed_by_a_node_that_counts() {
    let fixture = Fixture::of(1);
    let absent = Counted::by(3, 7, fixture.plan.counted[0].rows.clone());
    let notice = |signer| {
        let (reason, detail) = ("overflow".to_owned(), "it had \u{1b}[2Jtoo much".to_owned());
        let excluded = vec![Excluded { snapshot: absent.snapshot(), reason, detail }];
        ExclusionNotice::of(Epoch::new(7).unwrap(), excluded, &key(signer)).to_bytes()
    };
    fixture.put("excluded.json", &notice(NODE));
    fixture.verifies("it had \\u{1b}[2Jtoo much\n");
    fixture.put("excluded.json", &notice(STRANGER));
    fixture.refuses(&format!("it is signed by {}, which you do not trust", node_id(STRANGER)));
}

#[test]
fn an_objection_is_shown_if_its_signer_may_object() {
    let fixture = Fixture::of(1);
    let run = fixture.plan.run().manifest().name();
    let own = node_id(77).to_string();
    for (signer, about, may) in [
        (77, own.as_str(), true),
        (NODE, "ada", true),
        (AUTHORITY, "ada", true),
        (SECOND_AUTHORITY, "ada", true),
        (77, "ada", false),
        (STRANGER, own.as_str(), false),
    ] {
        let dispute = Dispute::of(run, actor(about), "too little", &key(signer)).unwrap();
        fixture.put(&rewards::bundle::dispute_file(dispute.hash()), &dispute.to_bytes());
        if may {
            fixture.verifies("too little");
            fixture.reset();
        } else {
            fixture.refuses(&format!("{} may not object to this run", key(signer).public_key()));
        }
    }
}

#[test]
fn a_parked_payout_is_in_the_account_of_its_receiver() {
    let fixture = Fixture::of(1);
    let parked = |account: &str| {
        let payout = ParkedPayout {
            actor: Some(actor("ada")),
            receiver: actor("ada"),
            amount: Amount::from(700_u64),
            account: account.to_owned(),
            reason: "overflow".to_owned(),
            detail: "it is full\r\u{9b}1A".to_owned(),
        };
        ParkedPayouts { payouts: vec![payout], ..ParkedPayouts::new(Epoch::new(7).unwrap()) }.to_bytes()
    };
    fixture.put("parked.json", &parked("parked/ada"));
    fixture.verifies("700 of ada in parked/ada: it is full\\r\\u{9b}1A\n");
    fixture.put("parked.json", &parked("parked/thief"));
    fixture.refuses("parked/thief is not the account of ada");
}

#[test]
fn files_that_the_ruleset_does_not_have_are_refused() {
    let entry = PayeeEntry {
        actor: actor("ada"),
        payee: actor("thief"),
        first_epoch: Epoch::new(0).unwrap(),
        last_epoch: None,
        consent: None,
    };
    let payees = Payees::new(PolicyId::new("default").unwrap(), Int::from(1), vec![entry]).unwrap();
    let payees = SignedPayees::unsigned(payees).signed_by(&key(STRANGER)).to_bytes();
    for ruleset in [1, 2] {
        let fixture = Fixture::of(ruleset);
        for (name, bytes) in [
            ("payees.json", payees.as_slice()),
            ("carried.jsonl", b"garbage"),
            ("corrections/00.json", b"garbage"),
            ("brought.json", b"{}"),
        ] {
            fixture.put(name, bytes);
            fixture.refuses(": the ruleset takes nothing over");
        }
    }
}

#[test]
fn what_is_no_file_or_has_no_printable_name_is_refused() {
    let fixture = Fixture::of(3);
    let pipe = |name: &str| {
        let made = Command::new("mkfifo").arg(fixture.path(name)).status().unwrap();
        assert!(made.success());
    };
    for name in ["policy.json", "allocations.jsonl", "commitment"] {
        fs::remove_file(fixture.path(name)).unwrap();
        pipe(name);
        fixture.refuses("and not a regular file");
    }
    pipe("attestations/00.json");
    fixture.refuses("and not a regular file");
    fs::create_dir(fixture.path("quarantine.json")).unwrap();
    fixture.refuses("quarantine.json cannot be read");
    std::os::unix::fs::symlink("/nonexistent", fixture.path("quarantine.json")).unwrap();
    fixture.refuses("quarantine.json cannot be read");
    for name in [&b"\xff\xfe.jsonl"[..], b"a\x1b[2J.jsonl"] {
        fs::write(fixture.path("snapshots").join(std::ffi::OsStr::from_bytes(name)), "junk").unwrap();
        fixture.refuses("snapshots has a file of the name \"");
    }
    fs::remove_dir_all(fixture.path("attestations")).unwrap();
    fixture.put("attestations", b"x");
    fixture.refuses("attestations cannot be read");
    fixture.verifies("epoch 7: verified\n");
}

#[test]
fn text_of_a_quarantine_draws_nothing() {
    let fixture = Fixture::of(1);
    let notice = br#"{"detail":"x\u001b[2J\nepoch 7: verified","epoch":7,"format":"omnigate-quarantine/1","intents":0,"reason":"held"}"#;
    fixture.put("quarantine.json", notice);
    fixture.refuses("held: x\\u{1b}[2J\\nepoch 7: verified");
}

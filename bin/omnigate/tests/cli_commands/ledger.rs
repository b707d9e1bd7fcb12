//! `omnigate ledger`: what each command prints and leaves, and what it says of a ledger that is not what it was.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use crate::cli_run::{Ran, omnigate, run};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    /// Runs `omnigate ledger` with these words.
    fn ledger(&self, words: &str) -> Ran {
        let args: Vec<&str> = ["ledger"].into_iter().chain(words.split(' ')).collect();
        run(omnigate(self.dir.path(), &args))
    }

    fn done(&self, words: &str) -> String {
        let ran = self.ledger(words);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words}");
        ran.out
    }

    fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.done(&format!("{words} --json"))).unwrap()
    }

    /// An issuer and a pool of 1000.
    fn funded() -> Self {
        let fixture = Self::new();
        assert_eq!(fixture.done("open mint --asset CREDIT --issuer"), "open: mint\n");
        assert_eq!(fixture.done("open pool --asset CREDIT"), "open: pool\n");
        let paid = fixture.done("transfer --from mint --to pool --amount 1000 --key fund");
        assert_eq!(paid, "posted as request 3\n");
        fixture
    }
}

#[test]
fn a_transfer_is_posted_once_per_key() {
    let fixture = Fixture::funded();
    let paid = "transfer --from pool --to ada --amount 7 --key pay/1 --open-receiver";
    assert_eq!(fixture.json(paid), json!({ "request": 4, "replayed": false }));
    assert_eq!(fixture.done(paid), "posted before as request 4\n");
    let other = fixture.ledger("transfer --from pool --to ada --amount 8 --key pay/1 --open-receiver");
    assert_eq!(other.code, Some(1));
    assert_eq!(other.err, "error: the key pay/1 was used for another batch, request 4\n");
    let balances = fixture.json("balances");
    let ada = json!({ "account": "ada", "asset": "CREDIT", "balance": "7", "held": "0", "available": "7" });
    assert_eq!(balances[0], ada);
    assert_eq!(balances[1]["available"], Value::Null, "an issuer has no limit");
    assert!(fixture.done("balances").contains("pool                      993"));
}

#[test]
fn what_cannot_be_done_is_told() {
    let fixture = Fixture::funded();
    let short = fixture.ledger("transfer --from pool --to mint --amount 1001 --key a");
    assert_eq!(
        (short.code, short.err.as_str()),
        (Some(1), "error: refused: pool cannot spend 1001: 1000 is available\n")
    );
    for amount in ["-1", "1.5", "0", "170141183460469231731687303715884105728"] {
        let ran = fixture.ledger(&format!("transfer --from pool --to mint --key a --amount={amount}"));
        assert_eq!(ran.code, Some(2), "{amount}");
    }
    let elsewhere = Fixture::new().ledger("balances");
    assert_eq!(elsewhere.code, Some(1));
    assert!(elsewhere.err.starts_with("error: there is no ledger ./data/ledger.db\n"), "{}", elsewhere.err);
    assert_eq!(fixture.ledger("balances --url nowhere").code, Some(2));
    assert_eq!(fixture.ledger("balances --url memory:").code, Some(2));
}

#[test]
fn a_ledger_is_verified_backed_up_and_restored() {
    let fixture = Fixture::funded();
    let counts =
        |state: &str| json!({ "state": state, "accounts": 2, "requests": 3, "entries": 3, "links": 3 });
    assert_eq!(fixture.json("verify"), counts("whole"));
    assert_eq!(fixture.json("backup kept.db"), counts("backed up"));
    assert_eq!(fixture.ledger("backup kept.db").code, Some(1), "never overwrites");
    assert_eq!(fixture.json("restore kept.db --url sqlite:new/ledger.db"), counts("restored"));
    assert_eq!(fixture.json("verify --url sqlite:new/ledger.db"), counts("whole"));
    assert_eq!(fixture.ledger("restore kept.db").code, Some(1), "only into an empty one");
    let path = fixture.dir.path().join("data/ledger.db");
    let sql = rusqlite::Connection::open(path).unwrap();
    sql.execute_batch("UPDATE accounts SET balance = '1001' WHERE name = 'pool'").unwrap();
    drop(sql);
    let damaged = fixture.ledger("verify");
    assert_eq!(damaged.code, Some(1));
    assert!(
        damaged.err.starts_with("error: the ledger is damaged: the account pool is not what"),
        "{}",
        damaged.err
    );
    assert!(damaged.err.contains("omnigate ledger restore"));
}

#[test]
fn nothing_is_posted_to_a_damaged_ledger() {
    let fixture = Fixture::funded();
    let path = fixture.dir.path().join("data/ledger.db");
    let sql = rusqlite::Connection::open(path).unwrap();
    sql.execute_batch("UPDATE accounts SET balance = '1001' WHERE name = 'pool'").unwrap();
    for words in ["transfer --from pool --to mint --amount 1001 --key pay", "open ada --asset CREDIT"] {
        let refused = fixture.ledger(words);
        assert_eq!(refused.code, Some(1), "{words}: {}", refused.out);
        assert!(refused.err.starts_with("error: the ledger is damaged: "), "{words}: {}", refused.err);
    }
    let requests: i64 = sql.query_row("SELECT count(*) FROM requests", (), |row| row.get(0)).unwrap();
    assert_eq!(requests, 3, "what was there before");
}

#[test]
fn deleted_checkpoints_are_missed_where_keys_are_trusted() {
    let fixture = Fixture::funded();
    let pem = Command::new("openssl").args(["genpkey", "-algorithm", "ed25519"]).output().unwrap().stdout;
    let path = fixture.dir.path().join("node.pem");
    fs::write(&path, pem).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let signed = fixture.json("checkpoint --key node.pem");
    let config = format!("[ledger]\ntrusted_keys = [\"{}\"]\n", signed["key"].as_str().unwrap());
    fs::write(fixture.dir.path().join("omnigate.toml"), config).unwrap();
    assert_eq!(fixture.json("verify")["checkpoints"]["count"], 1);
    let sql = rusqlite::Connection::open(fixture.dir.path().join("data/ledger.db")).unwrap();
    sql.execute_batch("DELETE FROM checkpoints").unwrap();
    let missed = fixture.ledger("verify");
    assert_eq!(missed.code, Some(1), "{}", missed.out);
    assert!(missed.err.contains("no checkpoint is there by one of `ledger.trusted_keys`"), "{}", missed.err);
}

#[test]
fn keys_of_the_program_are_not_for_transfers() {
    let fixture = Fixture::funded();
    for key in ["reward/7/0", "open/ada"] {
        let refused = fixture.ledger(&format!("transfer --from mint --to pool --amount 1 --key {key}"));
        assert_eq!(refused.code, Some(2), "{}", refused.out);
        assert!(refused.err.contains("are kept for the program"), "{}", refused.err);
    }
}

#[test]
fn an_account_may_have_the_longest_name() {
    let fixture = Fixture::funded();
    let longest = "a".repeat(192);
    assert_eq!(fixture.done(&format!("open {longest} --asset CREDIT")), format!("open: {longest}\n"));
    assert_eq!(fixture.done(&format!("open {longest} --asset CREDIT")), format!("open before: {longest}\n"));
    assert_eq!(fixture.ledger(&format!("open {longest}a --asset CREDIT")).code, Some(2));
    fixture.done(&format!("transfer --from mint --to {longest} --amount 1 --key pay"));
}

#[test]
fn a_journal_is_exported_for_other_programs() {
    let fixture = Fixture::funded();
    let journal = fixture.done("export");
    assert!(
        journal.contains("    Equity:X-mint  -1000 CREDIT\n    Assets:X-pool  1000 CREDIT\n"),
        "{journal}"
    );
    fixture.done("export --format beancount --output out.beancount");
    let text = fs::read_to_string(fixture.dir.path().join("out.beancount")).unwrap();
    assert!(text.contains(" balance Assets:X-pool 1000 CREDIT\n"), "{text}");
    assert_eq!(fixture.ledger("export --output out.beancount").code, Some(1), "never overwrites");
}

#[test]
fn a_checkpoint_is_signed_with_a_key_of_openssl_and_believed_when_it_is_named() {
    let fixture = Fixture::funded();
    let key = fixture.dir.path().join("node.pem");
    let made = Command::new("openssl").args(["genpkey", "-algorithm", "ed25519", "-out"]).arg(&key).status();
    assert!(made.unwrap().success());
    let signed = fixture.json("checkpoint --key node.pem");
    assert_eq!(signed["link"], 3);
    let public = signed["key"].as_str().unwrap();
    let config = |key: &str| {
        let text = format!("[ledger]\nverify = \"since_checkpoint\"\ntrusted_keys = [\"{key}\"]\n");
        fs::write(fixture.dir.path().join("omnigate.toml"), text).unwrap();
    };
    config(public);
    let told = fixture.done("verify");
    assert!(told.contains(&format!("signed: 1 checkpoints, the last at link 3 by {public}\n")), "{told}");
    assert_eq!(fixture.json("verify")["checkpoints"], json!({ "count": 1, "link": 3, "key": public }));
    config(&"00".repeat(32));
    assert!(
        fixture.ledger("verify").err.contains("the signature of the checkpoint at link 3 does not count")
    );
    config("short");
    assert_eq!(fixture.ledger("verify").code, Some(2));
    let set = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
    set(0o640);
    let open = fixture.ledger("checkpoint --key node.pem --url sqlite:data/ledger.db");
    assert_eq!(open.code, Some(2));
    assert!(open.err.contains("is open to others than its owner; run: chmod 600"), "{}", open.err);
    set(0o600);
    fs::write(&key, "not a key").unwrap();
    assert_eq!(fixture.ledger("checkpoint --key node.pem --url sqlite:data/ledger.db").code, Some(2));
}

#[test]
fn a_hold_is_listed_until_it_is_settled_or_voided() {
    let fixture = Fixture::funded();
    let held = fixture.done("hold --from pool --to ada --amount 300 --key vest/1 --open-receiver");
    assert_eq!(held, "held as hold 5\n", "the entry before it opens the receiver's account");
    assert_eq!(
        fixture.done("hold --from pool --to ada --amount 300 --key vest/1 --open-receiver"),
        "held before as hold 5\n"
    );
    fixture.done("hold --from pool --to ada --amount 40 --key vest/2");
    assert_eq!(fixture.done("holds"), "hold 5: 300 from pool to ada\nhold 6: 40 from pool to ada\n");
    assert_eq!(fixture.json("balances")[2]["held"], "340");
    assert_eq!(fixture.done("settle 5 --key vest/1/settle"), "hold 5 settled\n");
    assert_eq!(fixture.done("settle 5 --key vest/1/settle"), "hold 5 was settled before\n");
    assert_eq!(fixture.ledger("settle 5 --key other").code, Some(1), "it is closed");
    assert_eq!(fixture.done("void 6 --key vest/2/void"), "hold 6 voided\n");
    assert_eq!(fixture.done("holds"), "no open holds\n");
    let balances = fixture.json("balances");
    assert_eq!((&balances[0]["balance"], &balances[2]["balance"]), (&json!("300"), &json!("700")));
    assert_eq!(fixture.ledger("hold --from pool --to ada --amount 1 --key reward/1/0").code, Some(2));
}

#[test]
fn an_import_posts_each_transfer_once_and_nothing_of_a_file_with_a_fault() {
    let fixture = Fixture::funded();
    let write = |text: &str| fs::write(fixture.dir.path().join("in.csv"), text).unwrap();
    let header = "key,from,to,amount,reference\n";
    let good = "a/1,pool,ada,5,\"for November, and more\"\na/2,pool,bo,6,\n";
    for (fault, words) in [
        ("a/3,pool,ada,x,\n", "line 4"),
        ("a/1,pool,ada,1,\n", "line 4: another line has the same key"),
        ("reward/1,pool,ada,1,\n", "line 4: the key is reserved"),
        ("a/3,pool,ada\n", "line 4: it has 3 cells instead of 5"),
        ("a/3,pool,actor/a,7,100,for a,7\n", "line 4: it has 7 cells instead of 5"),
        ("a/3,pool,ada,1,for November, and more\n", "line 4: it has 6 cells instead of 5"),
        ("a/3,pool,\"ada,1,\n", "line 4: it has a quote that is not closed"),
        ("a/3,pool,ada,1,for Nov", "line 4: it does not end with a line feed"),
    ] {
        write(&format!("{header}{good}{fault}"));
        let ran = fixture.ledger("import in.csv --open-receivers");
        assert!(
            ran.code == Some(2) && ran.err.contains(words) && ran.err.contains("nothing was posted"),
            "{}",
            ran.err
        );
    }
    write(good);
    assert_eq!(fixture.ledger("import in.csv").code, Some(2), "the first line is missing");
    write(&format!("{header}{good}"));
    assert_eq!(
        fixture.done("import in.csv --dry-run"),
        "2 transfers can be read, 11 in all; nothing was posted\n"
    );
    assert_eq!(fixture.done("import in.csv --open-receivers"), "2 posted, 0 posted before, 0 refused\n");
    write(&format!("{header}a/7,pool,\"actor/a,7\",1,\n"));
    assert_eq!(fixture.done("import in.csv --open-receivers"), "1 posted, 0 posted before, 0 refused\n");
    assert_eq!(fixture.json("balances")[0]["account"], "actor/a,7");
    write(&format!("{header}{good}a/3,pool,ada,100000,\na/4,pool,ada,1,\n"));
    let again = fixture.ledger("import in.csv --open-receivers");
    assert_eq!(again.code, Some(1));
    assert!(again.out.starts_with("line 4: refused: "), "{}", again.out);
    assert!(again.out.ends_with("1 posted, 2 posted before, 1 refused\n"), "{}", again.out);
    assert_eq!(fixture.json("balances")[1]["balance"], "6", "ada");
}

#[test]
fn a_ledger_is_held_to_a_checkpoint_that_was_kept_elsewhere() {
    let (fixture, other) = (Fixture::funded(), Fixture::new());
    let path = fixture.dir.path().join("node.pem");
    let made = Command::new("openssl").args(["genpkey", "-algorithm", "ed25519", "-out"]).arg(&path).output();
    assert!(made.unwrap().status.success());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let kept = fixture.done("checkpoint --key node.pem --json");
    fs::write(fixture.dir.path().join("kept.json"), &kept).unwrap();
    fixture.done("transfer --from mint --to pool --amount 1 --key later");
    assert!(fixture.done("verify --kept kept.json").starts_with("whole: "));
    fs::write(other.dir.path().join("kept.json"), &kept).unwrap();
    other.done("open mint --asset CREDIT --issuer");
    let short = other.ledger("verify --kept kept.json");
    assert!(short.code == Some(1) && short.err.contains("ends before link 3"), "{}", short.err);
    other.done("open pool --asset CREDIT");
    other.done("transfer --from mint --to pool --amount 999 --key fund");
    let rebuilt = other.ledger("verify --kept kept.json");
    assert!(rebuilt.code == Some(1) && rebuilt.err.contains("this is another ledger"), "{}", rebuilt.err);
    fs::write(other.dir.path().join("kept.json"), "{}").unwrap();
    assert_eq!(other.ledger("verify --kept kept.json").code, Some(2));
}

//! What other accounting programs make of the exports: every balance, exactly ours.

use std::{collections::BTreeMap, path::Path, process::Command};

use ron_ledger::{Amount, Batch, Dialect, Floor, Key, Ledger, Reference, Step, export, plain_text};

use crate::support::{Chance, Place, asset, batch, hold, id, open, pay, seed, transfer};

on_every_store!(other_programs_agree_with_every_balance);

/// Names that would end a field, a line or a comment somewhere, and names below others.
const NAMES: [&str; 12] = [
    "pool",
    "Pool",
    "actor/b3:1f",
    "actor",
    "Pool/deep/er",
    "Pool/deep",
    "actor/b3:2f",
    "a;b",
    "a\"b\\",
    "(x)/[1]",
    "-x/#&*",
    "9/X-/~!@$%^={}|<>,.?`'",
];

fn other_programs_agree_with_every_balance(place: &Place) {
    let ledger = place.open();
    let mut chance = Chance(seed());
    let mut steps: Vec<Step> = NAMES.iter().map(|name| open(name, Floor::ZERO)).collect();
    steps.push(open("issuer", Floor::Unlimited));
    let mut large = transfer("issuer", "pool", 0);
    large.amount = Amount::try_from(1_234_567_890_123_456_789_012_345_u128).unwrap();
    steps.push(Step::Transfer(large));
    ledger.post(&batch("k/[2020-99-99] ".trim(), steps)).unwrap();
    for turn in 0..40_u64 {
        let to = NAMES[usize::try_from(1 + chance.below(10)).unwrap()];
        let steps = vec![pay("pool", to, 1 + chance.below(1 << 40)), hold("pool", to, 5)];
        let key = Key::new(&format!("[1;\"\\::{turn}")).unwrap();
        // Days go back and forth.
        let at = 1_700_000_000 + chance.below(90) * 86_400;
        let posted = Batch::new(key, Reference::new("run [=1] \"x\\").unwrap(), at, steps).unwrap();
        let receipt = ledger.post(&posted).unwrap().receipt;
        let close = [Step::Settle, Step::Void][usize::try_from(turn % 2).unwrap()](receipt.first_entry + 1);
        ledger.post(&batch(&format!("close/{turn}"), vec![close])).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let hledger = write(&*ledger, Dialect::Hledger, &folder.path().join("out.journal"));
    let beancount = write(&*ledger, Dialect::Beancount, &folder.path().join("out.beancount"));
    let ours = ours(&*ledger);
    assert_eq!(run("hledger", &["-f", &hledger, "check", "--strict"]), "");
    assert_eq!(by_hledger(&hledger), ours);
    assert_eq!(by_ledger(&hledger), ours);
    // It lists no account without postings, but has checked the assertions of those too.
    let moved: BTreeMap<_, _> = ours.into_iter().filter(|(_, balance)| balance != "0").collect();
    assert_eq!(by_beancount(&beancount), moved);
}

fn write(ledger: &dyn Ledger, dialect: Dialect, path: &Path) -> String {
    let mut text = Vec::new();
    export(&mut *ledger.snapshot().unwrap(), dialect, &mut text).unwrap();
    std::fs::write(path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn ours(ledger: &dyn Ledger) -> BTreeMap<String, String> {
    let accounts = ledger.snapshot().unwrap().accounts(0, 100).unwrap();
    assert!(accounts.iter().any(|account| account.id == id("issuer")));
    let line = |account: &ron_ledger::Account| (plain_text::name(account), account.balance.to_string());
    accounts.iter().map(line).collect()
}

fn by_hledger(file: &str) -> BTreeMap<String, String> {
    let text = run("hledger", &["-f", file, "balance", "--flat", "--empty", "--no-total", "-O", "csv"]);
    let fields = |line: &str| {
        let (account, amount) = line.trim_matches('"').split_once("\",\"").unwrap();
        (account.to_owned(), amount.trim_end_matches(asset().as_str()).trim().to_owned())
    };
    text.lines().skip(1).map(fields).collect()
}

fn by_ledger(file: &str) -> BTreeMap<String, String> {
    let format = "%(account)\t%(quantity(scrub(amount)))\n";
    let args = ["--args-only", "-f", file, "balance", "--flat", "--empty", "--no-total", "--format", format];
    let text = run("ledger", &args);
    let fields = |line: &str| {
        let (account, amount) = line.split_once('\t').unwrap();
        (account.to_owned(), amount.trim().to_owned())
    };
    text.lines().filter(|line| !line.is_empty()).map(fields).collect()
}

fn by_beancount(file: &str) -> BTreeMap<String, String> {
    let errors = run("bean-check", &[file]);
    assert_eq!(errors, "");
    let query = "SELECT account, sum(number) GROUP BY account";
    let text = run("bean-query", &["-f", "csv", file, query]);
    let fields = |line: &str| {
        let (account, amount) = line.split_once(',').unwrap();
        (account.trim().to_owned(), amount.trim().to_owned())
    };
    text.lines().skip(1).map(fields).collect()
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).env("LC_ALL", "C.UTF-8").output();
    let output = output.unwrap_or_else(|error| panic!("install the Debian package of {program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

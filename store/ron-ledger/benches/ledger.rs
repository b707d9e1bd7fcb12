//! Transfers a second: ours, and the same double entry in hand-written SQL on the same server. Run by bench/ledger.py.
//!
//!     ledger <sqlite:FILE | postgres://…> <transfers> <single transfers>
//!
//! Prints one JSON object per case.

#![expect(clippy::unwrap_used, reason = "a measurement: a failure may panic")]

use std::{path::Path, thread, time::Instant};

use ledgerbook::TailAudit;
use ron_ledger::{
    AccountId, Amount, Asset, Batch, Checkpoint, Floor, Key, Ledger, Link, Place, Reference, Scrutiny, Step,
    Terms, Transfer,
};

const ACCOUNTS: u64 = 10_000;
const BATCH: u64 = 1000;
const THREADS: u64 = 16;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (url, count, single) = (args.next().unwrap(), args.next().unwrap(), args.next().unwrap());
    let (count, single): (u64, u64) = (count.parse().unwrap(), single.parse().unwrap());
    let place: Place = url.parse().unwrap();
    ours(&place, count, single);
    match &place {
        Place::File(path) => by_hand_sqlite(&path.with_extension("hand"), count, single),
        Place::Server(url) => by_hand_postgres(url, count, single),
        Place::Memory => panic!("measure something that is kept"),
    }
}

fn report(case: &str, transfers: u64, start: Instant) -> f64 {
    let seconds = start.elapsed().as_secs_f64();
    println!("{{\"case\": \"{case}\", \"transfers\": {transfers}, \"seconds\": {seconds:.6}}}");
    seconds
}

fn account(number: u64) -> AccountId {
    AccountId::new(&format!("actor/b3:{:032x}", number % ACCOUNTS)).unwrap()
}

/// The same pairs for everybody.
fn pair(number: u64) -> (u64, u64, u64) {
    let from = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % ACCOUNTS;
    (from, (from + 1 + number % (ACCOUNTS - 1)) % ACCOUNTS, 1 + number % 1000)
}

fn batch(key: &str, steps: Vec<Step>) -> Batch {
    Batch::new(Key::new(key).unwrap(), Reference::new("bench").unwrap(), 1_700_000_000, steps).unwrap()
}

fn step(number: u64) -> Step {
    let (from, to, amount) = pair(number);
    Step::Transfer(Transfer { from: account(from), to: account(to), amount: Amount::from(amount) })
}

fn ours(place: &Place, count: u64, single: u64) {
    let ledger = place.open(&Scrutiny::Nothing).unwrap();
    let ledger: &dyn Ledger = &*ledger;
    let asset = Asset::new("CREDIT").unwrap();
    let open = |number| Step::Open(Terms { account: account(number), asset, floor: Floor::Unlimited });
    ledger.post(&batch("open", (0..ACCOUNTS).map(open).collect())).unwrap();
    let before = ledger.snapshot().unwrap().head().unwrap();
    let start = Instant::now();
    for first in (0..count).step_by(usize::try_from(BATCH).unwrap()) {
        ledger.post(&batch(&format!("batch/{first}"), (first..first + BATCH).map(step).collect())).unwrap();
    }
    report("batched", count, start);
    chain(ledger, before);
    let start = Instant::now();
    for number in 0..single {
        ledger.post(&batch(&format!("single/{number}"), vec![step(number)])).unwrap();
    }
    report("single", single, start);
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in (thread..single).step_by(usize::try_from(THREADS).unwrap()) {
                    ledger.post(&batch(&format!("many/{number}"), vec![step(number)])).unwrap();
                }
            });
        }
    });
    report(&format!("single, {THREADS} at once"), single, start);
}

/// What the chain costs at most: reading rows through an audit hashes every leaf, node and link, and sums balances.
fn chain(ledger: &dyn Ledger, before: Link) {
    let mut snapshot = ledger.snapshot().unwrap();
    let everything = u32::MAX;
    let requests = snapshot.requests(before.requests, everything).unwrap();
    let entries = snapshot.entries(before.entries, everything).unwrap();
    let links = snapshot.links(before.number, everything).unwrap();
    let mut entries = entries.iter().peekable();
    let mut requests = requests.iter();
    let start = Instant::now();
    let checkpoint = Checkpoint { link: before, state: [0; 32], key: [0; 32], signature: [0; 64] };
    let mut audit = TailAudit::after(checkpoint);
    let mut seen = 0;
    for link in &links {
        while let Some(request) = (seen < link.requests - before.requests).then(|| requests.next()).flatten()
        {
            audit.request(request).unwrap();
            while let Some(entry) = entries.next_if(|entry| entry.request == request.number) {
                audit.entry(entry).unwrap();
            }
            seen += 1;
        }
        audit.link(link).unwrap();
    }
    report("chain of the batched, at most", links.last().unwrap().entries - before.entries, start);
}

const ENTRY: &str = "INSERT INTO entries (source, target, amount) VALUES ($1, $2, $3)";
const TAKE: &str = "UPDATE accounts SET balance = balance - $2 WHERE id = $1";
const GIVE: &str = "UPDATE accounts SET balance = balance + $2 WHERE id = $1";

fn by_hand_sqlite(path: &Path, count: u64, single: u64) {
    let mut sql = rusqlite::Connection::open(path).unwrap();
    sql.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    sql.pragma_update(None, "synchronous", "FULL").unwrap();
    sql.execute_batch(
        "CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL) WITHOUT ROWID, STRICT;
         CREATE TABLE entries (number INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL,
             amount INTEGER NOT NULL) STRICT",
    )
    .unwrap();
    let filling = sql.transaction().unwrap();
    for number in 0..ACCOUNTS {
        let id = account(number);
        filling.execute("INSERT INTO accounts VALUES (?, 0)", [id.as_str()]).unwrap();
    }
    filling.commit().unwrap();
    let mut book = |numbers: std::ops::Range<u64>| {
        let transaction = sql.transaction().unwrap();
        for number in numbers {
            let (from, to, amount) = pair(number);
            let (from, to) = (account(from), account(to));
            let (from, to) = (from.as_str(), to.as_str());
            transaction.prepare_cached(ENTRY).unwrap().execute((from, to, amount)).unwrap();
            transaction.prepare_cached(TAKE).unwrap().execute((from, amount)).unwrap();
            transaction.prepare_cached(GIVE).unwrap().execute((to, amount)).unwrap();
        }
        transaction.commit().unwrap();
    };
    let start = Instant::now();
    (0..count).step_by(usize::try_from(BATCH).unwrap()).for_each(|first| book(first..first + BATCH));
    report("batched, by hand", count, start);
    let start = Instant::now();
    (0..single).for_each(|number| book(number..number + 1));
    report("single, by hand", single, start);
}

fn by_hand_postgres(url: &str, count: u64, single: u64) {
    let mut sql = postgres::Client::connect(url, postgres::NoTls).unwrap();
    sql.batch_execute(
        "CREATE SCHEMA hand; SET search_path = hand;
         CREATE TABLE accounts (id text PRIMARY KEY, balance numeric(39, 0) NOT NULL);
         CREATE TABLE entries (number bigserial PRIMARY KEY, source text NOT NULL, target text NOT NULL,
             amount bigint NOT NULL)",
    )
    .unwrap();
    for number in 0..ACCOUNTS {
        sql.execute("INSERT INTO accounts VALUES ($1, 0)", &[&account(number).as_str()]).unwrap();
    }
    let statements = [ENTRY, TAKE, GIVE].map(|text| text.replace("balance - $2", "balance - $2::bigint"));
    let [entry, take, give] =
        statements.map(|text| sql.prepare(&text.replace("balance + $2", "balance + $2::bigint")).unwrap());
    let mut book = |numbers: std::ops::Range<u64>| {
        let mut transaction = sql.transaction().unwrap();
        for number in numbers {
            let (from, to, amount) = pair(number);
            let (from, to) = (account(from), account(to));
            let (from, to, amount) = (from.as_str(), to.as_str(), i64::try_from(amount).unwrap());
            transaction.execute(&entry, &[&from, &to, &amount]).unwrap();
            transaction.execute(&take, &[&from, &amount]).unwrap();
            transaction.execute(&give, &[&to, &amount]).unwrap();
        }
        transaction.commit().unwrap();
    };
    let start = Instant::now();
    (0..count).step_by(usize::try_from(BATCH).unwrap()).for_each(|first| book(first..first + BATCH));
    report("batched, by hand", count, start);
    let start = Instant::now();
    (0..single).for_each(|number| book(number..number + 1));
    report("single, by hand", single, start);
}

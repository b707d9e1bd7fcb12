//! Killed in the middle of writing and evicting, again and again: what is left is whole, and nothing half is left.
//!
//! `CAS_CRASH_ROUNDS=1000 cargo test -p cas crash:: -- --nocapture` does it a thousand times.

use std::{
    collections::HashMap,
    env,
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crate::support::{Folder, GROUP, id_of, limits, object};
use cas::{Cas, Change, Limits, UrlIndex, UrlRow};
use types::ObjectId;

const FOLDER: &str = "CAS_CRASH_FOLDER";
const CAP: &str = "CAS_CRASH_CAP";
const FIRST: &str = "CAS_CRASH_FIRST";
const ROUNDS: &str = "CAS_CRASH_ROUNDS";

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

/// The object that everybody makes of a seed.
fn seeded(seed: u64) -> Vec<u8> {
    let lens = [0, 100, 5000, GROUP, GROUP + 1, 3 * GROUP, 100_000];
    object(seed, lens[usize::try_from(seed % 7).unwrap()])
}

fn url(seed: u64) -> String {
    format!("https://example.org/{seed}")
}

#[test]
#[ignore = "the program that is killed; the other tests start it"]
fn writes_until_it_is_killed() {
    let folder = env::var(FOLDER).expect("started by the other tests");
    let cas = Cas::at(Path::new(&folder), limits(number(CAP).unwrap())).unwrap();
    let index = Mutex::new(UrlIndex::open(&Path::new(&folder).join("urls.db")).unwrap().0);
    let next = AtomicU64::new(number(FIRST).unwrap());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    store(&cas, &index, next.fetch_add(1, Ordering::Relaxed));
                }
            });
        }
    });
}

/// Stores an object as a fill does: the object first, then its row, then the news.
fn store(cas: &Cas, index: &Mutex<UrlIndex>, seed: u64) {
    let bytes = seeded(seed);
    let mut writer = cas.begin().unwrap();
    for piece in bytes.chunks(30_000) {
        writer.write(piece).unwrap();
    }
    if seed.is_multiple_of(11) {
        return;
    }
    let committed = writer.commit().unwrap();
    let row = UrlRow {
        url: url(seed),
        object: Some(committed.id),
        len: committed.len,
        status: 200,
        used: seed,
        ..UrlRow::default()
    };
    let evicted = committed.evicted.iter().map(|id| Change::RemoveObject(*id));
    let changes: Vec<_> = evicted.chain([Change::Put(&row)]).collect();
    index.lock().unwrap().apply(&changes).unwrap();
    eprintln!("{seed}");
}

fn start(folder: &Folder, cap: u64, first: u64) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "crash::writes_until_it_is_killed"])
        .env(FOLDER, folder.path())
        .env(CAP, cap.to_string())
        .env(FIRST, first.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the writer until it has stored some objects, kills it, and says which it told of.
fn run_and_kill(folder: &Folder, cap: u64, first: u64, until: usize) -> Vec<u64> {
    let mut child = start(folder, cap, first);
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let seed = |line: io::Result<String>| line.unwrap().parse().unwrap_or_else(|_| panic!("it failed"));
    let mut seeds: Vec<u64> = told.by_ref().take(until).map(seed).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    seeds.extend(told.map_while(|line| line.ok()?.parse::<u64>().ok()));
    seeds
}

/// What must hold whenever the writer was killed. Gives back the rows.
fn check(folder: &Folder, cap: u64) -> HashMap<String, ObjectId> {
    let cas = Cas::at(&folder.path(), limits(cap)).unwrap();
    assert_eq!(folder.files("tmp"), vec![], "nothing half-written is left");
    let files = folder.files("objects");
    let taken: u64 = files.iter().map(|(_, len)| len.max(&1).next_multiple_of(4096)).sum();
    assert!(taken <= cap, "{taken}");
    assert_eq!(taken, cas.stat().taken_bytes, "every file belongs to an object");
    for id in cas.ids() {
        let bytes = cas.open(id).unwrap().unwrap().read_all().unwrap();
        assert_eq!(id_of(&bytes), id);
    }
    let (mut index, _) = UrlIndex::open(&folder.path().join("urls.db")).unwrap();
    let rows = index.load(1_000_000).unwrap();
    rows.into_iter().map(|row: UrlRow| (row.url, row.object.unwrap())).collect()
}

/// A point in the writer's life, different each round.
fn moment(round: u64) -> usize {
    usize::try_from(1 + round * 7919 % 23).unwrap()
}

#[test]
fn what_was_told_to_be_stored_is_there_after_a_kill() {
    let folder = Folder::new();
    let cap = Limits::default().max_bytes;
    let mut told = Vec::new();
    for round in 0..number(ROUNDS).unwrap_or(6).min(200) {
        told.extend(run_and_kill(&folder, cap, 1_000_000 * round, moment(round)));
        let rows = check(&folder, cap);
        let cas = folder.cas();
        for seed in &told {
            let id = id_of(&seeded(*seed));
            assert_eq!(rows.get(&url(*seed)), Some(&id), "round {round}");
            assert!(cas.contains(id), "round {round}");
        }
    }
    assert!(told.len() > 6);
}

#[test]
fn a_full_store_keeps_its_cap_and_its_word_through_kills() {
    let folder = Folder::new();
    let cap = 700_000;
    for round in 0..number(ROUNDS).unwrap_or(8) {
        run_and_kill(&folder, cap, 1_000_000 * round, 10 + moment(round));
        for (url, id) in check(&folder, cap) {
            let seed: u64 = url.rsplit('/').next().unwrap().parse().unwrap();
            assert_eq!(id_of(&seeded(seed)), id, "round {round}");
        }
    }
    assert!(folder.cas().stat().objects > 5);
}

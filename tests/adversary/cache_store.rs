//! A cache on a disk that lies, a process that is killed, a disk that is full: never a wrong byte, and never the fields of one
//! response with the body of another.
//!
//! `OMNIGATE_FLIPS=10000` flips so many bits, `OMNIGATE_KILLS=200` kills so often.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Sender},
    },
    thread,
};

use crate::{
    cache_node::{EMPTY, Lives, program, send},
    cache_origin::{Origin, field, is_hit, target, unchanged, whole},
    support::{Answer, be_patient, eventually, get},
};

/// A source of chance with a seed that a failing test prints.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        eprintln!("seed {seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn number(name: &str, unless: u64) -> u64 {
    std::env::var(name).map_or(unless, |text| text.parse().unwrap())
}

/// Targets whose answers have versions, which a PUT counts up.
#[derive(Default)]
struct Versions {
    /// What the server has.
    current: Vec<AtomicU64>,
    /// What clients were told is there at least.
    told: Vec<AtomicU64>,
}

impl Versions {
    fn of(targets: usize) -> Arc<Self> {
        let zeros = || (0..targets).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { current: zeros(), told: zeros() })
    }

    fn len(&self) -> usize {
        self.current.len()
    }

    /// A server that has them, with bodies of up to `longest` bytes.
    fn origin(self: &Arc<Self>, longest: usize) -> Origin {
        let versions = Arc::clone(self);
        Origin::start(move |request| {
            let nth: usize = target(request).trim_start_matches('/').parse().unwrap();
            if request.starts_with("PUT") {
                versions.current[nth].fetch_add(1, Ordering::SeqCst);
                return whole(200, "", "");
            }
            let version = versions.current[nth].load(Ordering::SeqCst);
            let tag = format!("\"{nth}-{version}\"");
            let fields = format!("cache-control: max-age=3600\r\netag: {tag}\r\nx-version: {version}\r\n");
            if field(request, "if-none-match").is_some_and(|known| known == tag) {
                return format!("HTTP/1.1 304 X\r\n{fields}\r\n");
            }
            whole(200, &fields, &body(nth, version, longest))
        })
    }

    /// Holds an answer to what it says of itself, and to what clients were told before it was asked for.
    fn check(&self, nth: usize, at_least: u64, answer: &Answer, longest: usize) {
        assert_eq!(answer.status, 200, "{nth}: {answer:?}");
        let version: u64 = answer.header("x-version").unwrap().parse().unwrap();
        let now = self.current[nth].load(Ordering::SeqCst);
        assert!((at_least..=now).contains(&version), "{nth}: version {version} of {at_least} to {now}");
        assert_eq!(answer.header("etag"), Some(format!("\"{nth}-{version}\"").as_str()), "mixed fields");
        let expected = body(nth, version, longest);
        assert!(answer.body == expected, "{nth}: the body of version {version} is wrong");
    }
}

/// The body of a version of a target.
fn body(nth: usize, version: u64, longest: usize) -> String {
    let len = match nth % 8 {
        0 => 0,
        1 => 1,
        2 => 16_384,
        3 => 16_385,
        other => longest / 8 * other + nth,
    };
    let word = format!("{nth} in version {version}, ");
    word.chars().cycle().take(len.min(longest)).collect()
}

fn flip(path: &Path, chance: &mut Chance) {
    let mut bytes = fs::read(path).unwrap();
    let bit = chance.below(bytes.len() as u64 * 8);
    bytes[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, into) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &into);
        } else {
            fs::copy(path, into).unwrap();
        }
    }
}

#[test]
fn what_was_stored_outlasts_a_kill_and_a_stop() {
    let versions = Versions::of(8);
    let origin = versions.origin(70_000);
    let mut node = Lives::of(&origin, "{}", "");
    node.start();
    for nth in 0..8 {
        versions.check(nth, 0, &node.get(&format!("/{nth}"), ""), 70_000);
    }
    node.wait_for_disk(8);
    let asked = origin.count();
    node.kill();
    for round in 0..2 {
        node.start();
        for nth in 0..8 {
            let answer = node.get(&format!("/{nth}"), "");
            assert!(is_hit(&answer), "round {round}, {nth}: {answer:?}");
            versions.check(nth, 0, &answer, 70_000);
        }
        let part = node.get("/6", "range: bytes=5-14\r\n");
        assert_eq!((part.status, part.body.as_str()), (206, &body(6, 0, 70_000)[5..15]));
        let known = node.get("/7", "if-none-match: \"7-0\"\r\n");
        assert_eq!((known.status, is_hit(&known)), (304, true));
        node.stop();
    }
    assert_eq!(origin.count(), asked, "the server is not asked again");
    let folder = node.folder();
    assert!(fs::metadata(folder.join("index.log")).unwrap().len() > 0);
}

#[test]
fn equal_bodies_are_stored_once() {
    let origin = Origin::start(|_| whole(200, "cache-control: max-age=60\r\n", &"same".repeat(1000)));
    let mut node = Lives::of(&origin, "{}", "");
    node.start();
    for nth in 0..5 {
        node.get(&format!("/{nth}"), "");
    }
    node.wait_for_disk(5);
    let report = node.cache("");
    assert_eq!(
        (&report["targets"], &report["disk_objects"], &report["store"]),
        (&5.into(), &1.into(), &"disk".into())
    );
    node.run(&["cache", "purge", "http://a/0"]);
    assert_eq!(node.cache("")["disk_objects"], 1, "others have it");
    node.run(&["cache", "purge", "--all"]);
    assert_eq!(node.cache("")["disk_objects"], 0, "nobody has it");
}

#[test]
fn with_amnesia_or_without_room_on_a_disk_nothing_is_written() {
    let origin = Origin::start(|_| whole(200, "cache-control: max-age=60\r\n", "x"));
    for settings in ["cache.disk_bytes = 0", "[node]\namnesia = true"] {
        let mut node = Lives::of(&origin, "{}", settings);
        node.start();
        node.get("/", "");
        assert!(is_hit(&node.get("/", "")));
        assert_eq!(node.cache("")["store"], "memory");
        assert!(!node.dir.path().join("data").exists(), "{settings}");
    }
}

#[test]
fn no_flipped_bit_of_a_body_is_given_out() {
    let flips = number("OMNIGATE_FLIPS", 150);
    let (targets, longest) = (40, 300_000);
    let versions = Versions::of(targets);
    let origin = versions.origin(longest);
    // Less memory than there are bodies: those that are asked for in turn are read from the disk each time.
    let mut node =
        Lives::of(&origin, "{}", "cache.max_bytes = \"4MiB\"\ncache.max_object_bytes = \"512KiB\"");
    node.start();
    let mut chance = Chance::new(seed());
    let mut flipped = 0;
    while flipped < flips {
        for nth in 0..targets {
            versions.check(nth, 0, &node.get(&format!("/{nth}"), ""), longest);
        }
        node.wait_for_disk(targets);
        let files = files_below(&node.folder().join("objects/objects"));
        for path in files {
            flip(&path, &mut chance);
            flipped += 1;
        }
        for nth in 0..targets {
            versions.check(nth, 0, &node.get(&format!("/{nth}"), ""), longest);
        }
    }
    let damaged = node.metric("gateway_cache_damaged_total");
    eprintln!("{flipped} bits flipped, {damaged} damaged bodies were found, 0 wrong");
    assert!(damaged > flips / 10, "only {damaged} of {flipped} were noticed");
}

#[test]
fn no_flipped_bit_of_the_index_brings_anything_back_or_mixes_it() {
    let flips = number("OMNIGATE_FLIPS", 400) / 50;
    let (targets, longest) = (12, 20_000);
    let versions = Versions::of(targets);
    let origin = versions.origin(longest);
    let mut node = Lives::of(&origin, "{}", "");
    node.start();
    let get = |node: &Lives, nth: usize| {
        let told = versions.told[nth].load(Ordering::SeqCst);
        let answer = node.get(&format!("/{nth}"), "");
        versions.check(nth, told, &answer, longest);
        is_hit(&answer)
    };
    for nth in 0..targets {
        get(&node, nth);
    }
    node.wait_for_disk(targets);
    // Half of them are written anew; of these, half are stored again.
    for nth in (0..targets).step_by(2) {
        node.put(&format!("/{nth}"));
        versions.told[nth].fetch_add(1, Ordering::SeqCst);
    }
    for nth in (0..targets).step_by(4) {
        get(&node, nth);
        eventually("it is on the disk", || node.is_on_disk(&format!("/{nth}")).then_some(()));
    }
    node.kill();
    let sound = tempfile::tempdir().unwrap();
    copy(&node.folder(), sound.path());
    // The very file, because a copy is not believed.
    let log = node.dir.path().join("kept.log");
    fs::hard_link(node.folder().join("index.log"), &log).unwrap();
    let mut chance = Chance::new(seed());
    let mut hits = 0;
    for round in 0..=flips {
        fs::remove_dir_all(node.folder()).unwrap();
        copy(sound.path(), &node.folder());
        fs::write(&log, fs::read(sound.path().join("index.log")).unwrap()).unwrap();
        fs::remove_file(node.folder().join("index.log")).unwrap();
        fs::hard_link(&log, node.folder().join("index.log")).unwrap();
        if round > 0 {
            flip(&node.folder().join("index.log"), &mut chance);
            for path in files_below(&node.folder().join("objects/objects")).iter().take(3) {
                flip(path, &mut chance);
            }
        }
        node.start();
        let hit = (0..targets).filter(|nth| get(&node, *nth)).count();
        // What was written anew and not stored again is not there.
        assert!(round > 0 || hit == targets - targets / 4, "without damage {hit} were found");
        assert!(round == 0 || hit == 0, "after damage all are validated: {hit} were believed");
        hits += hit;
        node.kill();
    }
    eprintln!("{flips} bits of the index flipped, {hits} hits, 0 wrong");
}

#[test]
fn a_restored_backup_brings_nothing_back_that_was_purged() {
    let version = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&version);
    let origin = Origin::start(move |request| {
        let tag = format!("\"{}\"", shown.load(Ordering::SeqCst));
        let fields = format!("cache-control: max-age=3600\r\netag: {tag}\r\n");
        match field(request, "if-none-match") {
            Some(known) if known == tag => unchanged(&fields),
            _ => whole(200, &fields, &tag),
        }
    });
    // A backup of a node that runs, and of one that was stopped.
    for was_stopped in [false, true] {
        let mut node = Lives::of(&origin, "{}", "");
        node.start();
        let first = node.get("/0", "").body;
        node.wait_for_disk(1);
        let backup = tempfile::tempdir().unwrap();
        if was_stopped {
            node.stop();
        }
        copy(&node.folder(), backup.path());
        if was_stopped {
            node.start();
        }
        version.fetch_add(1, Ordering::SeqCst);
        assert!(node.run(&["cache", "purge", "http://a/0"]).status.success());
        let second = node.get("/0", "").body;
        assert_ne!(first, second);
        node.stop();
        fs::remove_dir_all(node.folder()).unwrap();
        copy(backup.path(), &node.folder());
        node.start();
        assert_eq!(node.get("/0", "").body, second, "was stopped: {was_stopped}");
    }
}

/// What clients do until the node is killed. Each request that was answered is told.
fn use_until_it_ends(node: SocketAddr, versions: &Versions, done: &Sender<()>, seed: u64, longest: usize) {
    let mut chance = Chance(seed);
    loop {
        let nth = usize::try_from(chance.below(versions.len() as u64)).unwrap();
        let (told, target) = (versions.told[nth].load(Ordering::SeqCst), format!("/{nth}"));
        let outcome = match chance.below(8) {
            0 => send(node, "PUT", &target, EMPTY).map(|answer| {
                assert_eq!(answer.status, 200);
                // Others may have written as well, but never less than this one.
                versions.told[nth].fetch_max(told + 1, Ordering::SeqCst);
            }),
            1 => send(node, "GET", &target, "cache-control: no-cache\r\n")
                .map(|answer| versions.check(nth, told, &answer, longest)),
            _ => send(node, "GET", &target, "").map(|answer| versions.check(nth, told, &answer, longest)),
        };
        if outcome.is_err() {
            return;
        }
        let _ = done.send(());
    }
}

#[test]
fn a_kill_in_the_middle_of_fills_and_updates_mixes_nothing() {
    let kills = number("OMNIGATE_KILLS", 4);
    let (targets, longest) = (24, 40_000);
    let versions = Versions::of(targets);
    let origin = versions.origin(longest);
    let mut node = Lives::of(&origin, "{}", "");
    let mut chance = Chance::new(seed());
    let (mut hits, mut all_ops) = (0, 0);
    for round in 0..kills {
        node.start();
        // What is there after the kill before.
        for nth in 0..targets {
            let told = versions.told[nth].load(Ordering::SeqCst);
            let answer = node.get(&format!("/{nth}"), "");
            versions.check(nth, told, &answer, longest);
            hits += u64::from(round > 0 && is_hit(&answer));
        }
        let until = usize::try_from(10 + chance.below(150)).unwrap();
        let (done, ops) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..4 {
                let (seed, versions, gateway) = (chance.next(), &*versions, node.gateway);
                let done = done.clone();
                scope.spawn(move || use_until_it_ends(gateway, versions, &done, seed, longest));
            }
            drop(done);
            all_ops += ops.iter().take(until).count();
            node.kill();
        });
        all_ops += ops.iter().count();
    }
    eprintln!("{kills} kills, {all_ops} requests, {hits} hits after kills, 0 wrong, 0 mixed");
    assert!(hits > 0, "nothing outlasted a kill");
}

#[test]
fn a_full_disk_is_told_and_keeps_nobody_from_being_served() {
    for before in ["true", "dd if=/dev/zero of=filler bs=4k 2>/dev/null"] {
        let versions = Versions::of(40);
        let origin = versions.origin(60_000);
        let mut node = Lives::of(&origin, "{}", "");
        fs::write(node.dir.path().join("omnigate.toml"), &node.text).unwrap();
        fs::create_dir(node.dir.path().join("data")).unwrap();
        // A namespace of its own, in which anybody may mount a disk of memory.
        let script = format!(
            "mount -t tmpfs -o size=1m none data && (cd data && {before}); exec {} up --config omnigate.toml",
            program()
        );
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--mount", "sh", "-c", &script])
            .current_dir(node.dir.path())
            .env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        be_patient(&mut command, &node.text);
        let log = fs::File::create(node.dir.path().join("node.log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        node.node = Some(child);
        node.wait_until_ready();
        for _ in 0..2 {
            for nth in 0..40 {
                versions.check(nth, 0, &node.get(&format!("/{nth}"), ""), 60_000);
            }
        }
        assert!(is_hit(&node.get("/39", "")), "what cannot be written is stored in memory");
        eventually("readiness tells of it", || {
            get(node.admin, "/readyz").ok().filter(|answer| answer.body.contains("cache_store"))
        });
        // What a write invalidates is gone, though that cannot be written either.
        node.put("/39");
        versions.check(39, 1, &node.get("/39", ""), 60_000);
    }
}

/// A seed of its own for each run, or the one that is named.
fn seed() -> u64 {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    number("OMNIGATE_SEED", u64::try_from(nanos % u128::from(u64::MAX)).unwrap())
}

//! `omnigate cas`: what each command prints and writes, and what it says of an object that is not what it was.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Output, Stdio},
};

use crate::cli_run::{Ran, omnigate, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// `printf hello | b3sum`.
const HELLO: &str = "b3:ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";

/// A folder to work in, with the store in `data/cas` below it.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    /// Runs `omnigate cas` with these words.
    fn cas(&self, words: &str) -> Ran {
        run(omnigate(self.dir.path(), &args(words)))
    }

    /// The same, with something on standard input, and what came out as it came.
    fn told(&self, words: &str, input: &[u8]) -> Output {
        let mut command = omnigate(self.dir.path(), &args(words));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Who refuses what it was told does not wait for it.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// Stores a file of these bytes; its name.
    fn put(&self, bytes: &[u8]) -> String {
        fs::write(self.path("input"), bytes).unwrap();
        let ran = self.cas("put input");
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        ran.out.strip_suffix('\n').unwrap().to_owned()
    }

    fn json(&self, words: &str, code: i32) -> Value {
        let ran = self.cas(&format!("{words} --json"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(code), ""));
        serde_json::from_str(&ran.out).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where an object's bytes are.
    fn object(&self, id: &str) -> PathBuf {
        let hex = id.strip_prefix("b3:").unwrap();
        self.path("data/cas/objects").join(&hex[..2]).join(hex)
    }

    /// Changes one byte of an object on the disk.
    fn spoil(&self, id: &str, at: usize) {
        let mut bytes = fs::read(self.object(id)).unwrap();
        bytes[at] ^= 1;
        fs::write(self.object(id), bytes).unwrap();
    }
}

fn args(words: &str) -> Vec<&str> {
    ["cas"].into_iter().chain(words.split_whitespace()).collect()
}

#[track_caller]
fn assert_fails(ran: &Ran, code: i32, words: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{}", ran.err);
    assert!(ran.err.contains(words), "{words} is missing in\n{}", ran.err);
}

/// More than one piece, and no two groups alike.
fn large() -> Vec<u8> {
    (0..2_500_000_u32).flat_map(|at| [at.to_le_bytes()[0], at.to_le_bytes()[1]]).take(2_500_001).collect()
}

#[test]
fn a_file_is_stored_under_the_hash_of_its_bytes_and_comes_back() {
    let fixture = Fixture::new();
    assert_eq!(fixture.put(b"hello"), HELLO);
    let piped = fixture.told("put -", b"hello");
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), format!("{HELLO}\n"));
    let ran = fixture.cas(&format!("get {HELLO}"));
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "hello", ""));
    let large = large();
    let id = fixture.put(&large);
    assert_eq!(fixture.told(&format!("get {id}"), b"").stdout, large);
    let empty = fixture.put(b"");
    assert_eq!(fixture.cas(&format!("get {empty}")).out, "");
}

#[test]
fn what_was_stored_is_told_as_json() {
    let fixture = Fixture::new();
    fs::write(fixture.path("input"), b"hello").unwrap();
    let told = |new: bool| json!({ "id": HELLO, "len": 5, "new": new, "evicted": [] });
    assert_eq!(fixture.json("put input", 0), told(true));
    assert_eq!(fixture.json("put input", 0), told(false));
    let stat = json!({ "objects": 1, "object_bytes": 5, "taken_bytes": 4096, "quarantined": 0 });
    assert_eq!(fixture.json("stat", 0), stat);
    assert_eq!(
        fixture.cas("stat").out,
        "objects      1\nbytes        5\non disk      4096\nquarantined  0\n"
    );
}

#[test]
fn a_range_is_written_alone() {
    let fixture = Fixture::new();
    let large = large();
    let id = fixture.put(&large);
    for (range, bytes) in [
        ("0-0", 0..1),
        ("16380-16389", 16_380..16_390),
        ("1000000-2200000", 1_000_000..2_200_001),
        ("2500000-", 2_500_000..2_500_001),
        ("-5", 2_499_996..2_500_001),
    ] {
        let output = fixture.told(&format!("get {id} --range {range}"), b"");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(output.stdout, large[bytes], "{range}");
    }
    assert_fails(&fixture.cas(&format!("get {id} --range 2500001-")), 1, "has 2500001 bytes");
    assert_fails(&fixture.cas(&format!("get {id} --range 5-3")), 2, "write 0-99, 100- or -100");
}

#[test]
fn an_output_file_is_written_whole_or_not_at_all() {
    let fixture = Fixture::new();
    let large = large();
    let id = fixture.put(&large);
    fs::write(fixture.path("out"), "before").unwrap();
    fixture.spoil(&id, 2_400_000);
    assert_fails(&fixture.cas(&format!("get {id} -o out")), 1, "is not what was stored");
    assert_eq!(fs::read(fixture.path("out")).unwrap(), b"before");
    assert!(!fixture.path("out.part").exists());
    fixture.spoil(&id, 2_400_000);
    let ran = fixture.cas(&format!("get {id} --output out"));
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    assert_eq!(fs::read(fixture.path("out")).unwrap(), large);
    assert!(!fixture.path("out.part").exists());
}

#[test]
fn no_byte_that_was_changed_comes_out() {
    let fixture = Fixture::new();
    let large = large();
    let id = fixture.put(&large);
    fixture.spoil(&id, 1_500_000);
    let output = fixture.told(&format!("get {id}"), b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.len() < 1_500_000 && large.starts_with(&output.stdout));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("group 91 is not what was stored") && told.contains("cas scrub"), "{told}");
    let aside = fixture.told(&format!("get {id} --range 0-99"), b"");
    assert_eq!(aside.stdout, large[..100], "another part is as good as ever");
}

#[test]
fn a_scrub_sets_aside_what_is_corrupt_and_says_so() {
    let fixture = Fixture::new();
    let (good, bad) = (fixture.put(b"good"), fixture.put(b"bad"));
    let damaged = fixture.put(&[7; 40_000]);
    let clean = "checked 3 objects, 40007 bytes: 0 repaired, 0 quarantined, 0 unreadable\n";
    let ran = fixture.cas("scrub");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), clean, ""));
    fixture.spoil(&bad, 0);
    fs::write(fixture.object(&damaged).with_extension("tree"), "").unwrap();
    let found = fixture.json("scrub", 1);
    assert_eq!((&found["repaired"], &found["quarantined"]), (&json!([damaged]), &json!([bad])));
    assert_eq!((&found["objects"], &found["unreadable"]), (&json!(3), &json!([])));
    assert_fails(&fixture.cas(&format!("get {bad}")), 1, "is not stored");
    assert_eq!(fixture.cas(&format!("get {good}")).out, "good");
    assert_eq!(fixture.json("stat", 0)["quarantined"], 1);
    fixture.spoil(&good, 1);
    let ran = fixture.cas("scrub");
    assert_eq!(ran.code, Some(1));
    let summary = "checked 2 objects, 40000 bytes: 0 repaired, 1 quarantined, 0 unreadable\n";
    assert_eq!(ran.out, format!("quarantined {good}\n{summary}"));
}

#[test]
fn removed_objects_are_gone_and_missing_ones_told() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.put(b"one"), fixture.put(b"two"));
    assert_eq!(fixture.cas(&format!("rm {one}")).code, Some(0));
    assert_fails(&fixture.cas(&format!("rm {one} {two}")), 1, &format!("not stored: {one}"));
    assert_eq!(fixture.json("stat", 0)["objects"], 0, "the other was removed all the same");
}

#[test]
fn a_cap_is_kept_only_if_it_is_asked_for() {
    let fixture = Fixture::new();
    let ids: Vec<String> = (0..3_u8).map(|at| fixture.put(&[at; 4000])).collect();
    fs::write(fixture.path("input"), b"one more").unwrap();
    let stored = fixture.json("put input --max-bytes 12KiB", 0);
    // Which one leaves is told by the times of files, which may be alike.
    let evicted: Vec<&str> =
        stored["evicted"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert!(evicted.len() == 1 && ids.iter().any(|id| id == evicted[0]), "{stored}");
    assert_fails(&fixture.cas("put input --max-bytes much"), 2, "a size such as");
    fs::write(fixture.path("input"), [9; 20_000]).unwrap();
    assert_fails(&fixture.cas("put input --max-bytes 12KiB"), 1, "larger than the store");
    assert_eq!(fixture.json("put input", 0)["evicted"], json!([]));
}

#[test]
fn another_folder_is_named_with_dir() {
    let fixture = Fixture::new();
    fs::write(fixture.path("input"), b"hello").unwrap();
    assert_eq!(fixture.cas("put input --dir elsewhere").code, Some(0));
    assert!(fixture.path("elsewhere/objects").is_dir() && !fixture.path("data").exists());
    assert_eq!(fixture.cas(&format!("get {HELLO} --dir elsewhere")).out, "hello");
    for words in ["stat", "scrub", &format!("get {HELLO}"), &format!("rm {HELLO}")] {
        assert_fails(&fixture.cas(words), 1, "there is no store in ./data/cas");
        assert!(!fixture.path("data").exists(), "{words} makes nothing");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let fixture = Fixture::new();
    fixture.put(b"x");
    assert_fails(&fixture.cas("put no/such/file"), 1, "cannot read no/such/file");
    assert_fails(&fixture.cas("put ."), 1, "cannot read .");
    assert_fails(&fixture.cas("get b3:12"), 2, "64 lower-case hexadecimal digits");
    assert_fails(&fixture.cas("rm"), 2, "<ID>");
    assert_fails(&fixture.cas(&format!("get {HELLO} -o no/such/folder/x")), 1, "is not stored");
    fs::create_dir(fixture.path("mine")).unwrap();
    fs::write(fixture.path("mine/diary"), "private").unwrap();
    assert_fails(&fixture.cas("put input --dir mine"), 1, "mine is no store and not empty");
}

#[test]
fn the_store_is_where_the_edge_of_the_configuration_has_it() {
    let fixture = Fixture::new();
    fs::write(fixture.path("omnigate.toml"), "[node]\ndata_dir = \"kept\"\n").unwrap();
    fs::write(fixture.path("other.toml"), "[edge]\ncas.url = \"file:elsewhere\"\n").unwrap();
    fs::write(fixture.path("input"), "hello").unwrap();
    for (words, folder) in [
        ("put input", "kept/cas"),
        ("put input --config other.toml", "elsewhere"),
        ("put input --dir here", "here"),
    ] {
        assert_eq!(fixture.cas(words).out, format!("{HELLO}\n"), "{words}");
        assert!(fixture.path(folder).is_dir(), "{words}");
    }
    fs::write(fixture.path("omnigate.toml"), "[node]\namnesia = true\n").unwrap();
    let refused = fixture.cas("stat");
    assert_eq!(refused.code, Some(1), "{}", refused.out);
    assert!(refused.err.contains("node.amnesia") && refused.err.contains("--dir"), "{}", refused.err);
    assert_eq!(fixture.cas("stat --dir here").code, Some(0));
}

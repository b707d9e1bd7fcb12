//! `omnigate pack`: what each command prints, and what it refuses to do.

use std::{fs, path::PathBuf, process::Command, sync::LazyLock};

use crate::cli_run::{Ran, omnigate, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A demo pack of each kind, made once.
static MADE: LazyLock<[(&str, Vec<u8>); 2]> = LazyLock::new(|| {
    ["world.pmtiles", "world.mbtiles"].map(|name| {
        let fixture = Fixture::empty();
        let made = fixture.pack(&format!("make --demo {name} --zoom 1"));
        assert_eq!(made.code, Some(0), "{}", made.err);
        assert_eq!(made.err, "drawing zoom 0\ndrawing zoom 1\n", "plain lines, as this is no terminal");
        assert!(made.out.starts_with(&format!("wrote {name}: 5 tiles, zoom 0 to 1, ")), "{}", made.out);
        let names: Vec<_> =
            fs::read_dir(fixture.dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, [name], "nothing is left beside it");
        (name, fs::read(fixture.path(name)).unwrap())
    })
});

/// A folder with these packs.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn empty() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn new() -> Self {
        let fixture = Self::empty();
        for (name, pack) in MADE.iter() {
            fs::write(fixture.path(name), pack).unwrap();
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `omnigate pack` with these words.
    fn pack(&self, words: &str) -> Ran {
        let args: Vec<&str> = ["pack"].into_iter().chain(words.split_whitespace()).collect();
        run(omnigate(self.dir.path(), &args))
    }

    /// The JSON that it prints.
    fn json(&self, words: &str) -> Value {
        let ran = self.pack(&format!("{words} --json"));
        assert_eq!(ran.err, "");
        serde_json::from_str(&ran.out).unwrap()
    }
}

#[track_caller]
fn assert_fails(ran: &Ran, code: i32, words: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{}", ran.err);
    assert!(ran.err.contains(words), "{words} is missing in\n{}", ran.err);
}

#[test]
fn demo_packs_are_sound() {
    let fixture = Fixture::new();
    let ran = fixture.pack("verify world.pmtiles world.mbtiles");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    let lines: Vec<_> = ran.out.lines().collect();
    assert!(lines[0].starts_with("world.pmtiles: sound: pmtiles, 5 png tiles, zoom 0 to 1, "), "{}", ran.out);
    assert!(lines[1].starts_with("world.mbtiles: sound: mbtiles, 5 png tiles, zoom 0 to 1, "), "{}", ran.out);
    assert_eq!(lines.len(), 2);
    let names: Vec<_> =
        fs::read_dir(fixture.dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing is left beside them: {names:?}");
}

#[test]
fn both_kinds_hold_the_same_tiles() {
    let fixture = Fixture::new();
    for tile in ["0/0/0", "1/0/0", "1/1/0", "1/0/1", "1/1/1"] {
        let [pmtiles, mbtiles] = ["world.pmtiles", "world.mbtiles"]
            .map(|pack| fixture.json(&format!("inspect {pack} --tile {tile}")));
        assert_eq!(pmtiles, mbtiles);
        assert_eq!((&pmtiles["media_type"], &pmtiles["coding"]), (&json!("image/png"), &Value::Null));
    }
}

#[test]
fn a_demo_pack_is_the_same_every_time() {
    let fixture = Fixture::new();
    assert_eq!(fixture.pack("make --demo again.pmtiles --zoom 1").code, Some(0));
    assert_eq!(
        fs::read(fixture.path("again.pmtiles")).unwrap(),
        fs::read(fixture.path("world.pmtiles")).unwrap()
    );
}

#[test]
fn a_file_is_replaced_only_when_told() {
    let fixture = Fixture::empty();
    for name in ["a.pmtiles", "a.mbtiles"] {
        fs::write(fixture.path(name), "mine").unwrap();
        assert_fails(&fixture.pack(&format!("make --demo {name} --zoom 0")), 1, "already exists");
        assert_eq!(fs::read_to_string(fixture.path(name)).unwrap(), "mine");
        assert_eq!(fixture.pack(&format!("make --demo {name} --zoom 0 --force")).code, Some(0));
        assert_eq!(fixture.pack(&format!("verify {name}")).code, Some(0));
    }
    let ran = fixture.pack("make --demo no/such/folder.pmtiles --zoom 0");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("there is no folder no/such"), "{}", ran.err);
    assert_fails(&fixture.pack("make out.pmtiles"), 2, "--demo");
    assert_fails(&fixture.pack("make --demo out.pmtiles --zoom 9"), 2, "9 is not in 0..=8");
}

#[test]
fn an_edge_is_not_started_for_what_is_no_pack() {
    let fixture = Fixture::empty();
    fs::write(fixture.path("text.pmtiles"), "hello").unwrap();
    fs::create_dir(fixture.path("folder")).unwrap();
    for (name, why) in [
        ("none.pmtiles", "there is no pack none.pmtiles"),
        ("text.pmtiles", "text.pmtiles is neither PMTiles nor MBTiles"),
        ("folder", "folder is a folder"),
    ] {
        let ran = run(omnigate(fixture.dir.path(), &["edge", "--pack", name]));
        assert!(ran.code == Some(2) && ran.err.contains(why), "{:?} {}", ran.code, ran.err);
    }
}

#[test]
fn a_pack_that_is_refused_is_told_with_its_reason() {
    let fixture = Fixture::new();
    let whole = fs::read(fixture.path("world.pmtiles")).unwrap();
    fs::write(fixture.path("short.pmtiles"), &whole[..whole.len() - 1]).unwrap();
    fs::write(fixture.path("text.pmtiles"), "hello").unwrap();
    let ran = fixture.pack("verify short.pmtiles world.pmtiles text.pmtiles none.pmtiles");
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    let lines: Vec<_> = ran.out.lines().collect();
    assert!(
        lines[0].starts_with("short.pmtiles: refused: the header is refused: the tile data ("),
        "{}",
        ran.out
    );
    assert!(lines[1].starts_with("world.pmtiles: sound: "), "{}", ran.out);
    assert_eq!(lines[2], "text.pmtiles: refused: it is neither PMTiles nor MBTiles, by its first bytes");
    assert!(lines[3].starts_with("none.pmtiles: refused: it cannot be opened: "), "{}", ran.out);

    let verdicts = fixture.json("verify text.pmtiles world.mbtiles");
    let reason = "it is neither PMTiles nor MBTiles, by its first bytes";
    assert_eq!(verdicts[0], json!({ "path": "text.pmtiles", "sound": false, "reason": reason }));
    assert_eq!((&verdicts[1]["sound"], &verdicts[1]["format"]), (&json!(true), &json!("mbtiles")));
    assert_fails(&fixture.pack("inspect text.pmtiles"), 1, "text.pmtiles is refused: it is neither");
}

#[test]
fn a_pack_can_be_held_to_its_id() {
    let fixture = Fixture::new();
    let id = fixture.json("verify world.pmtiles")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(fixture.pack(&format!("verify world.pmtiles --id {id}")).code, Some(0));
    let ran = fixture.pack(&format!("verify world.mbtiles --id {id}"));
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains(&format!("but {id} was asked for")), "{}", ran.out);
    assert_fails(
        &fixture.pack(&format!("verify world.pmtiles world.mbtiles --id {id}")),
        2,
        "--id is for one pack",
    );
    assert_fails(&fixture.pack("verify world.pmtiles --id b3:7"), 2, "64 lower-case hexadecimal digits");
}

#[test]
fn a_pack_can_be_held_to_its_signature() {
    let fixture = Fixture::new();
    let id = fixture.json("verify world.pmtiles")[0]["id"].as_str().unwrap().to_owned();
    fs::write(fixture.path("text"), format!("omnigate-pack-v1 {id}\n")).unwrap();
    for line in [
        "genpkey -algorithm ed25519 -out key.pem",
        "pkey -in key.pem -pubout -out key.pub",
        "pkeyutl -sign -rawin -inkey key.pem -in text -out world.pmtiles.sig",
    ] {
        let Ok(output) =
            Command::new("openssl").args(line.split(' ')).current_dir(fixture.dir.path()).output()
        else {
            println!("openssl is not installed: nothing was tested");
            return;
        };
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(fixture.pack("verify world.pmtiles --key key.pub").code, Some(0));
    let ran = fixture.pack("verify world.mbtiles --key key.pub");
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("world.mbtiles.sig cannot be read"), "{}", ran.out);
    assert_fails(
        &fixture.pack("verify world.pmtiles --key text"),
        2,
        "text: this is no Ed25519 public key in PEM",
    );
    assert_fails(&fixture.pack("verify world.pmtiles --key none"), 1, "none cannot be read");
}

#[test]
fn a_pack_is_described() {
    let fixture = Fixture::new();
    let shown = fixture.json("inspect world.pmtiles");
    let size = fs::metadata(fixture.path("world.pmtiles")).unwrap().len();
    for (key, value) in [
        ("name", json!("Omnigate demo world")),
        ("format", json!("pmtiles")),
        ("size", json!(size)),
        ("tiles", json!(5)),
        ("tile_type", json!("png")),
        ("media_type", json!("image/png")),
        ("min_zoom", json!(0)),
        ("max_zoom", json!(1)),
        ("bounds", json!([-180.0, -85.051_128_7, 180.0, 85.051_128_7])),
        ("notes", json!([])),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    assert_eq!(shown["metadata"]["type"], "baselayer");
    let text = fixture.pack("inspect world.mbtiles").out;
    for line in ["name      Omnigate demo world\n", "format    mbtiles\n", "zooms     0 to 1\n"] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_tile_can_be_saved_and_is_an_image() {
    let fixture = Fixture::new();
    let ran = fixture.pack("inspect world.pmtiles --tile 1/0/1 --save tile.png");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let tile = fs::read(fixture.path("tile.png")).unwrap();
    assert!(ran.out.starts_with(&format!("1/0/1: {} bytes of image/png, b3:", tile.len())), "{}", ran.out);
    assert!(tile.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_fails(&fixture.pack("inspect world.pmtiles --tile 2/0/0"), 1, "the pack has no tile 2/0/0");
    assert_fails(&fixture.pack("inspect world.pmtiles --tile 1/2/0"), 2, "there is no such tile");
    assert_fails(&fixture.pack("inspect world.pmtiles --save x"), 2, "--tile");
}

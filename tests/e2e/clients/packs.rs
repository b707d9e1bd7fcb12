//! Packs and the `pmtiles` package for Python: it reads ours, and we read its.

use std::fmt::Write;

use aws_lc_rs::digest::{Context, SHA256};
use packs::{MountOptions, Pack};
use pmtiles::TileId;

use super::{Command, output, python};

const SCRIPT: &str = "../../core/pmtiles/tests/vectors.py";

fn omnigate(args: &[&str]) -> String {
    output(Command::new(env!("CARGO_BIN_EXE_omnigate")).arg("pack").args(args), b"")
}

/// How many tiles a pack has, and the hash of them all, as the script prints it.
fn summary(pack: &Pack) -> String {
    let (mut digest, mut count) = (Context::new(&SHA256), 0);
    for coord in
        (0..).map_while(TileId::new).map(TileId::coord).take_while(|coord| coord.z() <= pack.info().max_zoom)
    {
        if let Some(tile) = pack.tile(coord.z(), coord.x(), coord.y()).unwrap() {
            digest.update(format!("{coord} {}\n", tile.bytes.len()).as_bytes());
            digest.update(&tile.bytes);
            count += 1;
        }
    }
    let hex = digest.finish().as_ref().iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    format!("{count} {hex}\n")
}

#[test]
#[ignore = "needs Python packages: run `tools/check clients`"]
fn a_reader_in_python_finds_every_tile_of_a_pack_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("demo.pmtiles");
    omnigate(&["make", "--demo", path.to_str().unwrap(), "--zoom", "2"]);
    let pack = Pack::mount(&path, MountOptions::default()).unwrap();
    let read = output(python(SCRIPT).arg("check").arg(&path), b"");
    assert_eq!((read.as_str(), pack.info().tiles), (summary(&pack).as_str(), 21));
}

#[test]
#[ignore = "needs Python packages: run `tools/check clients`"]
fn packs_of_a_writer_in_python_are_sound_and_read_alike() {
    let dir = tempfile::tempdir().unwrap();
    output(python(SCRIPT).arg("write").arg(dir.path()), b"");
    for name in ["flat.pmtiles", "leaves.pmtiles"] {
        let path = dir.path().join(name);
        let verdict = omnigate(&["verify", path.to_str().unwrap()]);
        assert!(verdict.contains("sound") && !verdict.contains("note"), "{verdict}");
        let pack = Pack::mount(&path, MountOptions::default()).unwrap();
        assert_eq!(output(python(SCRIPT).arg("check").arg(&path), b""), summary(&pack));
    }
}

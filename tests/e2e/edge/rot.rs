//! E1: bits flip in packs and in the store, and no wrong byte is served.

use std::{fs, io, path::PathBuf};

use cas::{Cas, Limits};
use types::ObjectId;

use crate::support::Client;

use super::{EdgeNode, age, flip, pack, places, rename_over, tile, write};

/// No RAM: every answer is read from the disk.
const NO_RAM: &str = "packs = [\"world.pmtiles\"]\nram_bytes = 0\ncas.ram_bytes = 0\n";
const OBJECT_LEN: usize = 40_000;

#[test]
fn flipped_bits_in_packs_and_objects_are_never_served() {
    flip_bits(120, fastrand::u64(..));
}

/// E1, in full.
#[test]
#[ignore = "takes minutes: run by name"]
fn ten_thousand_flipped_bits_in_packs_and_objects_are_never_served() {
    flip_bits(10_000, fastrand::u64(..));
}

/// What was served while bits were wrong.
#[derive(Debug, Default)]
struct Tally {
    right: usize,
    refused: usize,
    broken: usize,
}

impl Tally {
    /// Books an answer: right, refused, or broken off before a wrong byte.
    fn book(&mut self, answer: io::Result<crate::support::Answer>, expected: &[u8], what: &str) {
        match answer {
            Ok(answer) if matches!(answer.status, 200 | 206) => {
                assert!(answer.bytes == expected, "{what}: wrong bytes were served");
                self.right += 1;
            }
            Ok(answer) if matches!(answer.status, 404 | 410 | 502) => self.refused += 1,
            Ok(answer) => panic!("{what}: {answer:?}"),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.broken += 1,
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

fn flip_bits(flips: usize, seed: u64) {
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let bytes = pack(3, 0);
    write(&dir.path().join("world.pmtiles"), &bytes);
    age(&dir.path().join("world.pmtiles"));
    let objects = store_objects(&dir.path().join("data/cas"), flips / 2, &mut random);
    let edge = EdgeNode::start_in(dir, NO_RAM);
    edge.wait_for_pack("world", "served");
    let mut tally = Tally::default();
    for _ in 0..flips.div_ceil(2) {
        flip_pack(&edge, &bytes, &mut random, &mut tally);
    }
    for (id, content) in &objects {
        flip_object(&edge, *id, content, &mut random, &mut tally);
    }
    println!("{flips} flips: {tally:?}, 0 wrong");
    assert!(tally.refused + tally.broken > 0, "no flip was ever met: {tally:?}");
}

fn flip_pack(edge: &EdgeNode, bytes: &[u8], random: &mut fastrand::Rng, tally: &mut Tally) {
    let path = edge.node.path().join("world.pmtiles");
    let (offset, bit) = (random.u64(..bytes.len() as u64), random.u8(..8));
    flip(&path, offset, bit);
    let ask = |target: &str, fields: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nhost: x\r\n{fields}\r\n");
        Client::connect(edge.addr).and_then(|mut client| client.ask(request))
    };
    let what = format!("bit {bit} of byte {offset}");
    let range = offset.saturating_sub(20)..(offset + 20).min(bytes.len() as u64);
    let fields = format!("range: bytes={}-{}\r\n", range.start, range.end - 1);
    let expected = &bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
    tally.book(ask("/edge/assets/world.pmtiles", &fields), expected, &what);
    tally.book(ask("/edge/assets/world.pmtiles", ""), bytes, &what);
    let places = places(3);
    for _ in 0..4 {
        let place = places[random.usize(..places.len())];
        let target = format!("/edge/tiles/world/{}/{}/{}", place.0, place.1, place.2);
        tally.book(ask(&target, ""), tile(place, 0).as_bytes(), &what);
    }
    flip(&path, offset, bit);
    // The flip itself may have been seen, as a file that somebody writes to.
    if edge.get("/edge/packs").json()["packs"][0]["state"] != "served" {
        rename_over(&path, bytes);
        age(&path);
        edge.wait_for_pack("world", "served");
    }
}

fn store_objects(
    folder: &std::path::Path,
    count: usize,
    random: &mut fastrand::Rng,
) -> Vec<(ObjectId, Vec<u8>)> {
    let cas = Cas::at(folder, Limits::default()).unwrap();
    (0..count)
        .map(|_| {
            let content: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(OBJECT_LEN).collect();
            (cas.put(&content).unwrap().id, content)
        })
        .collect()
}

fn flip_object(edge: &EdgeNode, id: ObjectId, content: &[u8], random: &mut fastrand::Rng, tally: &mut Tally) {
    let files = files_of(&edge.node.path().join("data/cas"), id);
    let file = &files[random.usize(..files.len())];
    let (offset, bit) = (random.u64(..fs::metadata(file).unwrap().len()), random.u8(..8));
    let mut mode = fs::metadata(file).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o600);
    fs::set_permissions(file, mode).unwrap();
    flip(file, offset, bit);
    let what = format!("bit {bit} of byte {offset} of {}", file.display());
    for _ in 0..2 {
        tally.book(crate::support::get(edge.addr, &format!("/edge/cas/{id}")), content, &what);
    }
}

/// The files that an object is stored in.
fn files_of(folder: &std::path::Path, id: ObjectId) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.metadata().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().to_string_lossy().contains(&id.hex()[4..]) {
                found.push(entry.path());
            }
        }
    }
    assert!(!found.is_empty(), "{id} has no file");
    found.sort();
    found
}

//! Bits that flip in the file of a mounted pack: never a wrong byte, never a tile missing, never one too many.
//!
//! `OMNIGATE_FLIPS=10000 cargo test -p packs --release flips::` is the full size; `OMNIGATE_SEED` repeats a run.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, numbers are small, and nothing here runs on a runtime"
)]

use std::{
    env, fs,
    hash::{BuildHasher, RandomState},
    os::unix::fs::FileExt,
    path::Path,
};

use crate::common::{Folder, Tiles, mount, tiles};
use packs::{MountOptions, Pack, PackError};

/// A small generator; the seed is printed when something is wrong.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn from_env(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|value| value.parse().ok())
}

fn flips() -> u64 {
    from_env("OMNIGATE_FLIPS").unwrap_or(200)
}

fn seed() -> u64 {
    let seed = from_env("OMNIGATE_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("OMNIGATE_SEED={seed}");
    seed
}

/// Asks for some tiles, some of which are not there; how many errors there were.
fn ask(pack: &Pack, tiles: &Tiles, random: &mut Random, about: &str) -> u64 {
    let mut errors = 0;
    for turn in 0..48 {
        let (z, x, y) = if turn % 4 == 0 {
            let z = random.below(6) as u8;
            (z, random.below(1 << z) as u32, random.below(1 << z) as u32)
        } else {
            *tiles.keys().nth(random.below(tiles.len() as u64) as usize).unwrap()
        };
        match pack.tile(z, x, y) {
            Ok(tile) => {
                let bytes = tile.map(|tile| tile.bytes.to_vec());
                assert_eq!(bytes.as_ref(), tiles.get(&(z, x, y)), "{z}/{x}/{y} with {about}");
            }
            Err(PackError::Corrupt | PackError::Changed | PackError::Slow) => errors += 1,
            Err(PackError::Io(error)) => panic!("{z}/{x}/{y} with {about}: {error}"),
        }
    }
    errors
}

/// Tiles that fill more than any cache of a pack.
fn many_tiles() -> Tiles {
    tiles(4).into_iter().map(|(place, content)| (place, content.repeat(32))).collect()
}

fn flip(path: &Path, at: u64, bit: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
}

#[test]
fn a_flipped_bit_is_never_served() {
    let folder = Folder::new();
    let tiles = many_tiles();
    let mut random = Random(seed());
    for path in folder.both(&tiles) {
        let len = fs::metadata(&path).unwrap().len();
        let pack = mount(&path).unwrap();
        let mut noticed = 0;
        for _ in 0..flips() {
            let (at, bit) = (random.below(len), random.below(8));
            flip(&path, at, bit);
            noticed += ask(&pack, &tiles, &mut random, &format!("bit {bit} of byte {at} flipped"));
            flip(&path, at, bit);
        }
        assert!(noticed > 0, "no flip was ever noticed: what was read is not the file");
        assert_eq!(ask(&pack, &tiles, &mut random, "all as it was"), 0);
    }
}

#[test]
fn many_flips_together_are_never_served() {
    let folder = Folder::new();
    let tiles = many_tiles();
    let mut random = Random(seed());
    for path in folder.both(&tiles) {
        let len = fs::metadata(&path).unwrap().len();
        let pack = mount(&path).unwrap();
        for round in 0..flips() / 10 {
            flip(&path, random.below(len), random.below(8));
            ask(&pack, &tiles, &mut random, &format!("{round} flips"));
        }
    }
}

#[test]
fn a_flipped_bit_is_never_mounted_as_the_expected_content() {
    let folder = Folder::new();
    let tiles = tiles(3);
    let mut random = Random(seed());
    for path in folder.both(&tiles) {
        let len = fs::metadata(&path).unwrap().len();
        let expect = Some(mount(&path).unwrap().info().id);
        for _ in 0..flips() / 4 {
            let (at, bit) = (random.below(len), random.below(8));
            flip(&path, at, bit);
            let mounted = Pack::mount(&path, MountOptions { expect, ..MountOptions::default() });
            assert!(mounted.is_err(), "bit {bit} of byte {at}");
            flip(&path, at, bit);
        }
        assert!(Pack::mount(&path, MountOptions { expect, ..MountOptions::default() }).is_ok());
    }
}

//! Files and packs that are damaged while they are served: every answer has the bytes that its tag names.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ron_kernel::config::ByteSize;
use svc_edge::RootConfig;

use crate::{
    damage::{Damage, LENGTHS},
    support::{Answer, Running, noise, raster_pack, tile_text, write},
};

/// When all files were last modified, before the damage and after it: long ago, so that they are settled.
fn long_ago() -> SystemTime {
    SystemTime::now() - Duration::from_secs(3600)
}

/// Damages a file and hides it: its time of modification stays the same.
fn damage_silently(path: &Path, damage: Damage, modified: SystemTime) -> bool {
    let differs = damage.inflict(path);
    File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    differs
}

/// The tag of an answer is the hash of its bytes. A body that broke off is shorter than was promised.
fn is_true(answer: &Answer, what: &str) {
    if answer.status != 200 {
        assert!(matches!(answer.status, 404 | 500 | 502 | 503), "{what}: {}", answer.status);
        return;
    }
    let promised: usize = answer.header("content-length").parse().unwrap();
    if answer.body.len() == promised {
        let tag = format!("\"b3:{}\"", blake3::hash(&answer.body).to_hex());
        assert_eq!(answer.header("etag"), tag, "{what}: other bytes than the tag says");
    }
}

fn files_with(ram: ByteSize) {
    let modified = long_ago();
    let cases: Vec<_> =
        LENGTHS.iter().flat_map(|len| Damage::ALL.map(|damage| (*len, damage))).enumerate().collect();
    let name = |nth: usize| format!("{nth}.bin");
    let prepare = |dir: &Path| {
        for (nth, (len, _)) in &cases {
            let path = dir.join("public").join(name(*nth));
            write(&path, &noise(*len));
            File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
        }
    };
    let edge = Running::start(prepare, |config| {
        config.roots.push(RootConfig::new("public".into()));
        config.ram_bytes = ram;
    });
    for (nth, (len, damage)) in cases {
        let (url, what) = (format!("/edge/assets/{}", name(nth)), format!("{len} bytes, {damage:?}"));
        let before = edge.get(&url);
        assert!(before.status == 200 && before.body == noise(len), "{what}");
        let path: PathBuf = edge.path("public").join(name(nth));
        damage_silently(&path, damage, modified);
        is_true(&edge.get(&url), &what);
        let head = edge.ask("HEAD", &url, &[]);
        if head.status == 200 && head.header("etag") == before.header("etag") {
            assert_eq!(head.header("content-length"), len.to_string(), "{what}");
        }
        let part = edge.get_with(&url, &[("range", "bytes=0-0"), ("if-range", before.header("etag"))]);
        assert!(part.status != 206 || part.body == noise(len)[..1], "{what}");
    }
}

#[test]
fn a_damaged_file_is_never_served_under_another_tag_when_it_is_in_ram() {
    files_with(ByteSize::mib(64));
}

#[test]
fn a_damaged_file_is_never_served_under_another_tag_when_it_is_read_again() {
    files_with(ByteSize::mib(0));
}

#[test]
fn a_damaged_pack_never_gives_a_wrong_tile_or_byte() {
    let (pack, modified) = (raster_pack("a"), long_ago());
    for damage in Damage::ALL {
        let edge = Running::with_pack(&pack);
        let file = edge.path("world.pmtiles");
        damage_silently(&file, damage, modified);
        check_pack(&edge, &pack, damage);
    }
}

fn check_pack(edge: &Running, pack: &[u8], damage: Damage) {
    for place in [(0, 0, 0), (1, 1, 0), (2, 2, 3)] {
        let tile = edge.get(&format!("/edge/tiles/world/{}/{}/{}", place.0, place.1, place.2));
        assert!(tile.status != 200 || tile.text() == tile_text(place, "a"), "{damage:?} {place:?}");
        assert!(!matches!(tile.status, 204 | 404), "{damage:?} {place:?}: damage is not absence");
    }
    let whole = edge.get("/edge/assets/world.pmtiles");
    is_true(&whole, &format!("{damage:?}"));
    assert!(whole.status != 200 || pack.starts_with(&whole.body), "{damage:?}");
}

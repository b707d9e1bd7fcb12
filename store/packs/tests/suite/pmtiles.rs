//! PMTiles packs: what is mounted, what is refused, and what becomes of a pack whose file changes.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, numbers are small, and nothing here runs on a runtime"
)]

use std::{fs, ops::ControlFlow, os::unix::fs::FileExt};

use crate::common::{Folder, Tiles, age, assert_serves, gzip, mount, pmtiles, refusal, tiles};
use decode::Coding;
use packs::{
    FileState, Format, Limits, MountError, MountOptions, Pack, PackError, Progress, Stage, TileType,
};
use pmtiles::{Coord, Settings, Writer};
use types::ObjectId;

#[test]
fn a_pack_is_mounted_described_and_served() {
    let folder = Folder::new();
    let tiles = tiles(5);
    // By its content, whatever it is called.
    let path = folder.pmtiles("world.mbtiles", &tiles);
    let pack = mount(&path).unwrap();
    let info = pack.info();
    assert_eq!((info.name.as_str(), info.format), ("little world", Format::Pmtiles));
    assert_eq!((info.tiles, info.min_zoom, info.max_zoom), (tiles.len() as u64, 0, 5));
    assert_eq!((info.tile_type, info.coding), (TileType::Png, Some(Coding::Identity)));
    assert_eq!(info.bounds, [-180.0, -85.051_128_7, 180.0, 85.051_128_7]);
    assert_eq!(info.center, Some((0.0, 0.0, 0)));
    assert!(info.metadata.contains_key("vector_layers") && info.notes.is_empty());
    let bytes = fs::read(&path).unwrap();
    assert_eq!((info.size, info.id.as_bytes()), (bytes.len() as u64, blake3::hash(&bytes).as_bytes()));
    assert_eq!(info.modified, fs::metadata(&path).unwrap().modified().unwrap());
    assert_eq!(pack.file().read_all().unwrap(), bytes);
    assert_serves(&pack, &tiles);
    let tile = pack.tile(0, 0, 0).unwrap().unwrap();
    assert_eq!((tile.coding, tile.media_type), (None, "image/png"));
    // What can be no tile is no tile.
    for (z, x, y) in [(0, 1, 0), (0, 0, 1), (5, 32, 0), (32, 0, 0), (255, u32::MAX, u32::MAX)] {
        assert_eq!(pack.tile(z, x, y).unwrap(), None);
    }
}

#[test]
fn a_tile_says_how_it_is_encoded() {
    let folder = Folder::new();
    let content = gzip(b"layers");
    for (said, expected) in
        [(Some(Coding::Gzip), Some(Coding::Gzip)), (None, Some(Coding::Gzip)), (Some(Coding::Identity), None)]
    {
        let mut writer =
            Writer::new(Settings { tile_type: TileType::Mvt, tile_coding: said, ..Settings::default() });
        writer.push(Coord::new(0, 0, 0).unwrap().id(), &content).unwrap();
        let path = folder.path("coded.pmtiles");
        fs::write(&path, writer.finish().unwrap()).unwrap();
        let pack = mount(&path).unwrap();
        let tile = pack.tile(0, 0, 0).unwrap().unwrap();
        assert_eq!((tile.coding, tile.media_type), (expected, "application/vnd.mapbox-vector-tile"));
        assert_eq!(pack.info().name, "coded");
    }
}

#[test]
fn what_is_no_pack_is_refused_with_the_reason() {
    let folder = Folder::new();
    let path = folder.path("x.pmtiles");
    assert!(refusal(&path).starts_with("it cannot be opened: No such file"), "{}", refusal(&path));
    assert_eq!(refusal(folder.path("").as_path()), "it is not a file");
    let pipe = folder.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(refusal(&pipe), "it is not a file");
    for other in [&b""[..], b"PMTile", b"GIF89a"] {
        fs::write(&path, other).unwrap();
        assert_eq!(refusal(&path), "it is neither PMTiles nor MBTiles, by its first bytes");
    }
    let whole = pmtiles(&tiles(3));
    for (len, reason) in [
        (7, "the header is refused: 7 bytes are too few for a PMTiles header, which has 127"),
        (126, "the header is refused: 126 bytes are too few for a PMTiles header, which has 127"),
        (200, "the header is refused: the root directory ("),
        (whole.len() - 1, "the header is refused: the tile data ("),
    ] {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(refusal(&path).starts_with(reason), "{}", refusal(&path));
    }
    let mut old = whole;
    old[7] = 2;
    fs::write(&path, &old).unwrap();
    assert_eq!(refusal(&path), "the header is refused: it is PMTiles version 2, and only version 3 is read");
}

#[test]
fn metadata_are_an_object() {
    let folder = Folder::new();
    for (metadata, sound) in
        [("{}", true), (r#"{"name":5}"#, true), ("[]", false), ("{", false), ("nonsense", false)]
    {
        let mut writer = Writer::new(Settings { metadata: metadata.to_owned(), ..Settings::default() });
        writer.push(Coord::new(0, 0, 0).unwrap().id(), b"tile").unwrap();
        let path = folder.path("meta.pmtiles");
        fs::write(&path, writer.finish().unwrap()).unwrap();
        match mount(&path) {
            Ok(pack) => assert!(sound && pack.info().name == "meta"),
            Err(MountError::Metadata(_)) => assert!(!sound, "{metadata}"),
            Err(other) => panic!("{metadata}: {other}"),
        }
    }
}

#[test]
fn only_the_expected_content_is_mounted() {
    let folder = Folder::new();
    for path in folder.both(&tiles(3)) {
        let id = mount(&path).unwrap().info().id;
        let with =
            |expect| Pack::mount(&path, MountOptions { expect: Some(expect), ..MountOptions::default() });
        assert!(with(id).is_ok());
        let other = ObjectId::new([7; 32]);
        match with(other) {
            Err(MountError::OtherContent { expected, found }) => assert_eq!((expected, found), (other, id)),
            outcome => panic!("{outcome:?}"),
        }
    }
}

#[test]
fn limits_are_those_of_the_caller() {
    let folder = Folder::new();
    for path in folder.both(&tiles(3)) {
        let mut limits = Limits::default();
        limits.pmtiles.tile_bytes = 100;
        let mounted = Pack::mount(&path, MountOptions { limits, ..MountOptions::default() });
        let reason = mounted.unwrap_err().to_string();
        assert!(reason.contains("bytes, more than"), "{reason}");
    }
}

#[test]
fn a_mount_tells_how_far_it_is_and_can_be_stopped() {
    let folder = Folder::new();
    let big: Tiles = (0..8).map(|x| ((3, x, 0), vec![x as u8 + 1; 700_000])).collect();
    for path in folder.both(&big) {
        let size = fs::metadata(&path).unwrap().len();
        let mut told: Vec<Progress> = Vec::new();
        let mut listen = |progress| {
            told.push(progress);
            ControlFlow::Continue(())
        };
        Pack::mount(&path, MountOptions { progress: Some(&mut listen), ..MountOptions::default() }).unwrap();
        assert_eq!(told.last(), Some(&Progress { stage: Stage::Hashing, done: size, total: size }));
        assert!(told.len() > 4 && told.iter().all(|progress| progress.done <= size));
        let mut stop = |_| ControlFlow::Break(());
        let stopped =
            Pack::mount(&path, MountOptions { progress: Some(&mut stop), ..MountOptions::default() });
        assert!(matches!(stopped, Err(MountError::Stopped)));
    }
}

#[test]
fn a_file_that_is_cut_short_gives_errors_and_no_other_bytes() {
    let folder = Folder::new();
    let big: Tiles = (0..8).map(|x| ((3, x, 0), vec![x as u8 + 1; 50_000])).collect();
    for path in folder.both(&big) {
        age(&path);
        let pack = mount(&path).unwrap();
        assert!(pack.unchanged());
        let len = fs::metadata(&path).unwrap().len();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len / 2).unwrap();
        assert_eq!(pack.state().unwrap(), FileState::Changed);
        let outcomes = (0..8).map(|x| (x, pack.tile(3, x, 0)));
        let mut errors = 0;
        for (x, outcome) in outcomes {
            match outcome {
                Ok(tile) => assert_eq!(tile.unwrap().bytes, big[&(3, x, 0)]),
                Err(PackError::Changed) => errors += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!(errors >= 3, "{errors}");
    }
}

#[test]
fn a_file_that_is_written_to_is_told_from_one_that_rots() {
    let folder = Folder::new();
    let content = vec![b'x'; 100_000];
    let one: Tiles = [((0, 0, 0), content.clone())].into();
    for path in folder.both(&one) {
        age(&path);
        let pack = mount(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        let at = bytes.windows(100).position(|window| window == [b'x'; 100]).unwrap() as u64 + 50_000;
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"y", at).unwrap();
        assert!(matches!(pack.tile(0, 0, 0), Err(PackError::Changed)));
        // As if nobody had been there.
        age(&path);
        assert!(pack.unchanged());
        assert!(matches!(pack.tile(0, 0, 0), Err(PackError::Corrupt)));
        file.write_all_at(b"x", at).unwrap();
        assert_eq!(pack.tile(0, 0, 0).unwrap().unwrap().bytes, content);
    }
}

#[test]
fn a_pack_that_is_replaced_by_renaming_is_served_until_it_is_let_go() {
    let folder = Folder::new();
    let (old, new): (Tiles, Tiles) = (tiles(4), [((0, 0, 0), b"new".to_vec())].into());
    for (path, other) in folder
        .both(&old)
        .into_iter()
        .zip([folder.pmtiles("b.pmtiles", &new), folder.mbtiles("b.mbtiles", &new)])
    {
        let pack = mount(&path).unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(pack.state().unwrap(), FileState::Replaced);
        assert!(!pack.unchanged());
        assert_serves(&pack, &old);
        assert_serves(&mount(&path).unwrap(), &new);
        fs::remove_file(&path).unwrap();
        assert_eq!(pack.state().unwrap(), FileState::Gone);
        assert_serves(&pack, &old);
    }
}

#[test]
fn new_names_and_modes_are_no_change() {
    let folder = Folder::new();
    let path = folder.pmtiles("a.pmtiles", &tiles(2));
    let pack = mount(&path).unwrap();
    fs::hard_link(&path, folder.path("b.pmtiles")).unwrap();
    let mut mode = fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    fs::set_permissions(&path, mode).unwrap();
    assert!(pack.unchanged());
}

#[test]
fn many_threads_read_at_once() {
    let folder = Folder::new();
    let tiles = tiles(4);
    for path in folder.both(&tiles) {
        let pack = mount(&path).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_serves(&pack, &tiles));
            }
        });
    }
}

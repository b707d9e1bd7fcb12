//! Hashes that are kept between mounts: used while nothing changed, and never when in doubt.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

use std::{
    fs,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::common::{Folder, age, assert_serves, set_modified, tiles};
use packs::{MountError, MountOptions, Pack, PackError};

/// Mounts with a folder for hashes; and whether the file was hashed.
fn mount(path: &Path, dir: &Path) -> (Result<Pack, MountError>, bool) {
    let mut hashed = false;
    let mut listen = |_| {
        hashed = true;
        ControlFlow::Continue(())
    };
    let options = MountOptions {
        outboard_dir: Some(dir.to_owned()),
        progress: Some(&mut listen),
        ..MountOptions::default()
    };
    let pack = Pack::mount(path, options);
    (pack, hashed)
}

/// A folder of its own for each pack; it does not exist yet.
fn dir_of(path: &Path) -> PathBuf {
    format!("{}.hashes/nested", path.display()).into()
}

/// A pack of each kind that has been hashed, and the folder of the hashes.
fn hashed(folder: &Folder) -> [(PathBuf, PathBuf); 2] {
    folder.both(&tiles(4)).map(|path| {
        let dir = dir_of(&path);
        age(&path);
        let (pack, hashed) = mount(&path, &dir);
        assert!(hashed && pack.unwrap().info().notes.is_empty());
        (path, dir)
    })
}

fn only_file(dir: &Path) -> PathBuf {
    let mut files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let file = files.next().unwrap();
    assert_eq!(files.next(), None);
    file
}

#[test]
fn a_file_that_did_not_change_is_not_hashed_again() {
    let folder = Folder::new();
    for (path, dir) in hashed(&folder) {
        let (pack, hashed) = mount(&path, &dir);
        assert!(!hashed);
        let pack = pack.unwrap();
        assert_serves(&pack, &tiles(4));
        assert_eq!(pack.info().id.as_bytes(), blake3::hash(&fs::read(&path).unwrap()).as_bytes());
    }
}

#[test]
fn a_file_that_was_touched_moved_or_replaced_is_hashed_again() {
    let folder = Folder::new();
    for (path, dir) in hashed(&folder) {
        // Copied: another inode under the same name, of the same age and size.
        let copy = path.with_extension("copy");
        fs::copy(&path, &copy).unwrap();
        age(&copy);
        fs::rename(&copy, &path).unwrap();
        assert!(mount(&path, &dir).1);
        assert!(!mount(&path, &dir).1);
        // Touched by a nanosecond.
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        set_modified(&path, modified + Duration::from_nanos(1));
        assert!(mount(&path, &dir).1);
        assert!(!mount(&path, &dir).1);
        // Touched, and set back: the system remembers.
        let changed = changed_at(&path);
        while changed_at(&path) == changed {
            // Its memory is as fine as its clock ticks.
            set_modified(&path, SystemTime::now());
        }
        set_modified(&path, modified + Duration::from_nanos(1));
        assert!(mount(&path, &dir).1);
        // Under another name.
        let moved = path.with_extension("moved");
        fs::rename(&path, &moved).unwrap();
        assert!(mount(&moved, &dir).1);
    }
}

#[test]
fn a_file_that_was_just_written_is_hashed_again() {
    let folder = Folder::new();
    for path in folder.both(&tiles(2)) {
        let dir = dir_of(&path);
        assert!(mount(&path, &dir).1);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing is kept");
        assert!(mount(&path, &dir).1);
    }
}

#[test]
fn hashes_that_were_damaged_or_cut_short_anywhere_are_made_again() {
    let folder = Folder::new();
    for (path, dir) in hashed(&folder) {
        let kept = only_file(&dir);
        let whole = fs::read(&kept).unwrap();
        for at in (0..whole.len()).step_by(1 + whole.len() / 40) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&kept, &damaged).unwrap();
            let (pack, hashed) = mount(&path, &dir);
            assert!(hashed, "byte {at} of {}", whole.len());
            assert_eq!(fs::read(&kept).unwrap(), whole, "and mended");
            drop(pack.unwrap());
            fs::write(&kept, &whole[..at]).unwrap();
            assert!(mount(&path, &dir).1);
        }
        fs::write(&kept, [&whole[..], b"more"].concat()).unwrap();
        assert!(mount(&path, &dir).1);
    }
}

#[test]
fn a_pack_that_rotted_between_two_mounts_is_not_trusted_anew() {
    let folder = Folder::new();
    for (path, dir) in hashed(&folder) {
        // Nobody can rot a file without the system noticing; so put another one into the hashes, as if it had been this one.
        let content = fs::read(&path).unwrap();
        let places = content.windows(11).enumerate().filter(|(_, window)| window == b"tile 3/0/0 ");
        let kept = only_file(&dir);
        let mut hashes = fs::read(&kept).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        for (at, _) in places {
            file.write_all_at(b"T", at as u64).unwrap();
        }
        age(&path);
        restamp(&mut hashes, &path);
        fs::write(&kept, &hashes).unwrap();
        let (pack, hashed) = mount(&path, &dir);
        assert!(!hashed);
        match pack {
            Ok(pack) => assert!(matches!(pack.tile(3, 0, 0), Err(PackError::Corrupt))),
            // A small PMTiles pack has its directories beside its tiles.
            Err(MountError::Rotten) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// When the system last saw the file change, in whatever way.
fn changed_at(path: &Path) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).unwrap();
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Writes the present moment of change into hashes, with a good check.
fn restamp(hashes: &mut Vec<u8>, path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).unwrap();
    let changed = 5 + 4 + path.as_os_str().len() + 5 * 8;
    hashes[changed..changed + 8].copy_from_slice(&metadata.ctime().to_le_bytes());
    hashes[changed + 8..changed + 16].copy_from_slice(&metadata.ctime_nsec().to_le_bytes());
    let body = hashes.len() - 32;
    let check = *blake3::hash(&hashes[..body]).as_bytes();
    hashes.splice(body.., check);
}

#[test]
fn a_folder_that_cannot_be_written_is_noted_and_no_obstacle() {
    let folder = Folder::new();
    for path in folder.both(&tiles(2)) {
        age(&path);
        let (pack, hashed) = mount(&path, &path.join("not a folder"));
        assert!(hashed);
        let notes = pack.unwrap().info().notes.clone();
        assert!(notes.len() == 1 && notes[0].starts_with("its hashes could not be kept"), "{notes:?}");
    }
}

#[test]
fn nothing_is_written_unless_there_is_a_folder_for_it() {
    let folder = Folder::new();
    for path in folder.both(&tiles(2)) {
        age(&path);
        drop(Pack::mount(&path, MountOptions::default()).unwrap());
    }
    let names = fs::read_dir(folder.path("")).unwrap().count();
    assert_eq!(names, 2);
}

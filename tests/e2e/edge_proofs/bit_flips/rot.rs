//! Turning bits over in files.

use std::{
    fs::{self, File, FileTimes},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, SystemTime},
};

use super::Chance;

/// Long ago, so that nobody wonders whether a file is still being written.
pub(super) const LONG_AGO: Duration = Duration::from_secs(1_600_000_000);

/// Sets a file's time of modification.
pub(super) fn set_time(file: &File, modified: SystemTime) {
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
}

/// Turns a bit and puts the time of modification back, by which packs and objects are known.
pub(super) fn turn(path: &Path, at: usize, bit: usize) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    turn_in(&file, at, bit);
    set_time(&file, modified);
}

/// Turns any bit; `false` if there is none.
pub(super) fn turn_any(path: &Path, chance: &mut Chance) -> bool {
    let len = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if len > 0 {
        turn(path, chance.below(usize::try_from(len).unwrap()), chance.below(8));
    }
    len > 0
}

/// Turns a bit, as somebody does it who writes: the file has another time from then on.
pub(super) fn change(path: &Path, at: usize, bit: usize) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    turn_in(&file, at, bit);
    set_time(&file, modified + Duration::from_secs(1));
}

fn turn_in(file: &File, at: usize, bit: usize) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << bit)], at as u64).unwrap();
}

//! The log of records: what is read is what was appended, whatever became of the file.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use cas::{LogEnd, LogError, RecordLog};
use tempfile::TempDir;

use crate::support::{flip, object};

fn place() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    (dir, path)
}

fn read(path: &Path) -> (Vec<Vec<u8>>, LogEnd) {
    let mut records = Vec::new();
    let (_, end) = RecordLog::open(path, |record| records.push(record.to_vec())).unwrap();
    (records, end)
}

/// A log of a few records of different lengths, some of them appended later.
fn written(path: &PathBuf) -> (RecordLog, Vec<Vec<u8>>) {
    let records: Vec<Vec<u8>> =
        [1, 20, 3, 100, 7].into_iter().zip(0..).map(|(len, seed)| object(seed, len)).collect();
    let (mut log, end) = RecordLog::open(path, |_| panic!("there is none")).unwrap();
    assert_eq!(end, LogEnd::Complete);
    assert!(log.is_empty());
    log.rewrite(records[..2].to_vec()).unwrap();
    log.append(records[2..4].iter().map(Vec::as_slice)).unwrap();
    log.append([records[4].as_slice()]).unwrap();
    assert_eq!(log.len(), fs::metadata(path).unwrap().len());
    (log, records)
}

#[test]
fn what_was_appended_is_read_in_its_order() {
    let (_dir, path) = place();
    let (log, records) = written(&path);
    assert!(matches!(RecordLog::open(&path, |_| ()), Err(LogError::InUse { .. })), "it has one owner");
    drop(log);
    assert_eq!(read(&path), (records, LogEnd::Complete), "as after a crash of the process");
}

#[test]
fn a_log_that_was_closed_is_complete_even_after_a_power_cut() {
    let (_dir, path) = place();
    let (log, records) = written(&path);
    log.close().unwrap();
    assert_eq!(read(&path), (records, LogEnd::Complete));
    // What follows the end was not appended by us.
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&[0; 20]);
    fs::write(&path, bytes).unwrap();
    assert_eq!(read(&path).1, LogEnd::Unsure { is_damaged: true });
}

#[test]
fn a_log_from_a_backup_is_read_and_not_believed() {
    let (dir, path) = place();
    for is_closed in [false, true] {
        let _ = fs::remove_file(&path);
        let (log, records) = written(&path);
        if is_closed {
            log.close().unwrap();
        } else {
            drop(log);
        }
        let moved = dir.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        assert_eq!(read(&moved), (records.clone(), LogEnd::Complete), "it is the same file");
        let unsure = LogEnd::Unsure { is_damaged: false };
        fs::copy(&moved, &path).unwrap();
        assert_eq!(read(&path), (records.clone(), unsure), "a copy");
        // As programs do that restore files with their times, in their place.
        let file = fs::File::options().write(true).open(&moved).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        assert_eq!(read(&moved), (records, unsure), "the times were set");
    }
}

#[test]
fn whatever_bit_is_flipped_nothing_is_read_that_was_not_appended() {
    let (_dir, path) = place();
    let (log, records) = written(&path);
    drop(log);
    let sound = fs::read(&path).unwrap();
    for bit in 0..sound.len() as u64 * 8 {
        flip(&path, bit);
        let (found, end) = read(&path);
        assert_eq!(end, LogEnd::Unsure { is_damaged: true }, "bit {bit}");
        assert!(found.len() < records.len() && records.starts_with(&found), "bit {bit}");
        fs::write(&path, &sound).unwrap();
    }
}

#[test]
fn a_log_that_was_cut_ends_before_the_cut() {
    let (_dir, path) = place();
    let (log, records) = written(&path);
    drop(log);
    let sound = fs::read(&path).unwrap();
    let mut ends = vec![64];
    for record in &records {
        ends.push(ends.last().unwrap() + 20 + record.len());
    }
    for len in 0..sound.len() {
        fs::write(&path, &sound[..len]).unwrap();
        let (found, end) = read(&path);
        assert!(records.starts_with(&found), "{len}");
        let is_whole = len == 0 || ends.contains(&len);
        assert_eq!(end == LogEnd::Complete, is_whole, "{len}");
    }
}

#[test]
fn records_that_were_moved_or_repeated_are_found() {
    let (_dir, path) = place();
    let (mut log, _) = RecordLog::open(&path, |_| ()).unwrap();
    let records = [object(1, 30), object(2, 30)];
    log.rewrite(records.to_vec()).unwrap();
    drop(log);
    let sound = fs::read(&path).unwrap();
    let (head, first, second) = (&sound[..64], &sound[64..114], &sound[114..]);
    for (frames, believed) in [
        ([head, second, first].concat(), 0),
        ([head, first, first].concat(), 1),
        ([head, first, second, second].concat(), 2),
    ] {
        fs::write(&path, frames).unwrap();
        let (found, end) = read(&path);
        assert_eq!((found.len(), end), (believed, LogEnd::Unsure { is_damaged: true }));
    }
    // Those of another log do not count either.
    let (_other_dir, other) = place();
    let (mut log, _) = RecordLog::open(&other, |_| ()).unwrap();
    log.rewrite(records.to_vec()).unwrap();
    drop(log);
    let frames = fs::read(&other).unwrap();
    fs::write(&path, [head, &frames[64..]].concat()).unwrap();
    assert_eq!(read(&path), (Vec::new(), LogEnd::Unsure { is_damaged: true }));
}

#[test]
fn an_emptied_log_has_nothing_and_can_be_begun_anew() {
    let (_dir, path) = place();
    let (mut log, _) = written(&path);
    log.clear().unwrap();
    assert!(log.is_empty());
    assert!(log.append([&b"x"[..]]).is_err(), "it has no beginning");
    log.rewrite([b"anew".to_vec()]).unwrap();
    drop(log);
    assert_eq!(read(&path), (vec![b"anew".to_vec()], LogEnd::Complete));
}

#[test]
fn a_record_has_a_longest_length() {
    let (_dir, path) = place();
    let (mut log, _) = RecordLog::open(&path, |_| ()).unwrap();
    log.rewrite([vec![7; RecordLog::MAX_RECORD]]).unwrap();
    assert!(log.append([&vec![7; RecordLog::MAX_RECORD + 1][..]]).is_err());
    drop(log);
    assert_eq!(read(&path).0.len(), 1);
}

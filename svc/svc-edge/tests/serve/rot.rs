//! Bytes of a file that turn over as they do on a disk: nothing else of the file changes.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

use crate::support::eventually;

/// Turns a bit of a file that is mapped into memory. The system takes note of the first write to a page, which writes what is
/// there already; it does not notice the second unless it has written the page to a disk meanwhile.
const PROGRAM: &str = "
import mmap, os, sys
file = open(sys.argv[1], 'r+b')
bytes, at = mmap.mmap(file.fileno(), 0), int(sys.argv[2])
bytes[at] = bytes[at]
print('ready', flush=True)
sys.stdin.readline()
bytes[at] ^= 1
print('turned', flush=True)
";

/// A folder whose files can rot: in memory, which no page of it leaves. `None` if there is no such place.
pub(crate) fn ground() -> Option<TempDir> {
    let folder = tempfile::tempdir_in("/dev/shm").ok();
    if folder.is_none() {
        eprintln!("skipped: there is no /dev/shm for files that rot");
    }
    folder
}

/// A bit that is about to turn.
pub(crate) struct Rot {
    path: PathBuf,
    program: Child,
    told: BufReader<ChildStdout>,
}

impl Rot {
    /// The lowest bit of the byte at `at`. `None` without Python, which can write to mapped memory.
    pub(crate) fn of(path: &Path, at: usize) -> Option<Self> {
        let (path_text, at) = (path.to_str().unwrap(), at.to_string());
        let program = Command::new("python3")
            .args(["-c", PROGRAM, path_text, &at])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut program) = program else {
            eprintln!("skipped: there is no python3, which the rot of files needs");
            return None;
        };
        let told = BufReader::new(program.stdout.take().unwrap());
        let mut rot = Self { path: path.to_owned(), program, told };
        rot.wait();
        Some(rot)
    }

    /// Waits until the times of the file say for sure whether it is changed again.
    pub(crate) fn settle(&self) {
        let changed = fs::metadata(&self.path).unwrap().ctime();
        let settled = SystemTime::UNIX_EPOCH + Duration::from_secs(changed.unsigned_abs() + 4);
        eventually("its times have settled", || SystemTime::now() > settled);
    }

    /// Turns the bit.
    pub(crate) fn turn(mut self) {
        let times = |path: &Path| {
            let metadata = fs::metadata(path).unwrap();
            (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec())
        };
        let before = times(&self.path);
        self.program.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.wait();
        assert!(self.program.wait().unwrap().success());
        assert_eq!(times(&self.path), before, "the system took note of it");
    }

    fn wait(&mut self) {
        let mut line = String::new();
        assert!(self.told.read_line(&mut line).unwrap() > 0, "it says that it is done");
    }
}

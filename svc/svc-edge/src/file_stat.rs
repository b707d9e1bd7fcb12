//! By what a file is known to be the same as before.
//!
//! A time of modification can be set, and archives and build tools set it to the same for every version. A file system uses the
//! number of a deleted file again. So a file is the same only if it was also created and last changed at the same times, which
//! nobody can set.

use std::{
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime},
};

/// A file that was changed so recently may be changed again without a change of its times, which have a grain.
pub(crate) const GRAIN: Duration = Duration::from_secs(2);

/// What the system says about a file, apart from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    device: u64,
    inode: u64,
    /// When it was created, where the file system keeps that.
    born: Option<SystemTime>,
    pub(crate) len: u64,
    /// When its bytes were last modified: seconds since 1970, and nanoseconds.
    mtime: (i64, i64),
    /// When anything about it was last changed, which includes its bytes, names, mode and times.
    ctime: (i64, i64),
}

impl FileStat {
    /// The present state of an open file; `None` if it is no file, or cannot be told.
    pub(crate) fn of(file: &File) -> Option<Self> {
        Self::regular(&file.metadata().ok()?)
    }

    /// The present state of the file at a path; `None` if there is none. Blocking.
    #[expect(clippy::disallowed_methods, reason = "callers are on the blocking pool")]
    pub(crate) fn at(path: &Path) -> Option<Self> {
        Self::regular(&std::fs::metadata(path).ok()?)
    }

    /// The same from the system's own words; `None` if they are about something else than a file.
    pub(crate) fn regular(metadata: &Metadata) -> Option<Self> {
        metadata.is_file().then(|| Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: metadata.created().ok(),
            len: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether it is the same file, be it changed or not.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode, self.born) == (other.device, other.inode, other.born)
    }

    /// Whether it is the same file and, as far as its length and its time of modification say, was not written to. New names,
    /// links and modes make no difference.
    pub(crate) fn is_unwritten(&self, other: &Self) -> bool {
        self.is_same_file(other) && (self.len, self.mtime) == (other.len, other.mtime)
    }

    /// Whether it was last modified in an earlier second than another: many tools that copy files keep no more of their times.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.mtime.0 < other.mtime.0
    }

    /// When it was last modified, in seconds since 1970.
    pub(crate) fn modified(&self) -> u64 {
        u64::try_from(self.mtime.0).unwrap_or_default()
    }

    /// When anything about it was last changed, in seconds since 1970.
    pub(crate) fn changed(&self) -> u64 {
        u64::try_from(self.ctime.0).unwrap_or_default()
    }

    /// Whether its times say for sure at `now`, in time since 1970, that its bytes are the same: the next change gets another
    /// time of change. That is so also if the file seems to be from the future, because somebody has set its time of
    /// modification or because the clock was moved back.
    pub(crate) fn is_settled(&self, now: Duration) -> bool {
        let changed = Duration::from_secs(self.changed());
        now > changed + GRAIN || now + GRAIN < changed
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    /// Changes a file until its times tell, which have a grain; returns its states before and after that.
    fn change(path: &Path, mut change: impl FnMut()) -> (FileStat, FileStat) {
        let before = FileStat::at(path).unwrap();
        let after = (0..1_000_000).find_map(|_| {
            change();
            FileStat::at(path).filter(|after| *after != before)
        });
        (before, after.expect("the times of a file change with it"))
    }

    /// Writes a file as archives are unpacked: with the same time of modification as before.
    fn unpack(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        File::options().write(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }

    #[test]
    fn a_file_with_other_bytes_is_another_whatever_its_time_of_modification() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        unpack(&path, b"old");
        let (before, after) = change(&path, || unpack(&path, b"new"));
        assert_eq!((before.modified(), before.len), (after.modified(), after.len));
        assert!(after.is_same_file(&before) && after.changed() > after.modified());
        let (before, after) = change(&path, || {
            fs::remove_file(&path).unwrap();
            unpack(&path, b"two");
        });
        assert_eq!((before.modified(), before.len), (after.modified(), after.len));
        if before.born.is_some() {
            assert!(before.born != after.born && !after.is_same_file(&before));
        }
    }

    #[test]
    fn a_file_settles_by_the_time_of_its_last_change_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"bytes").unwrap();
        let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
        File::options().write(true).open(&path).unwrap().set_modified(tomorrow).unwrap();
        let stat = FileStat::at(&path).unwrap();
        assert!(stat.modified() > stat.changed() + 80_000);
        let changed = Duration::from_secs(stat.changed());
        for (now, expected) in [
            (changed, false),
            (changed + GRAIN, false),
            (changed + GRAIN + Duration::from_millis(1), true),
            // The clock was moved back.
            (changed - GRAIN, false),
            (changed - GRAIN - Duration::from_millis(1), true),
            (Duration::ZERO, true),
        ] {
            assert_eq!(stat.is_settled(now), expected, "{now:?}, changed at {changed:?}");
        }
    }

    #[test]
    fn a_new_name_or_mode_is_no_write() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mut mode) = (dir.path().join("file"), 0o600);
        unpack(&path, b"bytes");
        let (before, after) = change(&path, || {
            mode ^= 0o040;
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        });
        assert!(after.is_unwritten(&before));
        let (before, after) = change(&path, || unpack(&path, b"longer bytes"));
        assert!(!after.is_unwritten(&before));
    }
}

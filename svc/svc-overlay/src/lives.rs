//! Which life of the node this is: each begins with a higher number than the one before, whatever the clock says.

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use ron_kernel::files;

/// The file's name in the node's data: the number below which all lives so far are, in decimal digits.
pub(crate) const LIVES_FILE: &str = "overlay.lives";

/// The largest such file that is read, in bytes.
const MAX_BYTES: u64 = 64;

/// Lives that one start of the node may begin: one per shard, and one each time a shard is started again.
const RESERVED: u64 = 1 << 20;

/// A start begins at random among so many numbers, in nanoseconds half a second: two that find the same file, because a backup of it
/// was restored, and a clock that is behind it, do not begin the same life.
const SPREAD: u64 = 1 << 29;

/// Numbers of lives that were never used before.
#[derive(Debug)]
pub(crate) struct Lives(AtomicU64);

impl Lives {
    /// Begins after every life before: after those that are written down, and not before the clock. What this start may use is
    /// written down at once. Without a folder there is only the clock, and the node's key is new as well.
    ///
    /// If the file is an older one that was restored, and the clock is behind it, there may have been later lives: peers show them to
    /// this node. But no life is begun twice. This call blocks.
    pub(crate) fn load(data_dir: Option<&Path>, unix: Duration) -> Self {
        let clock = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX / 2);
        let Some(path) = data_dir.map(|dir| dir.join(LIVES_FILE)) else { return Self(clock.into()) };
        let used = read(&path);
        if used.saturating_sub(clock) > SPREAD + RESERVED {
            let behind = Duration::from_nanos(used - clock);
            tracing::warn!(
                ?behind,
                "the clock is behind this node's last start; incarnations continue from there"
            );
        }
        let first = clock.max(used).saturating_add(fastrand::u64(..SPREAD));
        if let Err(error) = write(&path, first.saturating_add(RESERVED)) {
            let path = path.display();
            tracing::warn!(%path, %error, "incarnations cannot be stored: if the clock is set back, this node depends on its peers");
        }
        Self(first.into())
    }

    /// A life that was never before.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Relaxed)
    }

    /// How far the clock is behind the lives that were begun: they are counted on from where an earlier clock was.
    pub(crate) fn ahead_of(&self, unix: Duration) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed)).saturating_sub(unix)
    }

    /// Somebody knows this life: those that begin from now on come after it and the one that follows it at once.
    pub(crate) fn pass(&self, incarnation: u64) {
        self.0.fetch_max(incarnation.saturating_add(2), Relaxed);
    }
}

/// Reads the counter of incarnations; this call blocks.
fn read(path: &Path) -> u64 {
    let text = files::read_regular(path, MAX_BYTES).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Writes beside the file and puts it in its place, so that there is always a whole one.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn write(path: &Path, used: u64) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{used}")?;
    file.sync_all()?;
    std::fs::rename(new, path)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_later_than_those_before_it_though_the_clock_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        let now = Duration::from_secs(1_700_000_000);
        let mut last = 0;
        for clock in [now, now - Duration::from_secs(86_400), Duration::ZERO, now] {
            let lives = Lives::load(Some(dir.path()), clock);
            for _ in 0..3 {
                let life = lives.next();
                assert!(life > last, "{life} after {last}");
                last = life;
            }
        }
    }

    #[test]
    fn no_life_is_begun_twice_though_the_file_is_restored_and_the_clock_is_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LIVES_FILE);
        Lives::load(Some(dir.path()), Duration::from_secs(1_700_000_000));
        let backup = std::fs::read(&path).unwrap();
        let mut begun = std::collections::BTreeSet::new();
        for _ in 0..8 {
            std::fs::write(&path, &backup).unwrap();
            let life = Lives::load(Some(dir.path()), Duration::from_secs(5)).next();
            assert!(begun.insert(life), "{life} was begun before");
        }
    }

    #[test]
    fn a_life_that_peers_know_of_is_passed() {
        let lives = Lives::load(None, Duration::from_secs(5));
        lives.pass(u64::MAX / 2);
        assert_eq!(lives.next(), u64::MAX / 2 + 2);
        lives.pass(7);
        assert_eq!(lives.next(), u64::MAX / 2 + 3);
    }
}

//! A node's accounts: meters in, sealed snapshots out.

use std::{fmt, path::Path, time::Duration};

use cas::{OpenError, WriteError};

use crate::{
    BootId, Corrected, Journal, JournalError, Reading, Rows, Sealed, SigningKey, SnapshotError,
    SnapshotFiles, Tally, Used, Windows, rows_of, seal_rows,
};

/// Tells other nodes of a snapshot. It may fail quietly: a node that missed it requests it, or counts without it.
pub trait Announce: Send + Sync + fmt::Debug {
    /// This node has sealed an epoch; `file` is the one of its rows that the snapshot's address leads to.
    fn announce(&self, sealed: &Sealed, file: &[u8]);
}

/// Why accounts could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file cannot be opened.
    #[error("snapshots cannot be kept: {0}")]
    Open(#[from] OpenError),
    /// A file cannot be written.
    #[error("a snapshot cannot be written: {0}")]
    Write(#[from] WriteError),
    /// The file of a snapshot's rows is not there.
    #[error(
        "the rows that epoch {epoch} was sealed as are lost: restore the folder `snapshots` from a backup"
    )]
    Lost {
        /// The number of the epoch.
        epoch: u64,
    },
    /// Of what is to be sealed.
    #[error("usage cannot be sealed: {0}")]
    Snapshot(#[from] SnapshotError),
}

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// The current epoch.
    pub epoch: u64,
    /// Rows that were written down.
    pub rows: u64,
    /// Rows that came after their epoch was sealed, and are quarantined.
    pub late: u64,
    /// Epochs that were given up because nothing could be written for too long, since the start.
    pub lost: u64,
}

/// The accounts of this node. One owner calls it, from a thread that may block.
#[derive(Debug)]
pub struct Accounts {
    windows: Windows,
    boot: BootId,
    key: SigningKey,
    tally: Tally,
    journal: Journal,
    files: SnapshotFiles,
}

impl Accounts {
    /// The name of the journal in a node's data.
    pub const JOURNAL: &str = "usage.sqlite";
    /// The name of the folder of snapshots in a node's data.
    pub const SNAPSHOTS: &str = "snapshots";

    /// Opens what a node keeps, or begins it; `data_dir` is `None` for a node that must not write anything, whose accounts
    /// end with it. `unix` is the present.
    ///
    /// # Errors
    /// [`AccountsError`].
    pub fn open(
        data_dir: Option<&Path>,
        windows: Windows,
        (key, boot): (SigningKey, BootId),
        unix: Duration,
        max_actors: usize,
    ) -> Result<Self, AccountsError> {
        let (journal, files) = match data_dir {
            Some(data) => (
                Journal::open(&data.join(Self::JOURNAL), windows.duration())?,
                SnapshotFiles::at(&data.join(Self::SNAPSHOTS))?,
            ),
            None => (Journal::in_memory(windows.duration())?, SnapshotFiles::in_memory()),
        };
        let tally = Tally::new(windows, journal.last_epoch()?, unix, max_actors);
        Ok(Self { windows, boot, key, tally, journal, files })
    }

    /// Takes the meters' readings at `unix` and writes down what they grew by; durable when this returns.
    ///
    /// # Errors
    /// [`AccountsError::Journal`]; what could not be written is with the next flush.
    pub fn flush(
        &mut self,
        readings: impl IntoIterator<Item = Reading>,
        unix: Duration,
    ) -> Result<Flushed, AccountsError> {
        self.tally.read(readings, unix);
        let pages = self.tally.unwritten();
        let late = if pages.is_empty() { 0 } else { self.journal.book(self.boot, &pages)? };
        let rows = pages.iter().map(|page| page.units.len() as u64).sum::<u64>() - late;
        self.tally.written();
        Ok(Flushed { epoch: self.tally.epoch(), rows, late, lost: self.tally.lost_pages() })
    }

    /// Says that the clock was wrong: it said `before`, and is known to be `after` now. What was booked since the present
    /// epoch began is booked in the epoch that it belongs to, or quarantined where that cannot be known. `None` if
    /// nothing was to be corrected. Everything that was read is written down first.
    ///
    /// # Errors
    /// [`AccountsError::Journal`]; nothing is corrected then, and it is to be said again.
    pub fn correct(&mut self, before: Duration, after: Duration) -> Result<Option<Corrected>, AccountsError> {
        let pages = self.tally.unwritten();
        if !pages.is_empty() {
            self.journal.book(self.boot, &pages)?;
            self.tally.written();
        }
        let mut tally = self.tally.clone();
        let Some(correction) = tally.correct(before, after) else {
            self.tally = tally;
            return Ok(None);
        };
        let next = self.boot.after_correction();
        let corrected = self.journal.correct((self.boot, next), correction)?;
        if !matches!(corrected, Corrected::Moved(_)) {
            tally.forget_page();
        }
        (self.tally, self.boot) = (tally, next);
        Ok(Some(corrected))
    }

    /// The latest epoch that an earlier process has written, if it is later than the present one: its clock was ahead, or
    /// the clock is behind now.
    ///
    /// # Errors
    /// [`AccountsError::Journal`].
    pub fn written_ahead(&self) -> Result<Option<u64>, AccountsError> {
        Ok(Some(self.journal.last_epoch()?).filter(|last| *last > self.tally.epoch()))
    }

    /// How many rows are quarantined.
    ///
    /// # Errors
    /// [`AccountsError::Journal`].
    pub fn quarantined_rows(&self) -> Result<u64, AccountsError> {
        Ok(self.journal.quarantined_rows()?)
    }

    /// Epochs that are over at `unix` and not sealed, the oldest first.
    ///
    /// # Errors
    /// [`AccountsError::Journal`].
    pub fn due(&self, unix: Duration) -> Result<Vec<u64>, AccountsError> {
        let mut due = self.journal.unsealed(self.tally.epoch())?;
        due.retain(|epoch| unix >= self.windows.seal(*epoch));
        Ok(due)
    }

    /// Seals an epoch: its rows go into the store of files, as Parquet, and the node signs for them. Sealed twice, it is what it was
    /// the first time. `passing` is told each step, by name, before the next is taken.
    ///
    /// # Errors
    /// [`AccountsError`].
    pub fn seal(&mut self, epoch: u64, passing: impl Fn(&'static str)) -> Result<Sealed, AccountsError> {
        let used = self.journal.used(epoch)?;
        self.seal_used(epoch, &used, passing)
    }

    /// Seals an epoch as usage that was counted elsewhere, in the order of actors and metrics. Sealed before, it is what
    /// it was the first time.
    ///
    /// # Errors
    /// [`AccountsError`].
    pub fn seal_used(
        &mut self,
        epoch: u64,
        used: &[Used],
        passing: impl Fn(&'static str),
    ) -> Result<Sealed, AccountsError> {
        let (rows, rows_root) = rows_of(used)?;
        passing("seal.before_file");
        let object = self.files.keep(&rows)?;
        passing("seal.after_file");
        let seal = seal_rows(&self.key, epoch, used.len(), rows_root)?;
        let sealed = self.journal.seal(&Sealed { seal, object })?;
        passing("seal.after_insert");
        Ok(sealed)
    }

    /// The latest epochs that anything is written of, sealed or not, the latest first; so many at most.
    ///
    /// # Errors
    /// [`AccountsError::Journal`].
    pub fn latest(&self, limit: u32) -> Result<Vec<u64>, AccountsError> {
        Ok(self.journal.latest(limit)?)
    }

    /// Sealed epochs that nobody was told of for certain, the oldest first.
    ///
    /// # Errors
    /// [`AccountsError::Journal`].
    pub fn untold(&self) -> Result<Vec<u64>, AccountsError> {
        Ok(self.journal.untold()?)
    }

    /// Epochs from `first` on that were sealed as this node, that others were told of, and that are not forgotten; the oldest
    /// first.
    ///
    /// # Errors
    /// [`AccountsError::Journal`].
    pub fn told_from(&self, first: u64, node: &str) -> Result<Vec<u64>, AccountsError> {
        Ok(self.journal.told_from(first, node)?)
    }

    /// Those who had to be told of a sealed epoch have been.
    ///
    /// # Errors
    /// [`AccountsError::Journal`].
    pub fn told(&mut self, epoch: u64) -> Result<(), AccountsError> {
        Ok(self.journal.told(epoch)?)
    }

    /// What this node sealed an epoch as, with the file of its rows; `None` if it is not sealed, or forgotten. A file that is lost
    /// or damaged is made again of what was written down.
    ///
    /// # Errors
    /// [`AccountsError`], also if the file cannot be made again.
    pub fn sealed(&self, epoch: u64) -> Result<Option<(Sealed, Vec<u8>)>, AccountsError> {
        let Some(sealed) = self.journal.sealed(epoch)? else { return Ok(None) };
        let found = match self.fetch(&sealed) {
            Ok(Some(rows)) => return Ok(Some((sealed, rows))),
            Ok(None) if self.journal.is_pruned(epoch)? => return Ok(None),
            Ok(None) => AccountsError::Lost { epoch },
            Err(error) => error,
        };
        let (rows, rows_root) = rows_of(&self.journal.used(epoch)?)?;
        // What was sealed from somewhere else was never written down.
        if rows_root != sealed.seal.snapshot.rows_root || self.files.keep(&rows)? != sealed.object {
            return Err(found);
        }
        Ok(Some((sealed, rows)))
    }

    fn fetch(&self, sealed: &Sealed) -> Result<Option<Vec<u8>>, AccountsError> {
        let failed = |what: String| AccountsError::Write(WriteError::Io(std::io::Error::other(what)));
        self.files.fetch(sealed.object).map_err(failed)
    }

    /// The files of rows.
    #[must_use]
    pub fn files(&self) -> &SnapshotFiles {
        &self.files
    }

    /// Sealed epochs before `epoch` that are not forgotten yet, the oldest first.
    ///
    /// # Errors
    /// [`AccountsError::Journal`].
    pub fn prunable(&self, epoch: u64) -> Result<Vec<u64>, AccountsError> {
        Ok(self.journal.prunable(epoch)?)
    }

    /// Forgets what was used in a sealed epoch, and its file unless it is that of a later one too; that it was sealed, and
    /// as what, stays.
    ///
    /// # Errors
    /// [`AccountsError`].
    pub fn prune(&mut self, epoch: u64) -> Result<(), AccountsError> {
        if let Some(sealed) = self.journal.sealed(epoch)?
            && !self.journal.is_named_later(sealed.object, epoch)?
        {
            self.files.remove(sealed.object).map_err(WriteError::Io)?;
        }
        Ok(self.journal.prune(epoch)?)
    }
}

//! The embedded ledger: one SQLite file, one writer at a time, on the disk before anybody is told.
//!
//! The log is written ahead (WAL) and synced at every commit (`synchronous = FULL`). Nothing is remembered between
//! transactions, so that other processes, such as the command line, may use the file at the same time.

mod desk;
mod read;
mod schema;
mod snapshot;

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ledgerbook::{Account, AccountId, Batch, Checkpoint, Fault, Key, Link, Request};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::{
    Ledger, LedgerError, Posted, Scrutiny, Snapshot,
    combine::{Combiner, Outcome},
    copy,
    desk::{Decided, Desk, RowWriter, decide},
    verify,
};
use snapshot::SqliteSnapshot;

/// How long another process may hold the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A ledger in a file, or in memory.
#[derive(Debug)]
pub struct SqliteLedger {
    /// Where it is; none for one in memory.
    path: Option<PathBuf>,
    writer: Mutex<Connection>,
    combiner: Combiner,
}

impl SqliteLedger {
    /// The ledger in a file, made if it is not there, brought to the newest version, and checked.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] if anything is not what was written; [`LedgerError::Version`] if a newer program wrote
    /// it; others if it cannot be opened.
    pub fn open(path: &Path, scrutiny: &Scrutiny) -> Result<Self, LedgerError> {
        let writer = schema::open(path)?;
        let ledger =
            Self { path: Some(path.to_owned()), writer: Mutex::new(writer), combiner: Combiner::default() };
        verify::at_open(&mut *ledger.snapshot()?, scrutiny)?;
        Ok(ledger)
    }

    /// A ledger that ends with the process.
    ///
    /// # Errors
    /// [`LedgerError`] if there is no memory.
    pub fn in_memory() -> Result<Self, LedgerError> {
        let writer = Mutex::new(schema::open_in_memory()?);
        Ok(Self { path: None, writer, combiner: Combiner::default() })
    }

    fn writer(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, group: &[Batch]) -> Vec<Outcome> {
        match self.try_commit(group) {
            Ok(outcomes) => outcomes,
            Err(error) => group.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn try_commit(&self, group: &[Batch]) -> Result<Vec<Outcome>, LedgerError> {
        let mut writer = self.writer();
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        match decide(&mut desk::SqliteDesk { transaction: &transaction }, group)? {
            Decided::Done { outcomes, wrote: true } => {
                transaction.commit().map_err(failed)?;
                Ok(outcomes)
            }
            Decided::Done { outcomes, wrote: false } => Ok(outcomes),
            // Nobody else can write meanwhile.
            Decided::Overtaken => Err(LedgerError::Busy),
        }
    }

    /// One transaction that is about no batch.
    fn write(
        &self,
        write: impl FnOnce(&mut desk::SqliteDesk<'_>) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let mut writer = self.writer();
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        write(&mut desk::SqliteDesk { transaction: &transaction })?;
        transaction.commit().map_err(failed)
    }

    /// Something small, read beside whatever is being written.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        match &self.path {
            Some(path) => read(&schema::open_to_read(path)?),
            None => read(&self.writer()),
        }
    }

    /// Folds the log into the file and syncs it, so that the file alone is the whole ledger.
    pub(crate) fn settle(&self) -> Result<(), LedgerError> {
        let fold = |_: &rusqlite::Row<'_>| Ok(());
        self.writer().query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), fold).map_err(failed)
    }
}

impl Ledger for SqliteLedger {
    fn post(&self, batch: &Batch) -> Result<Posted, LedgerError> {
        self.combiner.submit(batch, |group| self.commit(group))
    }

    fn account(&self, id: &AccountId) -> Result<Option<Account>, LedgerError> {
        self.read(|connection| read::account(connection, id))
    }

    fn request(&self, key: &Key) -> Result<Option<Request>, LedgerError> {
        self.read(|connection| read::request(connection, key))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, LedgerError> {
        Ok(Box::new(match &self.path {
            Some(path) => SqliteSnapshot::of_file(schema::open_to_read(path)?)?,
            None => SqliteSnapshot::of_memory(self.writer()),
        }))
    }

    fn keep_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), LedgerError> {
        self.write(|desk| desk.insert_checkpoints(std::slice::from_ref(checkpoint)))
    }

    fn fill(&self, from: &mut dyn Snapshot) -> Result<(), LedgerError> {
        self.write(|desk| match desk.lock_head()? {
            Link::GENESIS => copy::rows(from, desk),
            _ => Err(copy::not_empty()),
        })
    }
}

/// Maps a SQLite error to a ledger error.
fn failed(error: rusqlite::Error) -> LedgerError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => LedgerError::Busy,
        Some(ErrorCode::DiskFull) => LedgerError::Full(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch) => {
            LedgerError::Damaged(Fault::Unreadable(error.to_string()))
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            LedgerError::BadSetup(error.to_string())
        }
        // A row that does not read as what its column holds.
        None if !matches!(error, rusqlite::Error::SqliteFailure(..)) => {
            LedgerError::Damaged(Fault::Unreadable(error.to_string()))
        }
        _ => LedgerError::Unavailable(error.to_string()),
    }
}

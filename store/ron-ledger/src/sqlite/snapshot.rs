//! A moment of a SQLite ledger, read while others write.

use std::{ops::Deref, sync::MutexGuard};

use ledgerbook::{Account, Checkpoint, Entry, Fault, Link, Request};
use rusqlite::Connection;

use super::{failed, read};
use crate::{LedgerError, Snapshot};

/// A read transaction of SQLite.
#[derive(Debug)]
pub(super) enum SqliteSnapshot<'a> {
    /// A connection of its own, in a transaction that ends with it.
    File(Connection),
    /// The only connection there is: nobody writes meanwhile.
    Memory(MutexGuard<'a, Connection>),
}

impl<'a> SqliteSnapshot<'a> {
    pub(super) fn of_file(connection: Connection) -> Result<Self, LedgerError> {
        // The moment is that of the first read.
        connection.execute_batch("BEGIN; SELECT number FROM links LIMIT 1").map_err(failed)?;
        Ok(Self::File(connection))
    }

    pub(super) fn of_memory(connection: MutexGuard<'a, Connection>) -> Self {
        Self::Memory(connection)
    }
}

impl Deref for SqliteSnapshot<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match self {
            Self::File(connection) => connection,
            Self::Memory(connection) => connection,
        }
    }
}

impl Snapshot for SqliteSnapshot<'_> {
    fn check_structure(&mut self) -> Result<(), LedgerError> {
        let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        let verdict = self.query_row("PRAGMA integrity_check(1)", (), read).map_err(failed)?;
        if verdict == "ok" { Ok(()) } else { Err(Fault::Unreadable(verdict).into()) }
    }

    fn head(&mut self) -> Result<Link, LedgerError> {
        read::head(self)
    }

    fn accounts(&mut self, after: u64, limit: u32) -> Result<Vec<Account>, LedgerError> {
        read::accounts(self, after, limit)
    }

    fn requests(&mut self, after: u64, limit: u32) -> Result<Vec<Request>, LedgerError> {
        read::requests(self, after, limit)
    }

    fn entries(&mut self, after: u64, limit: u32) -> Result<Vec<Entry>, LedgerError> {
        read::entries(self, after, limit)
    }

    fn links(&mut self, after: u64, limit: u32) -> Result<Vec<Link>, LedgerError> {
        read::links(self, after, limit)
    }

    fn checkpoints(&mut self, skip: u64, limit: u32) -> Result<Vec<Checkpoint>, LedgerError> {
        read::checkpoints(self, skip, limit)
    }
}

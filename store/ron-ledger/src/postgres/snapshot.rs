//! A moment of a ledger on PostgreSQL.

use ledgerbook::{Account, Checkpoint, Entry, Link, Request};

use super::{PostgresLedger, connection::Connection, read};
use crate::{LedgerError, Snapshot};

/// A read-only transaction on a connection of its own.
#[derive(Debug)]
pub(super) struct PostgresSnapshot<'a> {
    ledger: &'a PostgresLedger,
    connection: Option<Connection>,
}

impl<'a> PostgresSnapshot<'a> {
    pub(super) fn new(ledger: &'a PostgresLedger, connection: Connection) -> Self {
        Self { ledger, connection: Some(connection) }
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("the connection is taken when this is dropped")
    }
}

impl Drop for PostgresSnapshot<'_> {
    fn drop(&mut self) {
        // One whose transaction cannot be ended is closed, which ends it.
        if let Some(mut connection) = self.connection.take()
            && connection.run("ROLLBACK").is_ok()
        {
            self.ledger.keep(connection);
        }
    }
}

impl Snapshot for PostgresSnapshot<'_> {
    fn check_structure(&mut self) -> Result<(), LedgerError> {
        // The server checks its pages if it was set up to; every row is read anyway.
        Ok(())
    }

    fn head(&mut self) -> Result<Link, LedgerError> {
        read::head(self.connection())
    }

    fn accounts(&mut self, after: u64, limit: u32) -> Result<Vec<Account>, LedgerError> {
        read::accounts(self.connection(), after, limit)
    }

    fn requests(&mut self, after: u64, limit: u32) -> Result<Vec<Request>, LedgerError> {
        read::requests(self.connection(), after, limit)
    }

    fn entries(&mut self, after: u64, limit: u32) -> Result<Vec<Entry>, LedgerError> {
        read::entries(self.connection(), after, limit)
    }

    fn links(&mut self, after: u64, limit: u32) -> Result<Vec<Link>, LedgerError> {
        read::links(self.connection(), after, limit)
    }

    fn checkpoints(&mut self, skip: u64, limit: u32) -> Result<Vec<Checkpoint>, LedgerError> {
        read::checkpoints(self.connection(), skip, limit)
    }
}

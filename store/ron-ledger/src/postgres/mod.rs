//! The ledger on a PostgreSQL server, which many nodes may share.
//!
//! Whoever posts locks the accounts it moves in order of their names, then the head of the chain, which it holds until
//! its commit. What is posted by one process at the same time is one transaction, so the head is held once for all of
//! it. The server's `fsync` must be on; `synchronous_commit` is turned on for every connection.

mod connection;
mod desk;
mod read;
mod schema;
mod server;
mod snapshot;
mod tls;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ledgerbook::{Account, AccountId, Batch, Checkpoint, Fault, Key, Link, Request};
use postgres::error::SqlState;

use crate::{
    Ledger, LedgerError, Op, Posted, Scrutiny, Snapshot,
    combine::{Combiner, Outcome},
    copy,
    desk::{Decided, Desk, RowWriter, decide},
    verify,
};
use connection::Connection;
use desk::PostgresDesk;
pub use server::{PostgresAddressError, PostgresServer};
use snapshot::PostgresSnapshot;

/// How long a statement, or the wait for a lock, may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a group is begun again because another process was faster.
const MAX_ATTEMPTS: u32 = 10;
/// Connections that are kept although nobody uses them.
const MAX_IDLE: usize = 4;

/// A ledger on a server.
#[derive(Debug)]
pub struct PostgresLedger {
    server: PostgresServer,
    idle: Mutex<Vec<Connection>>,
    combiner: Combiner,
}

impl PostgresLedger {
    /// The ledger in a database, such as `postgres://user:secret@host/database` or
    /// `host=/run/postgresql dbname=ledger`, with `sslmode` and `sslrootcert` as in [`PostgresServer`]; its tables are made if need be, in a schema of their own.
    ///
    /// # Errors
    /// [`LedgerError::BadSetup`] if the server cannot be used as it is; [`LedgerError::Damaged`] if anything is not
    /// what was written; [`LedgerError::Version`] if a newer program wrote it.
    pub fn open(url: &str, scrutiny: &Scrutiny) -> Result<Self, LedgerError> {
        let server = PostgresServer::parse(url).map_err(|error| LedgerError::BadSetup(error.to_string()))?;
        let ledger = Self {
            server: connection::bounded(server),
            idle: Mutex::default(),
            combiner: Combiner::default(),
        };
        let mut connection = Connection::open(&ledger.server)?;
        schema::prepare(&mut connection)?;
        ledger.keep(connection);
        verify::at_open(&mut *ledger.snapshot()?, scrutiny)?;
        Ok(ledger)
    }

    fn commit(&self, group: &[Batch]) -> Vec<Outcome> {
        match self.try_commit(group) {
            Ok(outcomes) => outcomes,
            Err(error) => group.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn try_commit(&self, group: &[Batch]) -> Result<Vec<Outcome>, LedgerError> {
        for _ in 0..MAX_ATTEMPTS {
            match self.attempt(group) {
                Ok(Some(outcomes)) => return Ok(outcomes),
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
        Err(LedgerError::Busy)
    }

    /// One transaction; `None` if somebody else was faster.
    fn attempt(&self, group: &[Batch]) -> Result<Option<Vec<Outcome>>, LedgerError> {
        let mut connection = self.begin("BEGIN")?;
        let decided = decide(&mut PostgresDesk { connection: &mut connection }, group);
        let outcomes = match decided {
            Ok(Decided::Done { outcomes, wrote: true }) => {
                connection.run("COMMIT").map_err(|error| failed(&error))?;
                Some(outcomes)
            }
            Ok(Decided::Done { outcomes, wrote: false }) => {
                connection.run("ROLLBACK").map_err(|error| failed(&error))?;
                Some(outcomes)
            }
            Ok(Decided::Overtaken) | Err(LedgerError::Busy) => {
                connection.run("ROLLBACK").map_err(|error| failed(&error))?;
                None
            }
            // The connection is closed, and with it the transaction ends.
            Err(error) => return Err(error),
        };
        self.keep(connection);
        Ok(outcomes)
    }

    /// A connection in a transaction. One that died while nobody used it is replaced.
    fn begin(&self, sql: &str) -> Result<Connection, LedgerError> {
        while let Some(mut connection) = self.take_idle() {
            if connection.run(sql).is_ok() {
                return Ok(connection);
            }
        }
        let mut connection = Connection::open(&self.server)?;
        connection.run(sql).map_err(|error| failed(&error))?;
        Ok(connection)
    }

    fn take_idle(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a connection for the next caller.
    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }

    /// One transaction that is about no batch.
    fn write(
        &self,
        write: impl FnOnce(&mut PostgresDesk<'_>) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let mut connection = self.begin("BEGIN")?;
        write(&mut PostgresDesk { connection: &mut connection })?;
        connection.run("COMMIT").map_err(|error| failed(&error))?;
        self.keep(connection);
        Ok(())
    }

    fn moment(&self) -> Result<PostgresSnapshot<'_>, LedgerError> {
        // The moment is that of the first read.
        let connection = self.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1")?;
        Ok(PostgresSnapshot::new(self, connection))
    }
}

impl Ledger for PostgresLedger {
    fn post(&self, batch: &Batch) -> Result<Posted, LedgerError> {
        self.combiner.submit(batch, |group| self.commit(group))
    }

    fn account(&self, id: &AccountId) -> Result<Option<Account>, LedgerError> {
        let mut moment = self.moment()?;
        let found = read::accounts_named(moment.connection(), &[id], "")?;
        Ok(found.into_iter().next())
    }

    fn request(&self, key: &Key) -> Result<Option<Request>, LedgerError> {
        let mut moment = self.moment()?;
        Ok(read::requests_keyed(moment.connection(), &[key])?.into_iter().next())
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, LedgerError> {
        Ok(Box::new(self.moment()?))
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

/// What an error of the server or of the connection means.
fn failed(error: &postgres::Error) -> LedgerError {
    let Some(told) = error.as_db_error() else {
        return LedgerError::Unavailable(error.to_string());
    };
    let text = told.message().to_owned();
    let code = told.code();
    match *code {
        // Others hold the locks, or were faster; the transaction is gone.
        SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::UNIQUE_VIOLATION => LedgerError::Busy,
        SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE => {
            LedgerError::Timeout { op: Op::Post, after: STATEMENT_TIMEOUT }
        }
        SqlState::DISK_FULL | SqlState::OUT_OF_MEMORY => LedgerError::Full(text),
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Fault::Unreadable(text).into(),
        SqlState::INVALID_PASSWORD
        | SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        | SqlState::INVALID_CATALOG_NAME
        | SqlState::INSUFFICIENT_PRIVILEGE => LedgerError::BadSetup(text),
        _ => LedgerError::Unavailable(format!("{text} ({})", code.code())),
    }
}

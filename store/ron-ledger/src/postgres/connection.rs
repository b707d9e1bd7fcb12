//! One connection, with the statements it has prepared.

use std::{collections::HashMap, fmt, time::Duration};

use postgres::{Client, Row, Statement, types::ToSql};

use super::{PostgresServer, STATEMENT_TIMEOUT, failed};
use crate::LedgerError;

/// Timeout for connecting to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection and its statements.
pub(super) struct Connection {
    client: Client,
    statements: HashMap<String, Statement>,
}

/// The same address, with bounds on how long it is waited for.
pub(super) fn bounded(mut server: PostgresServer) -> PostgresServer {
    server.give_up_after(CONNECT_TIMEOUT).application_name("omnigate-ledger");
    server
}

impl Connection {
    pub(super) fn open(server: &PostgresServer) -> Result<Self, LedgerError> {
        let client = server.connect().map_err(|error| failed(&error))?;
        let mut connection = Self { client, statements: HashMap::new() };
        let timeout = STATEMENT_TIMEOUT.as_millis();
        let settings = format!(
            "SET synchronous_commit = on; SET search_path = {}; SET statement_timeout = {timeout};
             SET lock_timeout = {timeout}; SET idle_in_transaction_session_timeout = '60s';
             SET client_min_messages = warning",
            super::schema::NAME
        );
        connection.run(&settings).map_err(|error| failed(&error))?;
        Ok(connection)
    }

    /// Statements without parameters and results.
    pub(super) fn run(&mut self, sql: &str) -> Result<(), postgres::Error> {
        self.client.batch_execute(sql)
    }

    /// The rows of a statement, which is prepared the first time.
    pub(super) fn query(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, LedgerError> {
        let statement = self.prepared(sql).map_err(|error| failed(&error))?;
        self.client.query(&statement, params).map_err(|error| failed(&error))
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

//! The epoch store in PostgreSQL: one connection, made anew when it breaks, shared by the nodes of a fleet.

use std::{error::Error, sync::Mutex, time::Duration};

use postgres::{
    Client, Row,
    types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};
use ron_kernel::lock::lock;
use ron_ledger::PostgresServer;

use super::database::{Columns, Database, StoreError, Value};

/// Whoever makes the tables first has this lock, so that two nodes that start at once do not make them twice.
const MIGRATION: i64 = 0x6f6d_6e69_6761_7465;

/// A database on a server.
pub(crate) struct Postgres {
    server: PostgresServer,
    client: Mutex<Option<Client>>,
}

impl Postgres {
    pub(crate) fn connect(url: &str, timeout: Duration) -> Result<Self, StoreError> {
        let mut server =
            PostgresServer::parse(url).map_err(|error| StoreError::Refused(error.to_string()))?;
        let millis = timeout.as_millis();
        let settings = server.settings();
        settings.connect_timeout(timeout).application_name("omnigate rewarder");
        settings.options(&format!("-c statement_timeout={millis} -c lock_timeout={millis}"));
        let database = Self { server, client: Mutex::new(None) };
        database.with(|_| Ok(()))?;
        Ok(database)
    }

    /// Runs something on a connection that works, as far as is known. One that broke is not used again.
    fn with<T>(&self, work: impl FnOnce(&mut Client) -> Result<T, postgres::Error>) -> Result<T, StoreError> {
        let mut slot = lock(&self.client);
        let mut client = match slot.take() {
            Some(client) if !client.is_closed() => client,
            _ => self.server.connect()?,
        };
        let done = work(&mut client);
        if !client.is_closed() {
            *slot = Some(client);
        }
        Ok(done?)
    }
}

impl std::fmt::Debug for Postgres {
    /// The address may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postgres")
    }
}

impl Database for Postgres {
    fn execute(&self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError> {
        self.with(|client| client.execute(sql, &borrowed(parameters)))
    }

    fn query(&self, sql: &str, parameters: &[Value]) -> Result<Vec<Columns>, StoreError> {
        let rows = self.with(|client| client.query(sql, &borrowed(parameters)))?;
        rows.iter().map(read).collect()
    }

    fn migrate(&self, statements: &str) -> Result<(), StoreError> {
        let statements = statements.replace("BLOB", "BYTEA");
        self.with(|client| {
            let mut transaction = client.transaction()?;
            transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION])?;
            transaction.batch_execute(&statements)?;
            transaction.commit()
        })
    }
}

fn borrowed(parameters: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    parameters.iter().map(|value| value as _).collect()
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Bytes(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::TEXT | Type::BYTEA)
    }

    to_sql_checked!();
}

fn read(row: &Row) -> Result<Columns, StoreError> {
    let column = |at: usize| {
        Ok(match *row.columns()[at].type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at)?.map_or(Value::Null, Value::Int),
            Type::TEXT => row.try_get::<_, Option<String>>(at)?.map_or(Value::Null, Value::Text),
            _ => row.try_get::<_, Option<Vec<u8>>>(at)?.map_or(Value::Null, Value::Bytes),
        })
    };
    (0..row.len()).map(column).collect()
}

impl From<postgres::Error> for StoreError {
    fn from(error: postgres::Error) -> Self {
        match error.as_db_error() {
            // What the server says of itself: shutting down, out of memory or connections, cancelled by a timeout.
            Some(said) if ["53", "57", "58", "40", "55"].contains(&&said.code().code()[..2]) => {
                Self::Unavailable(said.message().to_owned())
            }
            Some(said) => Self::Refused(said.message().to_owned()),
            None => Self::Unavailable(error.to_string()),
        }
    }
}

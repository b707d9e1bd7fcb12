//! The epoch store in PostgreSQL: one connection, rebuilt when it breaks, shared by the nodes of a fleet.
//!
//! The tables are in the schema of the ledger's. They are made or brought to the newest version by whoever connects
//! first. A server that does not answer or refuses is asked again with the next call, so a node can start before it.

use std::{
    error::Error,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use postgres::{
    Client, Row, Transaction,
    error::SqlState,
    types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};
use ron_kernel::lock::Ranked;
use ron_ledger::PostgresServer;

use super::{
    database::{Columns, Database, StoreError, Value},
    migrations::{self, TABLES},
};
use crate::topology::EPOCH_STORE;

/// The lock under which the tables are created, so that two nodes that start at once do not create them twice.
const MIGRATION: i64 = 0x6f6d_6e69_6761_7465;

/// The lock under which places in chains are given and taken back.
const CHAIN: i64 = MIGRATION + 1;

/// The schema of all tables.
const SCHEMA: &str = PostgresServer::SCHEMA;

/// A database on a server.
pub(crate) struct Postgres {
    server: PostgresServer,
    /// The length of an epoch, in milliseconds.
    epoch_millis: u64,
    /// Whether the tables are known to be there.
    prepared: AtomicBool,
    client: Ranked<Option<Client>>,
}

impl Postgres {
    /// A database that is asked from the first call on.
    pub(crate) fn new(url: &str, timeout: Duration, epoch_millis: u64) -> Result<Self, StoreError> {
        let mut server =
            PostgresServer::parse(url).map_err(|error| StoreError::Refused(error.to_string()))?;
        let millis = timeout.as_millis();
        let settings = server.give_up_after(timeout);
        settings.application_name("omnigate rewarder");
        settings.options(&format!(
            "-c statement_timeout={millis} -c lock_timeout={millis} -c search_path={SCHEMA}"
        ));
        Ok(Self {
            server,
            epoch_millis,
            prepared: AtomicBool::new(false),
            client: Ranked::new(&EPOCH_STORE, None),
        })
    }

    /// Runs something on a connection that works, as far as is known. One that broke is not used again.
    fn with<T>(&self, work: impl FnOnce(&mut Client) -> Result<T, postgres::Error>) -> Result<T, StoreError> {
        let mut slot = self.client.lock();
        let mut client = match slot.take() {
            Some(client) if !client.is_closed() => client,
            _ => self.server.connect()?,
        };
        if !self.prepared.load(Ordering::Acquire) {
            prepare(&mut client, self.epoch_millis)?;
            self.prepared.store(true, Ordering::Release);
        }
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

    fn execute_alone(&self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError> {
        self.with(|client| {
            let mut transaction = client.transaction()?;
            // A statement of its own: the next one sees what the last holder of the lock committed.
            transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&CHAIN])?;
            let changed = transaction.execute(sql, &borrowed(parameters))?;
            transaction.commit()?;
            Ok(changed)
        })
    }

    fn query(&self, sql: &str, parameters: &[Value]) -> Result<Vec<Columns>, StoreError> {
        let rows = self.with(|client| client.query(sql, &borrowed(parameters)))?;
        rows.iter().map(read).collect()
    }
}

/// Makes the tables or brings them to the newest version, and sees to it that the epochs are as long as here. Where that
/// is done, nothing is asked of the role but to read and write.
fn prepare(client: &mut Client, epoch_millis: u64) -> Result<(), StoreError> {
    let role: String = client.query_one("SELECT current_user::text", &[])?.get(0);
    let mut transaction = client.transaction()?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION])?;
    migrate(&mut transaction).map_err(|error| denied(error, &role))?;
    let millis = i64::try_from(epoch_millis).unwrap_or(i64::MAX);
    let put = "INSERT INTO rewarder_numbers (name, value) VALUES ('epoch_millis', $1) ON CONFLICT DO NOTHING";
    let find = "SELECT value FROM rewarder_numbers WHERE name = 'epoch_millis'";
    let mut note = || -> Result<i64, postgres::Error> {
        if let Some(row) = transaction.query_opt(find, &[])? {
            return Ok(row.get(0));
        }
        transaction.execute(put, &[&millis])?;
        Ok(millis)
    };
    let was = note().map_err(|error| denied(error.into(), &role))?;
    migrations::check_length(was.unsigned_abs(), epoch_millis)?;
    Ok(transaction.commit()?)
}

fn migrate(transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
    let is_there = |transaction: &mut Transaction<'_>, sql: &str, name: &str| {
        transaction.query_one(sql, &[&name]).map(|row| row.get::<_, bool>(0))
    };
    const SCHEMA_IS_THERE: &str = "SELECT to_regnamespace($1::text) IS NOT NULL";
    const TABLE_IS_THERE: &str = "SELECT to_regclass($1::text) IS NOT NULL";
    if !is_there(transaction, SCHEMA_IS_THERE, SCHEMA)? {
        transaction.batch_execute(&format!("CREATE SCHEMA {SCHEMA}"))?;
    }
    for table in TABLES {
        // Where they were before they had a schema of their own.
        if !is_there(transaction, TABLE_IS_THERE, &format!("{SCHEMA}.{table}"))?
            && is_there(transaction, TABLE_IS_THERE, &format!("public.{table}"))?
        {
            transaction.batch_execute(&format!("ALTER TABLE public.{table} SET SCHEMA {SCHEMA}"))?;
        }
    }
    let version = if is_there(transaction, TABLE_IS_THERE, &format!("{SCHEMA}.rewarder_numbers"))? {
        transaction.query_opt(migrations::FIND_VERSION, &[])?.map_or(0, |row| row.get(0))
    } else {
        0
    };
    let statements = migrations::missing(version)?.replace("BLOB", "BYTEA");
    Ok(transaction.batch_execute(&statements)?)
}

/// A server that does not let the role do what it has to: says what an administrator has to allow.
fn denied(error: StoreError, role: &str) -> StoreError {
    match error {
        StoreError::Denied(said) => StoreError::Denied(format!(
            "{said}; an administrator of the database has to run: {}",
            PostgresServer::grants(role)
        )),
        other => other,
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
        let Some(said) = error.as_db_error() else { return Self::Unavailable(error.to_string()) };
        let message = said.message().to_owned();
        match *said.code() {
            SqlState::INSUFFICIENT_PRIVILEGE => Self::Denied(message),
            // The role, its password or the database may be made later.
            SqlState::INVALID_PASSWORD
            | SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            | SqlState::INVALID_CATALOG_NAME => Self::Denied(message),
            // What the server says of itself: shutting down, out of memory or connections, cancelled by a timeout.
            ref code if ["53", "57", "58", "40", "55"].contains(&&code.code()[..2]) => {
                Self::Unavailable(message)
            }
            _ => Self::Refused(message),
        }
    }
}

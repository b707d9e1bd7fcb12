//! The epoch store in SQLite: one connection, WAL, synced with every change.

use std::{path::Path, time::Duration};

use ron_kernel::lock::Ranked;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};

use super::{
    database::{Columns, Database, StoreError, Value},
    migrations,
};
use crate::topology::EPOCH_STORE;

/// How long another process may hold the file: a successor and its predecessor share it.
const BUSY: Duration = Duration::from_secs(5);

/// A database in a file or in memory.
#[derive(Debug)]
pub(crate) struct Sqlite(Ranked<Connection>);

impl Sqlite {
    pub(crate) fn open(path: &Path, epoch_millis: u64) -> Result<Self, StoreError> {
        Self::prepare(Connection::open(path)?, epoch_millis)
    }

    pub(crate) fn in_memory(epoch_millis: u64) -> Result<Self, StoreError> {
        Self::prepare(Connection::open_in_memory()?, epoch_millis)
    }

    fn prepare(connection: Connection, epoch_millis: u64) -> Result<Self, StoreError> {
        connection.busy_timeout(BUSY)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        migrate(&connection, epoch_millis)?;
        Ok(Self(Ranked::new(&EPOCH_STORE, connection)))
    }
}

/// Makes the tables or brings them to the newest version, and sees to it that the epochs are as long as here.
fn migrate(connection: &Connection, epoch_millis: u64) -> Result<(), StoreError> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let find = "SELECT count(*) FROM sqlite_schema WHERE name = 'rewarder_numbers'";
    let is_there = transaction.query_row(find, (), |row| row.get::<_, i64>(0))? > 0;
    let number = |sql: &str| transaction.query_row(sql, (), |row| row.get::<_, i64>(0)).optional();
    let version = if is_there { number(migrations::FIND_VERSION)?.unwrap_or(0) } else { 0 };
    transaction.execute_batch(&migrations::missing(version)?)?;
    let put = "INSERT INTO rewarder_numbers (name, value) VALUES ('epoch_millis', ?) ON CONFLICT DO NOTHING";
    transaction.execute(put, [i64::try_from(epoch_millis).unwrap_or(i64::MAX)])?;
    let was = number("SELECT value FROM rewarder_numbers WHERE name = 'epoch_millis'")?.unwrap_or(0);
    migrations::check_length(was.unsigned_abs(), epoch_millis)?;
    Ok(transaction.commit()?)
}

impl Database for Sqlite {
    fn execute(&self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError> {
        let connection = self.0.lock();
        let changed = connection.prepare_cached(sql)?.execute(params_from_iter(parameters))?;
        Ok(changed as u64)
    }

    fn execute_alone(&self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError> {
        // A file has one writer at a time.
        self.execute(sql, parameters)
    }

    fn query(&self, sql: &str, parameters: &[Value]) -> Result<Vec<Columns>, StoreError> {
        let connection = self.0.lock();
        let mut statement = connection.prepare_cached(sql)?;
        let width = statement.column_count();
        let mut rows = statement.query(params_from_iter(parameters))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let columns = (0..width).map(|at| row.get_ref(at).map_err(StoreError::from).and_then(read));
            all.push(columns.collect::<Result<_, _>>()?);
        }
        Ok(all)
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn read(value: ValueRef<'_>) -> Result<Value, StoreError> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|error| StoreError::Damaged(error.to_string()))?;
            Value::Text(text.to_owned())
        }
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
        ValueRef::Real(_) => return Err(StoreError::Damaged("a fraction where none can be".to_owned())),
    })
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly,
            ) => Self::Unavailable(error.to_string()),
            _ => Self::Refused(error.to_string()),
        }
    }
}

//! What the epoch store asks of a database: statements that SQLite and PostgreSQL both read as they stand.

use std::fmt;

/// A value of a column or a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The value NULL.
    Null,
    /// An integer value.
    Int(i64),
    /// A text value.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
}

impl Value {
    /// A number that fits, because epochs are below 2⁵³ and counts of batches are smaller still.
    pub(crate) fn number(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }

    pub(crate) fn text(value: impl fmt::Display) -> Self {
        Self::Text(value.to_string())
    }
}

/// A row as it came.
pub(crate) type Columns = Vec<Value>;

/// Why a statement was not done.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or does not answer; what was asked may or may not have been done.
    #[error("the epoch store does not answer: {0}")]
    Unavailable(String),
    /// It does not let this role in, or do what it has to, until an administrator allows it.
    #[error("the epoch store does not allow it: {0}")]
    Denied(String),
    /// It answered that it will not.
    #[error("the epoch store refuses: {0}")]
    Refused(String),
    /// What it holds makes no sense.
    #[error("the epoch store is damaged: {0}")]
    Damaged(String),
}

/// A database. Calls block, and take turns.
pub(crate) trait Database: Send + Sync + fmt::Debug {
    /// Runs a statement and says how many rows it changed. Parameters are `$1`, `$2`, … in the order of their first
    /// mention, which is what both databases make of them. Durable when it returns.
    fn execute(&self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError>;

    /// The same while no other statement is run this way, so that it sees what the one before has changed.
    fn execute_alone(&self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError>;

    /// Runs a query and returns its rows.
    fn query(&self, sql: &str, parameters: &[Value]) -> Result<Vec<Columns>, StoreError>;
}

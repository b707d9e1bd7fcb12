//! The file: how it is opened, and what is in it.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::JournalError;

/// The version of what follows.
const VERSION: i64 = 3;

/// How long another process may hold the file: a successor and its predecessor write to the same one.
const BUSY: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
    CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE usage (
        epoch  INTEGER NOT NULL,
        actor  TEXT    NOT NULL,
        metric TEXT    NOT NULL,
        boot   BLOB    NOT NULL,
        units  INTEGER NOT NULL,
        PRIMARY KEY (epoch, actor, metric, boot)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE sealed (
        epoch    INTEGER PRIMARY KEY,
        document TEXT    NOT NULL,
        object   TEXT    NOT NULL,
        told     INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX untold ON sealed (epoch) WHERE told = 0;
    PRAGMA user_version = 1;
";

/// From version 1 to version 2.
const QUARANTINE: &str = "
    CREATE TABLE quarantined (
        epoch  INTEGER NOT NULL,
        actor  TEXT    NOT NULL,
        metric TEXT    NOT NULL,
        boot   BLOB    NOT NULL,
        units  INTEGER NOT NULL,
        reason TEXT    NOT NULL,
        PRIMARY KEY (epoch, actor, metric, boot)
    ) STRICT, WITHOUT ROWID;
    PRAGMA user_version = 2;
";

/// From version 2 to version 3: how much of what is quarantined is booked in another epoch.
const BOOKED: &str = "
    ALTER TABLE quarantined ADD COLUMN booked INTEGER NOT NULL DEFAULT 0;
    PRAGMA user_version = 3;
";

/// Makes the tables if there are none, and sees to it that the epochs are those that the file was begun with.
pub(super) fn prepare(
    mut connection: Connection,
    epoch_duration: Duration,
) -> Result<Connection, JournalError> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // One sync a second is what the promise of losing no more than that costs.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match transaction.query_row("PRAGMA user_version", (), |row| row.get(0))? {
        0 => transaction.execute_batch(&[SCHEMA, QUARANTINE, BOOKED].concat())?,
        1 => transaction.execute_batch(&[QUARANTINE, BOOKED].concat())?,
        2 => transaction.execute_batch(BOOKED)?,
        VERSION => {}
        other => {
            return Err(JournalError::Damaged(format!("it is of version {other}, later than this program")));
        }
    }
    let asked = u64::try_from(epoch_duration.as_millis()).unwrap_or(u64::MAX / 2);
    let was = number(&transaction, "epoch_millis")?;
    if let Some(was) = was.filter(|was| *was != asked) {
        return Err(JournalError::OtherEpochs { was: Duration::from_millis(was), asked: epoch_duration });
    }
    raise(&transaction, "epoch_millis", asked)?;
    transaction.commit()?;
    Ok(connection)
}

pub(super) fn number(connection: &Connection, name: &str) -> Result<Option<u64>, JournalError> {
    let mut find = connection.prepare_cached("SELECT value FROM numbers WHERE name = ?")?;
    Ok(find.query_row([name], |row| row.get(0)).optional()?)
}

/// Sets a number that only grows.
pub(super) fn raise(connection: &Connection, name: &str, value: u64) -> Result<(), JournalError> {
    let put = "INSERT INTO numbers (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = max(value, excluded.value)";
    connection.prepare_cached(put)?.execute((name, value))?;
    Ok(())
}

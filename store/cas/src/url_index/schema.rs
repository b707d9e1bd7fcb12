//! The file: how it is opened, what is in it, and when it is started again.

#![expect(clippy::disallowed_methods, reason = "everything in this crate blocks, and says so")]

use std::{ffi::OsString, fs, io, path::Path};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::{IndexError, Start};

/// The version of what follows. A file of another version is started again: what it says can be fetched again.
const VERSION: i64 = 2;

/// Times are in seconds of Unix time. `seal` is a hash over all columns but `id` and `used`.
const SCHEMA: &str = "
    CREATE TABLE urls (
        id            INTEGER PRIMARY KEY,
        url           TEXT    NOT NULL UNIQUE,
        object        BLOB,
        len           INTEGER NOT NULL,
        status        INTEGER NOT NULL,
        media_type    TEXT,
        etag          TEXT,
        last_modified TEXT,
        vary          TEXT,
        cache_control TEXT,
        expires       TEXT,
        fields        TEXT,
        date          INTEGER,
        age           INTEGER NOT NULL,
        request_time  INTEGER NOT NULL,
        response_time INTEGER NOT NULL,
        fresh_until   INTEGER NOT NULL,
        used          INTEGER NOT NULL,
        seal          BLOB    NOT NULL
    ) STRICT;
    CREATE INDEX urls_by_object ON urls (object) WHERE object IS NOT NULL;
    CREATE INDEX urls_by_use ON urls (used);
    PRAGMA user_version = 2;
";

/// The index in a file, whatever was there before.
pub(super) fn open(path: &Path) -> Result<(Connection, Start), IndexError> {
    match prepare(path) {
        Err(IndexError::Damaged(why)) => {
            remove(path).map_err(|error| IndexError::Failed(error.to_string()))?;
            Ok((prepare(path)?.0, Start::Replaced { why }))
        }
        other => other,
    }
}

/// The index in a file, only to be read, without a log or a lock beside it.
pub(super) fn open_unchanging(path: &Path) -> Result<Connection, IndexError> {
    // What has a meaning in a URI is written as its code.
    let name = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{name}?immutable=1"), flags)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let version: i64 = connection.query_row("PRAGMA user_version", (), |row| row.get(0))?;
    if version == VERSION {
        Ok(connection)
    } else {
        Err(IndexError::Damaged(format!("it is of version {version}")))
    }
}

/// An index that is nowhere else.
pub(super) fn open_in_memory() -> Result<Connection, IndexError> {
    let connection = Connection::open_in_memory()?;
    // Large statements would otherwise write files beside it.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

fn prepare(path: &Path) -> Result<(Connection, Start), IndexError> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))?;
    if verdict != "ok" {
        return Err(IndexError::Damaged(verdict));
    }
    // At once, because another process may be making the same file.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", (), |row| row.get(0))?;
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
    let start = match (version, tables) {
        (0, 0) => {
            transaction.execute_batch(SCHEMA)?;
            Start::New
        }
        (VERSION, 1..) => Start::Kept,
        _ => return Err(IndexError::Damaged(format!("it is of version {version}"))),
    };
    transaction.commit()?;
    Ok((connection, start))
}

/// Removes the file with its log, which belongs to nothing else.
fn remove(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = OsString::from(path);
        name.push(suffix);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

//! The file: how it is opened, what is in it, and how older versions become the newest.

use std::path::Path;

use ledgerbook::Fault;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::{BUSY_TIMEOUT, failed};
use crate::LedgerError;

/// Says that a SQLite file is a ledger: `OMLG`.
const APPLICATION_ID: i64 = 0x4F4D_4C47;

/// How each version is made of the one before, the first of nothing. Never changed, only added to.
///
/// Amounts and balances are decimal text, because SQLite's integers have 64 bits. Times are seconds of Unix time.
const MIGRATIONS: &[&str] = &[
    "CREATE TABLE accounts (
        number    INTEGER PRIMARY KEY,
        name      TEXT    NOT NULL UNIQUE,
        asset     TEXT    NOT NULL,
        overdraft TEXT,
        balance   TEXT    NOT NULL,
        held      TEXT    NOT NULL,
        opened    INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE requests (
        number      INTEGER PRIMARY KEY,
        key         TEXT    NOT NULL UNIQUE,
        body        BLOB    NOT NULL,
        reference   TEXT    NOT NULL,
        at          INTEGER NOT NULL,
        first_entry INTEGER NOT NULL,
        entries     INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE entries (
        number  INTEGER PRIMARY KEY,
        request INTEGER NOT NULL,
        kind    INTEGER NOT NULL,
        source  INTEGER,
        target  INTEGER NOT NULL,
        amount  TEXT,
        hold    INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX entries_by_hold ON entries (hold) WHERE hold IS NOT NULL;
    CREATE TABLE links (
        number   INTEGER PRIMARY KEY,
        accounts INTEGER NOT NULL,
        requests INTEGER NOT NULL,
        entries  INTEGER NOT NULL,
        root     BLOB    NOT NULL,
        hash     BLOB    NOT NULL
    ) STRICT;",
    "CREATE TABLE checkpoints (
        link      INTEGER NOT NULL,
        state     BLOB    NOT NULL,
        key       BLOB    NOT NULL,
        signature BLOB    NOT NULL,
        PRIMARY KEY (link, key)
    ) STRICT;",
];

/// The ledger in a file, made or brought to the newest version if need be.
pub(super) fn open(path: &Path) -> Result<Connection, LedgerError> {
    let mut connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(failed)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    prepare(&mut connection)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    prepare(&mut connection)?;
    Ok(connection)
}

/// A ledger that is nowhere else.
pub(super) fn open_in_memory() -> Result<Connection, LedgerError> {
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    prepare(&mut connection)?;
    migrate(&mut connection)?;
    Ok(connection)
}

fn prepare(connection: &mut Connection) -> Result<(), LedgerError> {
    // Large statements would otherwise write files beside it.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn migrate(connection: &mut Connection) -> Result<(), LedgerError> {
    // At once, because another process may be opening the same file.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let number = |sql: &str| transaction.query_row(sql, (), |row| row.get::<_, i64>(0)).map_err(failed);
    let (version, application) = (number("PRAGMA user_version")?, number("PRAGMA application_id")?);
    let known = MIGRATIONS.len() as i64;
    let is_empty = number("SELECT count(*) FROM sqlite_schema")? == 0;
    match (version, application) {
        (0, 0) if is_empty => {}
        (1.., APPLICATION_ID) if version <= known => {
            let until = usize::try_from(version).unwrap_or(MIGRATIONS.len());
            compare(&transaction, until)?;
        }
        (_, APPLICATION_ID) if version > known => return Err(LedgerError::Version { found: version, known }),
        _ => return Err(LedgerError::BadSetup("the file is no ledger".to_owned())),
    }
    for (migration, version) in MIGRATIONS.iter().zip(1_i64..).skip(usize::try_from(version).unwrap_or(0)) {
        transaction.execute_batch(migration).map_err(failed)?;
        transaction.pragma_update(None, "user_version", version).map_err(failed)?;
    }
    if application != APPLICATION_ID {
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

/// The tables of the file are those that the migrations up to its version make: a constraint that is gone would
/// otherwise be missed only when it is needed.
fn compare(connection: &Connection, until: usize) -> Result<(), LedgerError> {
    let right = Connection::open_in_memory().map_err(failed)?;
    MIGRATIONS[..until].iter().try_for_each(|migration| right.execute_batch(migration)).map_err(failed)?;
    if definitions(connection)? == definitions(&right)? {
        return Ok(());
    }
    Err(Fault::Unreadable("its tables are not those of a ledger".to_owned()).into())
}

fn definitions(connection: &Connection) -> Result<Vec<[Option<String>; 4]>, LedgerError> {
    const SQL: &str = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name";
    let mut statement = connection.prepare(SQL).map_err(failed)?;
    let rows = statement.query_map((), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]));
    rows.and_then(Iterator::collect).map_err(failed)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn at_version(path: &Path, version: usize) -> Connection {
        let connection = Connection::open(path).unwrap();
        MIGRATIONS[..version].iter().for_each(|migration| connection.execute_batch(migration).unwrap());
        connection.pragma_update(None, "user_version", version).unwrap();
        connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        connection
    }

    #[test]
    fn every_older_version_becomes_the_newest() {
        for version in 1..=MIGRATIONS.len() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ledger.db");
            drop(at_version(&path, version));
            let opened = open(&path).unwrap();
            compare(&opened, MIGRATIONS.len()).unwrap();
            assert!(open(&path).is_ok(), "and is opened again");
        }
    }

    #[test]
    fn a_newer_version_and_another_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (newer, other) = (folder.path().join("newer.db"), folder.path().join("other.db"));
        let known = MIGRATIONS.len();
        at_version(&newer, known).pragma_update(None, "user_version", known + 1).unwrap();
        let (found, known) = (known as i64 + 1, known as i64);
        assert_eq!(open(&newer).unwrap_err(), LedgerError::Version { found, known });
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE cake (layers)").unwrap();
        assert!(matches!(open(&other), Err(LedgerError::BadSetup(_))));
    }

    #[test]
    fn a_table_without_its_constraint_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        at_version(&path, MIGRATIONS.len()).execute_batch("DROP INDEX entries_by_hold").unwrap();
        assert!(matches!(open(&path), Err(LedgerError::Damaged(_))));
    }
}

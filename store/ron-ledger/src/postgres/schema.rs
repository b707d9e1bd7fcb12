//! The tables, and how older versions become the newest.

use super::{PostgresServer, connection::Connection, failed};
use crate::LedgerError;

/// The schema all tables are in.
pub(super) const NAME: &str = PostgresServer::SCHEMA;

/// How each version is made of the one before, the first of nothing. Never changed, only added to.
///
/// Names are compared byte by byte, as everywhere else. `head` has one row and says nothing: it is what is locked.
const MIGRATIONS: &[&str] = &[
    r#"CREATE TABLE accounts (
        number    bigint PRIMARY KEY,
        name      text COLLATE "C" NOT NULL UNIQUE,
        asset     text COLLATE "C" NOT NULL,
        overdraft numeric(39, 0),
        balance   numeric(39, 0) NOT NULL,
        held      numeric(39, 0) NOT NULL CHECK (held >= 0),
        opened    bigint NOT NULL
    );
    CREATE TABLE requests (
        number      bigint PRIMARY KEY,
        key         text COLLATE "C" NOT NULL UNIQUE,
        body        bytea NOT NULL,
        reference   text NOT NULL,
        at          bigint NOT NULL,
        first_entry bigint NOT NULL,
        entries     bigint NOT NULL
    );
    CREATE TABLE entries (
        number  bigint PRIMARY KEY,
        request bigint NOT NULL,
        kind    bigint NOT NULL,
        source  bigint,
        target  bigint NOT NULL,
        amount  numeric(39, 0) CHECK (amount > 0),
        hold    bigint
    );
    CREATE UNIQUE INDEX entries_by_hold ON entries (hold) WHERE hold IS NOT NULL;
    CREATE TABLE links (
        number   bigint PRIMARY KEY,
        accounts bigint NOT NULL,
        requests bigint NOT NULL,
        entries  bigint NOT NULL,
        root     bytea NOT NULL,
        hash     bytea NOT NULL
    );
    CREATE TABLE head (one boolean PRIMARY KEY CHECK (one));
    INSERT INTO head VALUES (true);"#,
    "CREATE TABLE checkpoints (
        link      bigint NOT NULL,
        state     bytea NOT NULL,
        key       bytea NOT NULL,
        signature bytea NOT NULL,
        PRIMARY KEY (link, key)
    );",
];

/// Makes the tables or brings them to the newest version, and checks that the server keeps what it promises. Where that is
/// done, nothing is asked of the role but to read and write.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), LedgerError> {
    let role: String = connection.query("SELECT current_user::text", &[])?[0].get(0);
    let fsync: String = connection.query("SHOW fsync", &[])?[0].get(0);
    if fsync != "on" {
        let what = "the server runs with fsync = off and would lose what it acknowledged";
        return Err(LedgerError::BadSetup(what.to_owned()));
    }
    migrate(connection).map_err(|error| match error {
        LedgerError::BadSetup(said) => LedgerError::BadSetup(format!(
            "{said}; an administrator of the database has to run: {}",
            PostgresServer::grants(&role)
        )),
        other => other,
    })
}

fn migrate(connection: &mut Connection) -> Result<(), LedgerError> {
    // The lock's number is arbitrary; it keeps two nodes from making the same tables.
    run(connection, "BEGIN; SELECT pg_advisory_xact_lock(5499116170042)")?;
    let is_there = |connection: &mut Connection, find: &str, name: &str| -> Result<bool, LedgerError> {
        Ok(connection.query(find, &[&name])?[0].get(0))
    };
    if !is_there(connection, "SELECT to_regnamespace($1::text) IS NOT NULL", NAME)? {
        run(connection, &format!("CREATE SCHEMA {NAME}"))?;
    }
    if !is_there(connection, "SELECT to_regclass($1::text) IS NOT NULL", &format!("{NAME}.version"))? {
        run(connection, "CREATE TABLE version (number bigint NOT NULL)")?;
    }
    let rows = connection.query("SELECT number FROM version", &[])?;
    let version: i64 = rows.first().map_or(0, |row| row.get(0));
    let known = MIGRATIONS.len() as i64;
    if !(0..=known).contains(&version) {
        return Err(LedgerError::Version { found: version, known });
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        run(connection, migration)?;
    }
    if version < known {
        run(connection, &format!("DELETE FROM version; INSERT INTO version VALUES ({known})"))?;
    }
    run(connection, "COMMIT")
}

fn run(connection: &mut Connection, sql: &str) -> Result<(), LedgerError> {
    connection.run(sql).map_err(|error| failed(&error))
}

//! The tables, and how older versions become the newest. The same statements for every database.

use super::database::StoreError;

/// How each version is made of the one before, the first of nothing. Never changed, only added to.
///
/// `BLOB` is `BYTEA` to PostgreSQL. Numbers of epochs, batches and versions, and times, are below 2⁵³.
const MIGRATIONS: [&str; 6] = [
    "CREATE TABLE IF NOT EXISTS rewarder_numbers (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS rewarder_snapshots (
        epoch BIGINT NOT NULL, node TEXT NOT NULL, document TEXT NOT NULL, object TEXT NOT NULL,
        PRIMARY KEY (epoch, node)
    );
    CREATE TABLE IF NOT EXISTS rewarder_rows (object TEXT PRIMARY KEY, epoch BIGINT NOT NULL, bytes BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS rewarder_policies (
        id TEXT NOT NULL, version BIGINT NOT NULL, digest TEXT NOT NULL, document TEXT NOT NULL,
        PRIMARY KEY (id, version)
    );
    CREATE TABLE IF NOT EXISTS rewarder_epochs (
        epoch BIGINT PRIMARY KEY, state TEXT NOT NULL, reason TEXT, inputs TEXT NOT NULL, policy TEXT NOT NULL,
        input_document TEXT NOT NULL, policy_document TEXT NOT NULL,
        run_key TEXT, commitment TEXT, batches BIGINT NOT NULL, posted BIGINT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS rewarder_epochs_by_state ON rewarder_epochs (state, epoch);",
    // When an epoch was settled and when its files were let go, in seconds since 1970.
    "ALTER TABLE rewarder_epochs ADD COLUMN settled_at BIGINT;
    ALTER TABLE rewarder_epochs ADD COLUMN retired_at BIGINT;",
    // The chain of runs, what is carried from one to the next, corrections, payees, orders and disputes.
    "ALTER TABLE rewarder_epochs ADD COLUMN chain TEXT;
    ALTER TABLE rewarder_epochs ADD COLUMN link BIGINT;
    ALTER TABLE rewarder_epochs ADD COLUMN corrections BIGINT;
    ALTER TABLE rewarder_epochs ADD COLUMN payees BIGINT;
    ALTER TABLE rewarder_epochs ADD COLUMN orders TEXT;
    CREATE UNIQUE INDEX IF NOT EXISTS rewarder_epochs_by_link ON rewarder_epochs (chain, link);
    CREATE TABLE IF NOT EXISTS rewarder_carried (
        epoch BIGINT NOT NULL, commitment TEXT NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (epoch, commitment)
    );
    CREATE TABLE IF NOT EXISTS rewarder_corrections (
        chain TEXT NOT NULL, number BIGINT NOT NULL, hash TEXT NOT NULL UNIQUE, document TEXT NOT NULL,
        PRIMARY KEY (chain, number)
    );
    CREATE TABLE IF NOT EXISTS rewarder_payees (
        chain TEXT NOT NULL, version BIGINT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (chain, version)
    );
    CREATE TABLE IF NOT EXISTS rewarder_disputes (
        epoch BIGINT NOT NULL, hash TEXT NOT NULL PRIMARY KEY, document TEXT NOT NULL
    );",
    // The numbers of corrections that were to take effect in a run and do not.
    "ALTER TABLE rewarder_epochs ADD COLUMN left_out TEXT;",
    // Among which objections one is counted, and the key that signed it; and the snapshots that have some rows.
    "ALTER TABLE rewarder_disputes ADD COLUMN room TEXT;
    ALTER TABLE rewarder_disputes ADD COLUMN author TEXT;
    CREATE INDEX IF NOT EXISTS rewarder_snapshots_by_object ON rewarder_snapshots (object);",
    // Whether paying an epoch has begun: 1; or the ledger may know its run, because one that follows it is paid: 2.
    "ALTER TABLE rewarder_epochs ADD COLUMN emitted BIGINT;",
];

/// Every table; those of PostgreSQL were in the schema `public` before they had one of their own.
#[cfg(feature = "postgres")]
pub(super) const TABLES: [&str; 5] =
    ["rewarder_numbers", "rewarder_snapshots", "rewarder_rows", "rewarder_policies", "rewarder_epochs"];

/// The version that the tables have; no row if they are not there.
pub(super) const FIND_VERSION: &str = "SELECT value FROM rewarder_numbers WHERE name = 'version'";

/// The statements that bring tables of a version, 0 if there are none, to the newest; empty if they are.
pub(super) fn missing(version: i64) -> Result<String, StoreError> {
    let known = MIGRATIONS.len();
    let Some(missing) = usize::try_from(version).ok().and_then(|version| MIGRATIONS.get(version..)) else {
        return Err(StoreError::Refused(format!(
            "its tables have version {version}, and this program knows up to {known}"
        )));
    };
    if missing.is_empty() {
        return Ok(String::new());
    }
    let note = format!(
        "INSERT INTO rewarder_numbers (name, value) VALUES ('version', {known})
         ON CONFLICT (name) DO UPDATE SET value = excluded.value;"
    );
    Ok(missing.join("\n") + "\n" + &note)
}

/// Sees to it that a store has epochs of this length.
pub(super) fn check_length(was: u64, wanted: u64) -> Result<(), StoreError> {
    if was == wanted {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "it has epochs of {was} ms, not {wanted} ms: their numbers would mean other times"
    )))
}

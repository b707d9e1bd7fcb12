//! Whether a database is a pack, before anything in it is used.

use rusqlite::types::ValueRef;

use crate::{
    error::MbtilesError,
    mbtiles::{ALL_METADATA, ALL_TILES, LOOK_UP, connection::Connection},
};

/// Tables, views and indexes of a database. A pack has five or so.
const MAX_OBJECTS: usize = 200;

/// How the steps of a query begin that takes its rows one by one, and keeps none of them. All others collect rows in memory: to
/// sort them, to find equal ones, or to use them again.
const ROW_BY_ROW: [&str; 9] = [
    "SEARCH ",
    "SCAN ",
    "USING ",
    "COMPOUND QUERY",
    "LEFT-MOST SUBQUERY",
    "UNION ALL",
    "MULTI-INDEX OR",
    "INDEX ",
    "BLOOM FILTER ",
];

/// Checks that there is nothing in it that acts, that tables and columns are those of a pack, that a lookup does not read all
/// of it, and that no query collects rows in memory.
pub(crate) fn check(connection: &Connection) -> Result<(), MbtilesError> {
    objects(connection)?;
    columns(connection, "tiles", "zoom_level, tile_column, tile_row, tile_data")?;
    columns(connection, "metadata", "name, value")?;
    plan(connection, "tiles", LOOK_UP, false)?;
    plan(connection, "tiles", ALL_TILES, true)?;
    plan(connection, "metadata", ALL_METADATA, true)
}

fn objects(connection: &Connection) -> Result<(), MbtilesError> {
    let mut statement = connection.query().prepare("SELECT type, sql FROM sqlite_schema")?;
    let mut rows = statement.query(())?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        connection.next_row();
        count += 1;
        if count > MAX_OBJECTS {
            return Err(MbtilesError::SchemaSize(MAX_OBJECTS));
        }
        let text = |column| match row.get_ref(column) {
            Ok(ValueRef::Text(text)) => text,
            _ => b"",
        };
        if text(0).eq_ignore_ascii_case(b"trigger") {
            return Err(MbtilesError::Active("trigger"));
        }
        // The database keeps these two words as it wants them, whatever was typed.
        if text(1).to_ascii_uppercase().starts_with(b"CREATE VIRTUAL TABLE") {
            return Err(MbtilesError::Active("virtual table"));
        }
    }
    Ok(())
}

/// Whether the columns can be selected; nothing is.
fn columns(connection: &Connection, table: &'static str, columns: &'static str) -> Result<(), MbtilesError> {
    let query = format!("SELECT {columns} FROM {table} LIMIT 0");
    match connection.query().prepare(&query) {
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => Err(MbtilesError::Schema(table, columns)),
        Err(error) => Err(error.into()),
    }
}

fn is_missing(error: &rusqlite::Error) -> bool {
    let text = error.to_string();
    text.contains("no such table") || text.contains("no such column")
}

/// Looks at the steps of a query, which may read all of a table if `scans`.
fn plan(connection: &Connection, table: &'static str, query: &str, scans: bool) -> Result<(), MbtilesError> {
    let mut statement = connection.query().prepare(&format!("EXPLAIN QUERY PLAN {query}"))?;
    let mut rows = statement.raw_query();
    let mut collects = None;
    while let Some(row) = rows.next()? {
        connection.next_row();
        let step: String = row.get(3)?;
        if step.starts_with("SCAN") && !scans {
            return Err(MbtilesError::NoIndex);
        }
        if !ROW_BY_ROW.iter().any(|known| step.starts_with(known)) {
            collects.get_or_insert(step);
        }
    }
    collects.map_or(Ok(()), |step| Err(MbtilesError::Collects { table, step }))
}

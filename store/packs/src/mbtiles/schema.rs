//! Whether a database is a pack, before anything in it is used.

use rusqlite::types::ValueRef;

use crate::{
    error::MbtilesError,
    mbtiles::{LOOK_UP, connection::Connection},
};

/// Tables, views and indexes of a database. A pack has five or so.
const MAX_OBJECTS: usize = 200;

/// Checks that there is nothing in it that acts, that tables and columns are those of a pack, and that a lookup does not read all
/// of it.
pub(crate) fn check(connection: &Connection) -> Result<(), MbtilesError> {
    objects(connection)?;
    columns(connection, "tiles", "zoom_level, tile_column, tile_row, tile_data")?;
    columns(connection, "metadata", "name, value")?;
    plan(connection)
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

fn plan(connection: &Connection) -> Result<(), MbtilesError> {
    let mut statement = connection.query().prepare(&format!("EXPLAIN QUERY PLAN {LOOK_UP}"))?;
    let mut rows = statement.query((0, 0, 0))?;
    while let Some(row) = rows.next()? {
        connection.next_row();
        let step: String = row.get(3)?;
        if step.starts_with("SCAN") {
            return Err(MbtilesError::NoIndex);
        }
    }
    Ok(())
}

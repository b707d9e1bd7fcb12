//! Reading every tile of a database once, to know from then on what each has to be.

use pmtiles::Coord;
use rusqlite::{Row as DatabaseRow, types::ValueRef};
use types::ObjectId;

use crate::{
    error::{MbtilesError, MountError, PackError},
    mbtiles::{
        ALL_TILES, Database,
        connection::Connection,
        table::{Row, Table},
    },
    options::{MountOptions, Stage},
};

/// Look-ups that are tried before the pack is served.
const SAMPLES: usize = 8;

impl Database {
    /// Hashes every tile. Progress is by the bytes of tiles, out of the bytes of the file.
    pub(crate) fn scan(&self, options: &mut MountOptions<'_>, total: u64) -> Result<Table, MountError> {
        let (rows, ignored) = self.pool.with(|connection| self.rows(connection, options, total))?;
        let table =
            Table::new(rows, ignored).map_err(|tile| MbtilesError::Twice(tile.coord().to_string()))?;
        if table.len() == 0 {
            return Err(MbtilesError::Empty.into());
        }
        self.try_look_ups(&table)?;
        Ok(table)
    }

    fn rows(
        &self,
        connection: &Connection,
        options: &mut MountOptions<'_>,
        total: u64,
    ) -> Result<(Vec<Row>, u64), MountError> {
        let mut statement = connection.query().prepare(ALL_TILES).map_err(MbtilesError::from)?;
        let mut found = statement.query(()).map_err(MbtilesError::from)?;
        let (mut rows, mut ignored, mut done) = (Vec::new(), 0, 0);
        while let Some(row) = found.next().map_err(too_slow)? {
            connection.next_row();
            // For each row, and not for so many bytes: a view can have rows without end in which there is nothing.
            if options.tell(Stage::Tiles, done, total).is_break() {
                return Err(MountError::Stopped);
            }
            if rows.len() as u64 + ignored >= self.limits.mbtiles_tiles as u64 {
                return Err(MbtilesError::TooManyTiles(self.limits.mbtiles_tiles).into());
            }
            let Some((tile, content)) = tile(row, self.limits.pmtiles.tile_bytes)? else {
                ignored += 1;
                continue;
            };
            let id = ObjectId::new(*blake3::hash(content).as_bytes());
            rows.push(Row { tile: tile.id(), id });
            done += content.len() as u64;
        }
        Ok((rows, ignored))
    }

    /// Tries some tiles: an index that helps little shows here.
    fn try_look_ups(&self, table: &Table) -> Result<(), MbtilesError> {
        let step = table.len().div_ceil(SAMPLES).max(1);
        let samples = table.tiles().step_by(step).chain(table.tiles().next_back());
        for tile in samples {
            match self.read(tile.coord()) {
                Ok(Some(_)) => {}
                Err(PackError::Slow) => return Err(MbtilesError::NoIndex),
                // Found by reading all tiles, and not by looking for it.
                Ok(None) | Err(_) => return Err(MbtilesError::Lost(tile.coord().to_string())),
            }
        }
        Ok(())
    }
}

/// A row's tile and its content; `None` for rows that are no tiles: outside of their zoom, or empty.
fn tile<'a>(row: &'a DatabaseRow<'_>, max: u32) -> Result<Option<(Coord, &'a [u8])>, MbtilesError> {
    let number = |at: usize, column| match row.get_ref(at)? {
        ValueRef::Integer(number) => Ok(number),
        _ => Err(MbtilesError::Type { table: "tiles", column, expected: "a whole number" }),
    };
    let (z, x, row_number) = (number(0, "zoom_level")?, number(1, "tile_column")?, number(2, "tile_row")?);
    let content = match row.get_ref(3)? {
        ValueRef::Blob(content) => content,
        ValueRef::Null => return Ok(None),
        _ => return Err(MbtilesError::Type { table: "tiles", column: "tile_data", expected: "a blob" }),
    };
    if content.len() > usize::try_from(max).unwrap_or(usize::MAX) {
        let tile = format!("{z}/{x}/{row_number} (rows from the south)");
        return Err(MbtilesError::TileTooLarge { tile, len: content.len(), max });
    }
    let coord = from_south(z, x, row_number).filter(|_| !content.is_empty());
    Ok(coord.map(|coord| (coord, content)))
}

/// The tile at these coordinates, with rows counted from the south.
fn from_south(z: i64, x: i64, row: i64) -> Option<Coord> {
    let (z, x, row) = (u8::try_from(z).ok()?, u32::try_from(x).ok()?, u32::try_from(row).ok()?);
    // Counting from the other end is the same in both directions.
    Coord::new(z, x, Coord::new(z, x, row)?.tms_row())
}

fn too_slow(error: rusqlite::Error) -> MbtilesError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => MbtilesError::TooSlow,
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_from_the_south() {
        assert_eq!(from_south(11, 327, 1256), Coord::new(11, 327, 791));
        assert_eq!(from_south(0, 0, 0), Coord::new(0, 0, 0));
        for (z, x, row) in [(0, 0, 1), (1, 2, 0), (1, 0, -1), (-1, 0, 0), (32, 0, 0), (3, i64::MAX, 0)] {
            assert_eq!(from_south(z, x, row), None);
        }
    }
}

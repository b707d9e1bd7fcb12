//! What each tile has to be: ids and hashes, sorted.

use pmtiles::TileId;
use types::ObjectId;

/// The bytes of a row: an id and a hash.
pub(crate) const ROW_LEN: usize = 8 + HASH_LEN;

const HASH_LEN: usize = 32;

/// The tiles of a pack, in ascending order of their ids.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    /// Rows of the database that are no tiles.
    ignored: u64,
}

/// A tile and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) tile: TileId,
    pub(crate) id: ObjectId,
}

impl Table {
    /// Sorts the tiles. Some may be there twice.
    ///
    /// # Errors
    /// The first tile that is there twice with different contents.
    pub(crate) fn new(mut rows: Vec<Row>, ignored: u64) -> Result<Self, TileId> {
        rows.sort_unstable();
        rows.dedup();
        rows.shrink_to_fit();
        match rows.windows(2).find(|pair| pair[0].tile == pair[1].tile) {
            Some(pair) => Err(pair[0].tile),
            None => Ok(Self { rows, ignored }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many rows of the database are no tiles.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }

    /// What the tile has to be, if it is there.
    pub(crate) fn get(&self, tile: TileId) -> Option<ObjectId> {
        let at = self.rows.binary_search_by_key(&tile, |row| row.tile).ok()?;
        Some(self.rows[at].id)
    }

    /// The tiles, in ascending order.
    pub(crate) fn tiles(&self) -> impl ExactSizeIterator<Item = TileId> + DoubleEndedIterator + '_ {
        self.rows.iter().map(|row| row.tile)
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.rows.len() * ROW_LEN);
        for row in &self.rows {
            bytes.extend(row.tile.number().to_le_bytes());
            bytes.extend(row.id.as_bytes());
        }
    }

    /// Reads whole rows; `None` unless they are in order and tiles.
    pub(crate) fn decode(bytes: &[u8], ignored: u64) -> Option<Self> {
        let mut rows = Vec::with_capacity(bytes.len() / ROW_LEN);
        for row in bytes.chunks_exact(ROW_LEN) {
            let (number, hash) = row.split_first_chunk::<8>()?;
            let tile = TileId::new(u64::from_le_bytes(*number))?;
            rows.push(Row { tile, id: ObjectId::new(hash.try_into().ok()?) });
        }
        rows.is_sorted_by(|a, b| a.tile < b.tile).then_some(Self { rows, ignored })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64, byte: u8) -> Row {
        Row { tile: TileId::new(number).expect("a tile"), id: ObjectId::new([byte; 32]) }
    }

    #[test]
    fn rows_come_back_in_order_and_each_tile_once() {
        let table =
            Table::new(vec![row(9, 1), row(3, 2), row(9, 1), row(0, 3)], 0).expect("no contradiction");
        assert_eq!(table.tiles().map(TileId::number).collect::<Vec<_>>(), [0, 3, 9]);
        assert_eq!(table.get(row(3, 0).tile), Some(ObjectId::new([2; 32])));
        assert_eq!(table.get(row(4, 0).tile), None);
        let mut bytes = Vec::new();
        table.encode(&mut bytes);
        assert_eq!(bytes.len(), 3 * ROW_LEN);
        assert_eq!(Table::decode(&bytes, 0).expect("in order").rows, table.rows);
        bytes.rotate_left(ROW_LEN);
        assert!(Table::decode(&bytes, 0).is_none(), "out of order");
        assert!(Table::decode(&[0xff; ROW_LEN], 0).is_none(), "no such tile");
    }

    #[test]
    fn a_tile_with_two_contents_is_a_contradiction() {
        assert_eq!(Table::new(vec![row(9, 1), row(3, 2), row(9, 2)], 0).map(drop), Err(row(9, 0).tile));
    }
}

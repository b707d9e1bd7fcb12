//! Rows as canonical lines of JSON: what is hashed, and what files of rows were before they were Parquet.

use rewards::{Row, RowFault, read_row};

use super::bad_row;
use crate::SnapshotError;

/// Reads lines, none of which may lack its line feed.
pub(super) fn read<E: From<SnapshotError>>(
    file: &[u8],
    mut take: impl FnMut(Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut room = String::new();
    for (at, line) in (0..).zip(file.split_inclusive(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\n").ok_or_else(|| bad_row(at, RowFault::Malformed))?;
        take(read_row(line, &mut room).map_err(|fault| bad_row(at, fault))?)?;
    }
    Ok(())
}

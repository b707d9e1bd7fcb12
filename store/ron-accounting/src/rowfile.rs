//! Files of rows: Parquet, and the lines of JSON that were written before it. Which one it is, its first bytes say.
//!
//! A file is only where rows are kept. What a node signs is the hash over the rows as canonical lines, whatever file they
//! came out of, so a reader need not write the same bytes, and a writer may change.

mod column;
mod layout;
mod lines;
mod take;
mod thrift;
mod write;

use rewards::{Row, RowFault};

use crate::{SnapshotError, Used};
use column::Column;
use layout::{Group, Layout};

pub use take::take_in;

/// The most rows that are read from one file.
pub const MAX_FILE_ROWS: u64 = 32 << 20;

/// A Parquet file begins and ends with these.
const MAGIC: &[u8] = b"PAR1";

/// What is wrong with a Parquet file, as one of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// It does not end as Parquet files do, or its end is longer than that of any file of rows.
    #[error("it does not end as a Parquet file of rows does")]
    Footer,
    /// A header is not written as headers are.
    #[error("a header in it cannot be read")]
    Header,
    /// It has other columns than `actor`, `metric`, `units` and `units_high`.
    #[error("its columns are not those of rows")]
    Columns,
    /// The columns of the file are compressed.
    #[error("its columns are compressed with {0}, and files of rows are not: write it without compression")]
    Compressed(&'static str),
    /// It is encrypted, or encoded in a way that is not read here.
    #[error("it is encrypted, or encoded as files of rows are not: write it as version 1 of Parquet")]
    Encoding,
    /// A column, a page or a value ends too early, or leads out of the file.
    #[error("a part of it is cut off, or an offset is invalid")]
    CutOff,
    /// A column has more or fewer values than there are rows.
    #[error("its columns have other lengths than its footer says")]
    Lengths,
    /// A name is no text.
    #[error("a name in it is not text")]
    Text,
    /// It has more rows than any file may.
    #[error("it has more than {MAX_FILE_ROWS} rows")]
    TooManyRows,
}

/// A file of these rows.
pub(crate) fn write_file(used: &[Used]) -> Result<Vec<u8>, SnapshotError> {
    write::parquet(used).map_err(|error| SnapshotError::NotWritten(error.to_string()))
}

/// Reads the rows of a file, which is untrusted, one after the other, until there are no more or `take` has had enough.
/// Their order is for `take` to judge.
///
/// Beside the file, it holds the strings that one part of the file repeats, 80 MiB at most.
///
/// # Errors
/// What `take` said, or [`SnapshotError::Row`] or [`SnapshotError::File`] if the file is not one of rows.
pub fn read_rows<E: From<SnapshotError>>(
    file: &[u8],
    mut take: impl FnMut(Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    if !file.starts_with(MAGIC) {
        return lines::read(file, take);
    }
    let layout = Layout::read(file).map_err(SnapshotError::File)?;
    layout.groups.iter().try_for_each(|group| read_group(file, group, &mut take))
}

fn read_group<E: From<SnapshotError>>(
    file: &[u8],
    group: &Group,
    take: &mut impl FnMut(Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let wrong = SnapshotError::File;
    let [actor, metric, units, units_high] = &group.columns;
    let mut actors = Column::<&str>::new(&file[actor.clone()]);
    let mut metrics = Column::<&str>::new(&file[metric.clone()]);
    let mut low = Column::<u64>::new(&file[units.clone()]);
    let mut high = Column::<u64>::new(&file[units_high.clone()]);
    for _ in 0..group.rows {
        let (actor, metric) = (actors.next().map_err(wrong)?, metrics.next().map_err(wrong)?);
        let (low, high) = (low.next().map_err(wrong)?, high.next().map_err(wrong)?);
        take(Row { actor, metric, units: u128::from(high) << 64 | u128::from(low) })?;
    }
    if actors.is_done() && metrics.is_done() && low.is_done() && high.is_done() {
        Ok(())
    } else {
        Err(wrong(FileFault::Lengths).into())
    }
}

/// The fault of a row that is no row.
fn bad_row(row: u64, fault: RowFault) -> SnapshotError {
    SnapshotError::Row { row, fault }
}

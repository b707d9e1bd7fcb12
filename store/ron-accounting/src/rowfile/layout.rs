//! Where things are in a Parquet file of rows: its footer, judged before a column is looked at.
//!
//! Four columns, none of which may be empty anywhere, in this order:
//!
//! | column | type |
//! |---|---|
//! | `actor`, `metric` | `BYTE_ARRAY`, text |
//! | `units`, `units_high` | `INT64` without a sign: the lower and the upper 64 bits |

use std::ops::Range;

use super::{FileFault, MAGIC, MAX_FILE_ROWS, thrift::Value};

/// Longer than the footer of any file of rows: a group of a million rows takes some hundred bytes of it.
const MAX_FOOTER: usize = 256 << 10;

/// The numbers that Parquet gives to what is known here.
const INT64: i64 = 2;
const BYTE_ARRAY: i64 = 6;
const REQUIRED: i64 = 0;
const UNCOMPRESSED: i64 = 0;
/// The names of compression codecs, by their number in the format.
const CODECS: [&str; 8] = ["nothing", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"];

/// Names and types of the columns.
const COLUMNS: [(&[u8], i64); 4] =
    [(b"actor", BYTE_ARRAY), (b"metric", BYTE_ARRAY), (b"units", INT64), (b"units_high", INT64)];

/// The content of a file's footer.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) groups: Vec<Group>,
}

/// Some rows, column by column.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) rows: u64,
    /// Where the pages of each column are; within the file.
    pub(super) columns: [Range<usize>; 4],
}

impl Layout {
    /// Reads a footer. Nothing of what it says is outside the file, and no byte is in two columns' room.
    pub(super) fn read(file: &[u8]) -> Result<Self, FileFault> {
        let footer = footer(file).ok_or(FileFault::Footer)?;
        let footer = Value::read(&mut &*footer)?;
        check_schema(footer.list(2).ok_or(FileFault::Columns)?)?;
        let groups = footer.list(4).ok_or(FileFault::Header)?;
        let groups =
            groups.iter().map(|group| read_group(group, file.len())).collect::<Result<Vec<_>, _>>()?;
        // Sums of what is at most so many times the file's length, or MAX_FILE_ROWS, do not overflow.
        let room: usize = groups.iter().flat_map(|group| &group.columns).map(Range::len).sum();
        let rows: u64 = groups.iter().map(|group| group.rows).sum();
        if rows > MAX_FILE_ROWS {
            return Err(FileFault::TooManyRows);
        }
        // Otherwise one page, named by every column, would be read again and again.
        if room > file.len() {
            return Err(FileFault::CutOff);
        }
        if footer.count(3)? as u64 != rows { Err(FileFault::Lengths) } else { Ok(Self { groups }) }
    }
}

/// The bytes of the footer, whose length stands behind it.
fn footer(file: &[u8]) -> Option<&[u8]> {
    let (file, length) = file.strip_suffix(MAGIC)?.split_last_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|length| *length <= MAX_FOOTER)?;
    file.len().checked_sub(length).map(|start| &file[start..])
}

/// The root, and the columns in their order.
fn check_schema(schema: &[Value<'_>]) -> Result<(), FileFault> {
    let [root, columns @ ..] = schema else { return Err(FileFault::Columns) };
    let is_it = |column: &Value<'_>, (name, kind): (&[u8], i64)| {
        column.bytes(4) == Some(name)
            && column.number(1) == Some(kind)
            && column.number(3) == Some(REQUIRED)
            && matches!(column.number(5), None | Some(0))
    };
    let right = root.number(5) == Some(4)
        && columns.len() == COLUMNS.len()
        && columns.iter().zip(COLUMNS).all(|(column, known)| is_it(column, known));
    if right { Ok(()) } else { Err(FileFault::Columns) }
}

fn read_group(group: &Value<'_>, file: usize) -> Result<Group, FileFault> {
    let rows = group.count(3)? as u64;
    if rows > MAX_FILE_ROWS {
        return Err(FileFault::TooManyRows);
    }
    let chunks = group.list(1).unwrap_or_default();
    let [actor, metric, units, units_high] = chunks else { return Err(FileFault::Columns) };
    let of = |chunk: &Value<'_>, at: usize| read_chunk(chunk, COLUMNS[at].1, rows, file);
    Ok(Group { rows, columns: [of(actor, 0)?, of(metric, 1)?, of(units, 2)?, of(units_high, 3)?] })
}

/// Where the pages of a column are.
fn read_chunk(chunk: &Value<'_>, kind: i64, rows: u64, file: usize) -> Result<Range<usize>, FileFault> {
    let about = chunk.field(3).ok_or(FileFault::Header)?;
    // A column may be in another file, and encrypted; not here.
    if chunk.field(1).is_some() || chunk.field(8).is_some() {
        return Err(FileFault::Encoding);
    }
    let codec = about.number(4).ok_or(FileFault::Header)?;
    if codec != UNCOMPRESSED {
        let known = usize::try_from(codec).ok().and_then(|codec| CODECS.get(codec));
        return Err(FileFault::Compressed(known.unwrap_or(&"an unknown codec")));
    }
    if about.number(1) != Some(kind) {
        return Err(FileFault::Columns);
    }
    if about.count(5)? as u64 != rows {
        return Err(FileFault::Lengths);
    }
    let start = if about.field(11).is_some() { about.count(11)? } else { about.count(9)? };
    let end = start.checked_add(about.count(7)?).filter(|end| *end <= file).ok_or(FileFault::CutOff)?;
    Ok(start..end)
}

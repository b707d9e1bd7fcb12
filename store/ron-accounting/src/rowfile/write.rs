//! Writes rows as Parquet.

use std::sync::Arc;

use parquet::{
    basic::{LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, DataType, Int64Type},
    errors::ParquetError,
    file::{
        properties::{EnabledStatistics, WriterProperties},
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::{ColumnPath, Type, TypePtr},
};

use crate::Used;

/// Rows in a group: as many as a reader is likely to want at once.
const GROUP: usize = 1 << 20;
/// Values that are handed over at once.
const BATCH: usize = 8192;

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

/// A file of these rows: the same bytes for the same rows.
pub(super) fn parquet(used: &[Used]) -> Result<Vec<u8>, ParquetError> {
    let mut file = SerializedFileWriter::new(Vec::new(), schema()?, Arc::new(properties()))?;
    for rows in used.chunks(GROUP) {
        let mut group = file.next_row_group()?;
        column::<ByteArrayType>(&mut group, rows, |row| ByteArray::from(row.actor.as_str()))?;
        column::<ByteArrayType>(&mut group, rows, |row| ByteArray::from(row.metric.as_str()))?;
        column::<Int64Type>(&mut group, rows, |row| halves(row.units)[0])?;
        column::<Int64Type>(&mut group, rows, |row| halves(row.units)[1])?;
        group.close()?;
    }
    file.into_inner()
}

/// The lower and the upper 64 bits, in the type that Parquet has for them.
fn halves(units: u128) -> [i64; 2] {
    let bytes = units.to_le_bytes();
    let half = |at: usize| i64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    [half(0), half(8)]
}

fn column<T: DataType>(
    group: &mut Group<'_>,
    rows: &[Used],
    value: impl Fn(&Used) -> T::T,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has four columns".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let mut values = Vec::with_capacity(BATCH.min(rows.len()));
    for batch in rows.chunks(BATCH) {
        values.clear();
        values.extend(batch.iter().map(&value));
        column.typed::<T>().write_batch(&values, None, None)?;
    }
    column.close()
}

fn schema() -> Result<TypePtr, ParquetError> {
    let column = |name: &str, physical: Physical, logical: LogicalType| {
        let column = Type::primitive_type_builder(name, physical);
        column.with_repetition(Repetition::REQUIRED).with_logical_type(Some(logical)).build().map(Arc::new)
    };
    let unsigned = || LogicalType::integer(64, false);
    let columns = vec![
        column("actor", Physical::BYTE_ARRAY, LogicalType::String)?,
        column("metric", Physical::BYTE_ARRAY, LogicalType::String)?,
        column("units", Physical::INT64, unsigned())?,
        column("units_high", Physical::INT64, unsigned())?,
    ];
    Type::group_type_builder("usage").with_fields(columns).build().map(Arc::new)
}

/// Nothing but the rows: no version of the writer, no sums, no compression that a reader would have to bound. Names
/// repeat, units do not.
fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_created_by("omnigate".to_owned())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP))
        .set_column_dictionary_enabled(ColumnPath::from("units"), false)
        .build()
}

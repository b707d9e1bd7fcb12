//! Files of rows: whoever writes one, it is read as it was written or refused, within bounds.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use parquet::{
    data_type::{ByteArray, ByteArrayType, Int64Type},
    file::{
        properties::{WriterProperties, WriterVersion},
        reader::{FileReader, SerializedFileReader},
        writer::SerializedFileWriter,
    },
    record::Field,
    schema::parser::parse_message_type,
};
use proptest::prelude::*;
use ron_accounting::{FileFault, MAX_FILE_ROWS, SnapshotError, Used, read_rows, rows_of};
use types::ActorId;

fn used(actor: &str, metric: &str, units: u128) -> Used {
    Used { actor: ActorId::new(actor).unwrap(), metric: metric.to_owned(), units }
}

/// What a file says, as far as it can be read.
fn read(file: &[u8]) -> Result<Vec<Used>, SnapshotError> {
    let mut all = Vec::new();
    read_rows(file, |row| {
        // Order and names are for others to judge, so a damaged file may have any.
        all.push((row.actor.to_owned(), row.metric.to_owned(), row.units));
        Ok::<(), SnapshotError>(())
    })?;
    let known = |(actor, metric, units): (String, String, u128)| {
        ActorId::new(&actor).map(|actor| Used { actor, metric, units }).map_err(|_| SnapshotError::RowsDiffer)
    };
    all.into_iter().map(known).collect()
}

fn some_rows() -> Vec<Used> {
    let mut rows = Vec::new();
    for actor in ["alice", "bob", "c\"\\d", "node-7"] {
        for (metric, units) in [("provided.bytes", 7), ("provided.requests", u128::from(u64::MAX) + 9)] {
            rows.push(used(actor, metric, units));
        }
    }
    rows
}

#[test]
fn rows_come_back_as_they_were_and_the_same_rows_make_the_same_file() {
    let rows = some_rows();
    let (file, root) = rows_of(&rows).unwrap();
    assert!(file.starts_with(b"PAR1"));
    assert_eq!(read(&file).unwrap(), rows);
    assert_eq!(rows_of(&rows).unwrap(), (file, root));
    let (nothing, _) = rows_of(&[]).unwrap();
    assert_eq!(read(&nothing).unwrap(), []);
}

#[test]
fn more_names_than_a_dictionary_holds_and_more_rows_than_a_page_come_back() {
    let rows: Vec<_> =
        (0..60_000_u32).map(|n| used(&format!("{n:0>40}"), "provided.bytes", u128::from(n) << 50)).collect();
    let (file, _) = rows_of(&rows).unwrap();
    assert!(read(&file).unwrap() == rows, "another order, or other rows");
}

/// Somebody else's program, here the library that wrote the file, sees the same rows.
#[test]
fn another_reader_reads_the_same() {
    let rows = some_rows();
    let (file, _) = rows_of(&rows).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
    let theirs = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let columns: Vec<_> = row.get_column_iter().map(|(_, field)| field.clone()).collect();
        let [Field::Str(actor), Field::Str(metric), Field::ULong(low), Field::ULong(high)] = &columns[..]
        else {
            panic!("{columns:?}");
        };
        used(actor, metric, u128::from(*high) << 64 | u128::from(*low))
    });
    assert_eq!(theirs.collect::<Vec<_>>(), rows);
}

#[test]
fn lines_are_read_as_before() {
    let lines = b"{\"actor\":\"a\",\"metric\":\"m\",\"units\":\"7\"}\n{\"actor\":\"b\",\"metric\":\"m\",\"units\":\"8\"}\n";
    assert_eq!(read(lines).unwrap(), [used("a", "m", 7), used("b", "m", 8)]);
    assert_eq!(read(b"").unwrap(), []);
    assert!(matches!(read(&lines[..lines.len() - 1]), Err(SnapshotError::Row { row: 1, .. })));
    assert!(matches!(read(b"PAR"), Err(SnapshotError::Row { row: 0, .. })));
}

#[test]
fn whatever_is_cut_off_or_flipped_is_refused_or_was_not_the_rows() {
    let rows = some_rows();
    let (file, _) = rows_of(&rows).unwrap();
    for cut in 4..file.len() {
        assert!(read(&file[..cut]).is_err(), "a file of {cut} bytes");
    }
    let (mut refused, mut other, mut same) = (0, 0, 0);
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match read(&flipped) {
            Err(_) => refused += 1,
            Ok(read) if read == rows => same += 1,
            Ok(_) => other += 1,
        }
    }
    assert!(refused > 0 && other > 0 && same > 0, "{refused} refused, {other} other rows, {same} the same");
}

/// A file by somebody else's hand.
fn foreign(schema: &str, properties: WriterProperties) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = file.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        let levels: Option<&[i16]> = Some(&[1]);
        match column.untyped() {
            parquet::column::writer::ColumnWriter::Int64ColumnWriter(_) => {
                column.typed::<Int64Type>().write_batch(&[7], levels, None).unwrap();
            }
            _ => {
                column.typed::<ByteArrayType>().write_batch(&[ByteArray::from("a")], levels, None).unwrap();
            }
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    file.into_inner().unwrap()
}

const SCHEMA: &str = "message usage { required binary actor (UTF8); required binary metric (UTF8);
                      required int64 units (UINT_64); required int64 units_high (UINT_64); }";

#[test]
fn files_of_other_shapes_are_refused_by_what_is_wrong_with_them() {
    let usual = WriterProperties::default;
    let check = |what: &str, file: &[u8], fault: FileFault| {
        assert_eq!(read(file), Err(SnapshotError::File(fault)), "{what}");
    };
    assert_eq!(
        read(&foreign(SCHEMA, usual())).unwrap(),
        [used("a", "a", 7 << 64 | 7)],
        "as another writes it"
    );
    for (what, schema) in [
        ("optional", SCHEMA.replace("required binary metric", "optional binary metric")),
        ("another name", SCHEMA.replace("units_high", "units_low")),
        ("another type", SCHEMA.replace("required binary metric (UTF8)", "required int64 metric")),
        ("a column too many", SCHEMA.replace('}', "required int64 more; }")),
        ("a column too few", SCHEMA.replace("required int64 units_high (UINT_64);", "")),
    ] {
        check(what, &foreign(&schema, usual()), FileFault::Columns);
    }
    let second = WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_2_0).build();
    check("pages of the second version", &foreign(SCHEMA, second), FileFault::Encoding);
    check("snappy", &bomb_with(1, 1), FileFault::Compressed("snappy"));
    check("zstd", &bomb_with(1, 6), FileFault::Compressed("zstd"));
    check("no codec of Parquet", &bomb_with(1, 50), FileFault::Compressed("an unknown codec"));
    check("no end", b"PAR1", FileFault::Footer);
    check("a footer that is longer than the file", b"PAR1\xff\xff\0\0PAR1", FileFault::Footer);
    check("a footer that is longer than any", b"PAR1\xff\xff\xff\xffPAR1", FileFault::Footer);
    check("an empty footer", b"PAR1\0\0\0\0PAR1", FileFault::Header);
}

/// Thrift's numbers, as far as a footer needs them.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push(u8::try_from(value & 127).unwrap() | 128);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

/// A file whose only group says that it has so many rows, all of them in four pages of some bytes.
fn bomb(rows: u64) -> Vec<u8> {
    bomb_with(rows, 0)
}

/// The same, with columns that say they are compressed with a codec, by its number.
fn bomb_with(rows: u64, codec: u8) -> Vec<u8> {
    let int = |value: u64| varint(value << 1);
    let text = |text: &str| [varint(text.len() as u64), text.as_bytes().to_vec()].concat();
    let mut file = b"PAR1".to_vec();
    let mut chunks = Vec::new();
    for kind in [6_u64, 6, 2, 2] {
        let start = file.len() as u64;
        // One value in the dictionary, and one run of its index.
        let plain = if kind == 6 { b"\x01\0\0\0a".to_vec() } else { 7_u64.to_le_bytes().to_vec() };
        let run = [vec![1], varint(rows << 1), vec![0]].concat();
        let page = |number: u64, about: u8, values: u64, encoding: u64, bytes: &[u8]| {
            let length = int(bytes.len() as u64);
            let about = [vec![about, 0x15], int(values), vec![0x15], int(encoding)].concat();
            [
                vec![0x15],
                int(number),
                vec![0x15],
                length.clone(),
                vec![0x15],
                length,
                about,
                vec![0, 0],
                bytes.to_vec(),
            ]
            .concat()
        };
        file.extend(page(2, 0x4c, 1, 0, &plain));
        file.extend(page(0, 0x2c, rows, 8, &run));
        let length = file.len() as u64 - start;
        chunks.extend(
            [vec![0x3c, 0x15], int(kind), vec![0x35, codec << 1, 0x15], int(rows), vec![0x26], int(length)]
                .concat(),
        );
        chunks.extend([vec![0x26], int(start), vec![0x26], int(start), vec![0, 0]].concat());
    }
    let column =
        |name: &str, kind: u64| [vec![0x15], int(kind), vec![0x25, 0, 0x18], text(name), vec![0]].concat();
    let footer = [
        vec![0x29, 0x5c, 0x48],
        text("usage"),
        vec![0x15, 8, 0],
        column("actor", 6),
        column("metric", 6),
        column("units", 2),
        column("units_high", 2),
        vec![0x16],
        int(rows),
        vec![0x19, 0x1c, 0x19, 0x4c],
        chunks,
        vec![0x26],
        int(rows),
        vec![0, 0],
    ]
    .concat();
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    [file, footer, length.to_vec(), b"PAR1".to_vec()].concat()
}

#[test]
fn a_small_file_of_many_rows_is_read_row_by_row_and_one_of_too_many_is_not() {
    assert_eq!(read(&bomb(2)).unwrap(), [used("a", "a", 7 << 64 | 7), used("a", "a", 7 << 64 | 7)]);
    let mut seen = 0;
    let stopped = read_rows(&bomb(MAX_FILE_ROWS), |_| {
        seen += 1;
        if seen == 1000 { Err(SnapshotError::TooLarge) } else { Ok(()) }
    });
    assert_eq!(
        (stopped, seen),
        (Err(SnapshotError::TooLarge), 1000),
        "it ends when the taker has had enough"
    );
    let too_many = Err(SnapshotError::File(FileFault::TooManyRows));
    assert_eq!(read(&bomb(MAX_FILE_ROWS + 1)), too_many);
    assert_eq!(read(&bomb(1 << 62)), too_many);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_rows_come_back(units in prop::collection::btree_map("[!-~]{1,12}", prop::collection::btree_map("[a-z.]{1,6}", any::<u128>(), 1..4), 0..40)) {
        let rows: Vec<_> = units
            .iter()
            .flat_map(|(actor, metrics)| metrics.iter().map(|(metric, units)| used(actor, metric, *units)))
            .collect();
        let (file, _) = rows_of(&rows).unwrap();
        prop_assert_eq!(read(&file).unwrap(), rows);
    }

    /// Bytes behind the magic that chance wrote, and files of which chance wrote a part.
    #[test]
    fn no_bytes_are_too_strange(at in any::<prop::sample::Index>(), noise in prop::collection::vec(any::<u8>(), 1..64), tail in any::<bool>()) {
        let (mut file, _) = rows_of(&some_rows()).unwrap();
        let start = at.index(file.len());
        for (byte, noise) in file[start..].iter_mut().zip(&noise) {
            *byte = *noise;
        }
        let _ = read(&file);
        let length = u32::try_from(noise.len()).unwrap().to_le_bytes();
        let end: &[u8] = if tail { b"PAR1" } else { b"" };
        let _ = read(&[b"PAR1".as_slice(), &noise, &length, end].concat());
    }
}

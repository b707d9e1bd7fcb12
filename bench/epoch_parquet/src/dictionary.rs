//! A column of strings as numbers: each string of a dictionary is looked up once, each row is an index.

use parquet::{basic::Encoding, column::page::Page, file::reader::RowGroupReader};

use crate::Failed;

/// The numbers that `number` gives to the strings of a column, row by row. Rows without a value are refused.
pub(crate) fn numbers(
    group: &dyn RowGroupReader,
    column: usize,
    mut number: impl FnMut(&str) -> Result<u32, Failed>,
) -> Result<Vec<u32>, Failed> {
    let optional = group.metadata().column(column).column_descr().max_def_level() > 0;
    let mut pages = group.get_column_page_reader(column)?;
    let (mut dictionary, mut rows) = (Vec::new(), Vec::new());
    while let Some(page) = pages.get_next_page()? {
        match page {
            Page::DictionaryPage { buf, .. } => {
                strings(&buf, |text| {
                    dictionary.push(number(text)?);
                    Ok(())
                })?;
            }
            Page::DataPage { buf, num_values, encoding, .. } => {
                let values = if optional { behind_levels(&buf)? } else { &buf };
                let expected = rows.len() + num_values as usize;
                match encoding {
                    Encoding::PLAIN => strings(values, |text| {
                        rows.push(number(text)?);
                        Ok(())
                    })?,
                    Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                        indices(values, expected, &dictionary, &mut rows)?;
                    }
                    other => return Err(format!("no decoder for {other}").into()),
                }
                if rows.len() != expected {
                    return Err("a value is missing".into());
                }
            }
            Page::DataPageV2 { .. } => return Err("no decoder for pages of the second version".into()),
        }
    }
    Ok(rows)
}

/// What follows the definition levels, whose length stands before them.
fn behind_levels(page: &[u8]) -> Result<&[u8], Failed> {
    let (length, rest) = page.split_first_chunk::<4>().ok_or("a page is cut off")?;
    rest.get(u32::from_le_bytes(*length) as usize..).ok_or_else(|| "a page is cut off".into())
}

/// Strings one behind the other, each behind its length.
fn strings(mut bytes: &[u8], mut take: impl FnMut(&str) -> Result<(), Failed>) -> Result<(), Failed> {
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (text, rest) =
            rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or("a string is cut off")?;
        take(str::from_utf8(text)?)?;
        bytes = rest;
    }
    Ok(())
}

/// Indices into the dictionary, in runs of one value or packed bit by bit, until there are `expected` rows.
fn indices(bytes: &[u8], expected: usize, dictionary: &[u32], rows: &mut Vec<u32>) -> Result<(), Failed> {
    let (width, mut bytes) = bytes.split_first().ok_or("a page is cut off")?;
    let width = usize::from(*width);
    if width > 32 {
        return Err("indices have at most 32 bits".into());
    }
    rows.reserve(expected.saturating_sub(rows.len()));
    while rows.len() < expected {
        let (head, rest) = varint(bytes)?;
        let left = expected - rows.len();
        let length = if head & 1 == 0 { width.div_ceil(8) } else { (head >> 1) * width };
        let (run, rest) = rest.split_at_checked(length).ok_or("a run is cut off")?;
        if head & 1 == 0 {
            let value = *dictionary.get(unpacked(run, 0, width)).ok_or("an index leads nowhere")?;
            rows.extend(std::iter::repeat_n(value, (head >> 1).min(left)));
        } else {
            for at in 0..(8 * (head >> 1)).min(left) {
                rows.push(*dictionary.get(unpacked(run, at, width)).ok_or("an index leads nowhere")?);
            }
        }
        bytes = rest;
    }
    Ok(())
}

/// The value at `at` among values of `width` bits.
fn unpacked(run: &[u8], at: usize, width: usize) -> usize {
    let (byte, shift) = (at * width / 8, at * width % 8);
    let word = match run.get(byte..byte + 8) {
        Some(eight) => u64::from_le_bytes(eight.try_into().expect("eight bytes")),
        None => run[byte.min(run.len())..].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    usize::try_from(word >> shift & ((1 << width) - 1)).expect("at most 32 bits")
}

fn varint(bytes: &[u8]) -> Result<(usize, &[u8]), Failed> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 127) << (7 * at);
        if byte & 128 == 0 {
            return Ok((value, &bytes[at + 1..]));
        }
    }
    Err("a run's head is cut off".into())
}

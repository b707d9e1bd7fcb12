//! One column of a Parquet file, value by value: plain, or as indices into a dictionary.

use super::{
    FileFault,
    thrift::{Value, varint},
};

/// No dictionary of ours is longer: writers give it up at a mebibyte.
const MAX_DICTIONARY: usize = 4 << 20;
/// Longer than the header of any page.
const MAX_HEADER: usize = 4096;

/// The numbers that Parquet gives to what is known here.
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE_DICTIONARY: i64 = 8;

/// A type of value that columns hold.
pub(super) trait Plain<'a>: Copy {
    /// The value that `input` begins with; `input` is moved behind it.
    fn plain(input: &mut &'a [u8]) -> Result<Self, FileFault>;
}

impl<'a> Plain<'a> for &'a str {
    fn plain(input: &mut &'a [u8]) -> Result<Self, FileFault> {
        let (length, rest) = input.split_first_chunk::<4>().ok_or(FileFault::CutOff)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| FileFault::CutOff)?;
        let (text, rest) = rest.split_at_checked(length).ok_or(FileFault::CutOff)?;
        *input = rest;
        str::from_utf8(text).map_err(|_| FileFault::Text)
    }
}

impl<'a> Plain<'a> for u64 {
    fn plain(input: &mut &'a [u8]) -> Result<Self, FileFault> {
        let (value, rest) = input.split_first_chunk::<8>().ok_or(FileFault::CutOff)?;
        *input = rest;
        Ok(Self::from_le_bytes(*value))
    }
}

/// The values of one column of one group.
#[derive(Debug)]
pub(super) struct Column<'a, T> {
    /// Pages that were not opened yet.
    pages: &'a [u8],
    dictionary: Vec<T>,
    values: Values<'a>,
    /// Values left in the page that is open.
    left: usize,
}

#[derive(Debug)]
enum Values<'a> {
    Plain(&'a [u8]),
    Indices(Indices<'a>),
}

impl<'a, T: Plain<'a>> Column<'a, T> {
    /// The column with these pages.
    pub(super) const fn new(pages: &'a [u8]) -> Self {
        Self { pages, dictionary: Vec::new(), values: Values::Plain(&[]), left: 0 }
    }

    /// The next value; a fault if there is none.
    pub(super) fn next(&mut self) -> Result<T, FileFault> {
        while self.left == 0 {
            self.open_page()?;
        }
        self.left -= 1;
        match &mut self.values {
            Values::Plain(rest) => T::plain(rest),
            Values::Indices(indices) => {
                let index = indices.next().ok_or(FileFault::CutOff)?;
                self.dictionary.get(index).copied().ok_or(FileFault::CutOff)
            }
        }
    }

    /// Returns true if every value was read.
    pub(super) const fn is_done(&self) -> bool {
        self.left == 0 && self.pages.is_empty()
    }

    fn open_page(&mut self) -> Result<(), FileFault> {
        if self.pages.is_empty() {
            return Err(FileFault::Lengths);
        }
        let mut behind = &self.pages[..self.pages.len().min(MAX_HEADER)];
        let before = behind.len();
        let header = Value::read(&mut behind)?;
        self.pages = &self.pages[before - behind.len()..];
        let length = header.count(3)?;
        let (page, rest) = self.pages.split_at_checked(length).ok_or(FileFault::CutOff)?;
        self.pages = rest;
        if header.count(2)? != length {
            return Err(FileFault::Encoding);
        }
        match header.number(1) {
            Some(DATA_PAGE) => self.open_data(header.field(5).ok_or(FileFault::Header)?, page),
            Some(DICTIONARY_PAGE) => self.open_dictionary(header.field(7).ok_or(FileFault::Header)?, page),
            _ => Err(FileFault::Encoding),
        }
    }

    /// A page of values. Nothing stands before them, because no column may be empty anywhere.
    fn open_data(&mut self, header: &Value<'_>, page: &'a [u8]) -> Result<(), FileFault> {
        self.left = header.count(1)?;
        self.values = match header.number(2) {
            Some(PLAIN) => Values::Plain(page),
            Some(PLAIN_DICTIONARY | RLE_DICTIONARY) => Values::Indices(Indices::new(page)?),
            _ => return Err(FileFault::Encoding),
        };
        Ok(())
    }

    /// The one dictionary of a column, in front of all values.
    fn open_dictionary(&mut self, header: &Value<'_>, mut page: &'a [u8]) -> Result<(), FileFault> {
        let plain = matches!(header.number(2), Some(PLAIN | PLAIN_DICTIONARY));
        if !plain || page.len() > MAX_DICTIONARY || !self.dictionary.is_empty() {
            return Err(FileFault::Encoding);
        }
        let count = header.count(1)?;
        while self.dictionary.len() < count {
            // A value takes some bytes of the page, so that this ends whatever the header says.
            let value = T::plain(&mut page)?;
            self.dictionary.push(value);
        }
        if page.is_empty() { Ok(()) } else { Err(FileFault::Lengths) }
    }
}

/// Indices in runs: one index again and again, or eight and eight of them packed bit by bit.
#[derive(Debug)]
struct Indices<'a> {
    /// Bits of an index, 32 at most.
    width: usize,
    rest: &'a [u8],
    run: Run<'a>,
}

#[derive(Debug)]
enum Run<'a> {
    Repeated { index: usize, left: u64 },
    Packed { bytes: &'a [u8], at: usize, left: u64 },
}

impl<'a> Indices<'a> {
    fn new(page: &'a [u8]) -> Result<Self, FileFault> {
        let (width, rest) = page.split_first().ok_or(FileFault::CutOff)?;
        let width = usize::from(*width);
        if width > 32 {
            return Err(FileFault::Encoding);
        }
        Ok(Self { width, rest, run: Run::Repeated { index: 0, left: 0 } })
    }

    fn next(&mut self) -> Option<usize> {
        loop {
            match &mut self.run {
                Run::Repeated { index, left } if *left > 0 => {
                    *left -= 1;
                    return Some(*index);
                }
                Run::Packed { bytes, at, left } if *left > 0 => {
                    *left -= 1;
                    *at += 1;
                    return Some(unpacked(bytes, *at - 1, self.width));
                }
                _ => self.next_run()?,
            }
        }
    }

    fn next_run(&mut self) -> Option<()> {
        let head = varint(&mut self.rest)?;
        let count = head >> 1;
        if head & 1 == 0 {
            let (bytes, rest) = self.rest.split_at_checked(self.width.div_ceil(8))?;
            self.rest = rest;
            self.run = Run::Repeated { index: unpacked(bytes, 0, self.width), left: count };
        } else {
            // Eight indices take as many bytes as one has bits.
            let length = usize::try_from(count).ok()?.checked_mul(self.width)?;
            let (bytes, rest) = self.rest.split_at_checked(length)?;
            self.rest = rest;
            self.run = Run::Packed { bytes, at: 0, left: count.checked_mul(8)? };
        }
        Some(())
    }
}

/// The index at `at` among indices of `width` bits, 32 at most.
fn unpacked(bytes: &[u8], at: usize, width: usize) -> usize {
    let Some((first, shift)) = at.checked_mul(width).map(|bit| (bit / 8, bit % 8)) else { return usize::MAX };
    let word = match bytes.get(first..).and_then(<[u8]>::first_chunk::<8>) {
        Some(eight) => u64::from_le_bytes(*eight),
        None => {
            let last = bytes.get(first..).unwrap_or_default();
            last.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
        }
    };
    usize::try_from(word >> shift & ((1 << width) - 1)).unwrap_or(usize::MAX)
}

//! Thrift's compact encoding, in which Parquet writes its headers: as much of it as they need, and within bounds.
//!
//! Nothing is believed: every element takes a byte of the input at least, so that what is made of it is never larger than
//! some multiple of the input, and nesting is bounded, so that no input runs the stack out.

use super::FileFault;

/// Parquet's own headers have five levels.
const MAX_DEPTH: u8 = 12;

/// A value that was read.
#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// A number, or a truth as 0 or 1.
    Int(i64),
    /// A string, or a fraction, which nobody here asks for.
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    /// Fields by number, in the order in which they were written.
    Struct(Vec<(i64, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// Reads the struct that `input` begins with, and moves `input` behind it.
    pub(super) fn read(input: &mut &'a [u8]) -> Result<Self, FileFault> {
        Self::structure(input, MAX_DEPTH).ok_or(FileFault::Header)
    }

    /// A field of a struct, the last one if there are several.
    pub(super) fn field(&self, number: i64) -> Option<&Self> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().rev().find(|(other, _)| *other == number).map(|(_, value)| value)
    }

    /// A number in a field of a struct.
    pub(super) fn number(&self, field: i64) -> Option<i64> {
        if let Self::Int(number) = self.field(field)? { Some(*number) } else { None }
    }

    /// A number in a field of a struct that is not negative.
    pub(super) fn count(&self, field: i64) -> Result<usize, FileFault> {
        self.number(field).and_then(|number| usize::try_from(number).ok()).ok_or(FileFault::Header)
    }

    /// A string in a field of a struct.
    pub(super) fn bytes(&self, field: i64) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self.field(field)? { Some(*bytes) } else { None }
    }

    /// The elements of a list in a field of a struct.
    pub(super) fn list(&self, field: i64) -> Option<&[Self]> {
        if let Self::List(elements) = self.field(field)? { Some(elements.as_slice()) } else { None }
    }

    fn structure(input: &mut &'a [u8], depth: u8) -> Option<Self> {
        let mut fields = Vec::new();
        let mut number = 0_i64;
        loop {
            let head = byte(input)?;
            let kind = head & 15;
            if kind == 0 {
                return Some(Self::Struct(fields));
            }
            number = match head >> 4 {
                0 => zigzag(varint(input)?),
                delta => number.checked_add(i64::from(delta))?,
            };
            let value = match kind {
                1 | 2 => Self::Int(i64::from(kind == 1)),
                _ => Self::plain(input, kind, depth)?,
            };
            fields.push((number, value));
        }
    }

    /// A value that is no truth: those stand in the head of their field.
    fn plain(input: &mut &'a [u8], kind: u8, depth: u8) -> Option<Self> {
        Some(match kind {
            3 => Self::Int(i64::from(byte(input)?)),
            4..=6 => Self::Int(zigzag(varint(input)?)),
            7 => Self::Bytes(bytes(input, 8)?),
            8 => {
                let length = usize::try_from(varint(input)?).ok()?;
                Self::Bytes(bytes(input, length)?)
            }
            9 | 10 => Self::elements(input, depth.checked_sub(1)?)?,
            12 => Self::structure(input, depth.checked_sub(1)?)?,
            _ => return None,
        })
    }

    fn elements(input: &mut &'a [u8], depth: u8) -> Option<Self> {
        let head = byte(input)?;
        let (kind, count) = (head & 15, head >> 4);
        let count = if count == 15 { varint(input)? } else { u64::from(count) };
        // Each takes a byte at least; what is not there is not made room for.
        if count > input.len() as u64 {
            return None;
        }
        let element = |input: &mut &'a [u8]| match kind {
            1 | 2 => Some(Self::Int(i64::from(byte(input)? == 1))),
            _ => Self::plain(input, kind, depth),
        };
        (0..count).map(|_| element(input)).collect::<Option<_>>().map(Self::List)
    }
}

fn byte(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

fn bytes<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(taken)
}

/// A number in groups of seven bits, the lowest first.
pub(super) fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(input)?;
        value |= u64::from(next & 127) << shift;
        if next & 128 == 0 {
            return Some(value);
        }
    }
    None
}

/// A number whose lowest bit is its sign.
const fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_read_as_it_was_written() {
        // 1: 5, 2: true, 3: [1, -1], 20: "ab", 21: {}
        let written = [0x15, 10, 0x11, 0x19, 0x25, 2, 1, 0x08, 40, 2, b'a', b'b', 0x1c, 0, 0, 99];
        let mut input = written.as_slice();
        let read = Value::read(&mut input).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((read.number(1), read.number(2), read.bytes(20)), (Some(5), Some(1), Some(&b"ab"[..])));
        assert_eq!(read.list(3), Some(&[Value::Int(1), Value::Int(-1)][..]));
        assert_eq!((read.field(21), read.field(4)), (Some(&Value::Struct(Vec::new())), None));
        assert_eq!(input, [99], "what follows is left");
        for cut in 0..written.len() - 1 {
            assert_eq!(Value::read(&mut &written[..cut]), Err(FileFault::Header), "{cut}");
        }
    }

    #[test]
    fn neither_depth_nor_counts_nor_endless_numbers_are_believed() {
        let deep = [0x1c].repeat(10_000);
        let wide = [0x19, 0xf3, 0xff, 0xff, 0xff, 0xff, 7, 0];
        let truths = [0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0];
        let endless = [[0x16].as_slice(), &[0xff; 20]].concat();
        let map = [0x1b, 0];
        for hostile in [&deep[..], &wide, &truths, &endless, &map] {
            assert_eq!(Value::read(&mut &hostile[..]), Err(FileFault::Header));
        }
    }
}

//! Field blocks of HTTP/2 (HPACK, RFC 7541), as far as it takes to know which fields are pseudo-header fields.
//!
//! Names and values are not decoded: for each entry of the dynamic table its size and what its name begins with are
//! kept. So following the blocks of a connection costs a few steps per field, and no memory for texts.

use std::collections::VecDeque;

/// What the dynamic table may hold. The library announces no other size.
const TABLE_LIMIT: usize = 4096;
/// What an entry counts beside its texts.
const ENTRY_OVERHEAD: usize = 32;

/// How long the names of the static table are, in its order. The first [`STATIC_PSEUDO`] are pseudo-header fields.
const STATIC_NAMES: [u8; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13,
    12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3,
    16,
];
const STATIC_PSEUDO: usize = 14;
/// Where `:status` is in the static table.
const STATIC_STATUS: std::ops::RangeInclusive<usize> = 8..=STATIC_PSEUDO;

/// What a field block has in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Whether pseudo-header fields were seen.
    pub(super) has_pseudo: bool,
    /// Whether there are pseudo-header fields other than `:status`, the only one of a response.
    pub(super) has_requests_pseudo: bool,
    /// Whether it is the head of an informational response, which another head follows.
    pub(super) is_informational: bool,
    /// What the fields come to as RFC 9113 (6.5.2) counts them, or less: values in Huffman's code count as they are sent.
    pub(super) size: usize,
}

/// The dynamic table of one direction of a connection.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest first. Each counts at least [`ENTRY_OVERHEAD`], so there are at most 128.
    entries: VecDeque<Entry>,
    used: usize,
    limit: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: VecDeque::new(), used: 0, limit: TABLE_LIMIT }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Name,
    size: usize,
    /// Whether the value begins with `1`, as the status of an informational response does.
    begins_with_1: bool,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    is_pseudo: bool,
    is_status: bool,
    length: usize,
}

impl Table {
    /// Follows a whole block. `None` if it is not sound; then nothing is known of later blocks either.
    pub(super) fn read(&mut self, block: &[u8]) -> Option<Summary> {
        let (mut bytes, mut summary) = (Bytes(block), Summary::default());
        while let Some(first) = bytes.next() {
            let Entry { name, size, begins_with_1 } = if first & 0x80 != 0 {
                self.indexed(bytes.integer(first, 7)?)?
            } else if first & 0x40 != 0 {
                self.inserted(bytes.integer(first, 6)?, &mut bytes)?
            } else if first & 0x20 != 0 {
                self.limit = bytes.integer(first, 5)?.min(TABLE_LIMIT);
                self.evict();
                continue;
            } else {
                let name = self.name(bytes.integer(first, 4)?, &mut bytes)?;
                let value = bytes.text()?;
                let size = name.length + value.bytes().len() + ENTRY_OVERHEAD;
                Entry { name, size, begins_with_1: value.begins_with_1() }
            };
            summary.size = summary.size.saturating_add(size);
            summary.has_pseudo |= name.is_pseudo;
            summary.has_requests_pseudo |= name.is_pseudo && !name.is_status;
            summary.is_informational |= name.is_status && begins_with_1;
        }
        Some(summary)
    }

    /// A field that is in one of the tables.
    fn indexed(&self, index: usize) -> Option<Entry> {
        match index.checked_sub(STATIC_NAMES.len() + 1) {
            None => {
                let name = static_name(index)?;
                let size = name.length + static_value_length(index) + ENTRY_OVERHEAD;
                // No value of the static table's pseudo-header fields begins with `1`.
                Some(Entry { name, size, begins_with_1: false })
            }
            Some(at) => self.entries.get(at).copied(),
        }
    }

    /// A field that is added to the dynamic table.
    fn inserted(&mut self, index: usize, bytes: &mut Bytes<'_>) -> Option<Entry> {
        let name = self.name(index, bytes)?;
        let value = bytes.text()?;
        let size = name.length + value.length() + ENTRY_OVERHEAD;
        let entry = Entry { name, size, begins_with_1: value.begins_with_1() };
        self.entries.push_front(entry);
        self.used += size;
        self.evict();
        Some(entry)
    }

    /// The name of a field whose value follows.
    fn name(&self, index: usize, bytes: &mut Bytes<'_>) -> Option<Name> {
        if index != 0 {
            return self.indexed(index).map(|entry| entry.name);
        }
        let text = bytes.text()?;
        Some(Name { is_pseudo: text.begins_with_colon(), is_status: text.is_status(), length: text.length() })
    }

    fn evict(&mut self) {
        while self.used > self.limit {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.used -= oldest.size;
        }
    }
}

fn static_name(index: usize) -> Option<Name> {
    let length = *STATIC_NAMES.get(index.checked_sub(1)?)?;
    Some(Name {
        is_pseudo: index <= STATIC_PSEUDO,
        is_status: STATIC_STATUS.contains(&index),
        length: usize::from(length),
    })
}

/// How long the value of an entry of the static table is.
const fn static_value_length(index: usize) -> usize {
    match index {
        4 => "/".len(),
        2 | 8..=STATIC_PSEUDO => "GET".len(),
        3 | 6 => "POST".len(),
        7 => "https".len(),
        5 => "/index.html".len(),
        16 => "gzip, deflate".len(),
        _ => 0,
    }
}

/// What is left of a block.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// An integer whose first `prefix` bits are the last ones of `first`.
    fn integer(&mut self, first: u8, prefix: u8) -> Option<usize> {
        let most = (1_u8 << prefix) - 1;
        let mut value = u32::from(first & most);
        if value < u32::from(most) {
            return usize::try_from(value).ok();
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.next()?;
            value += u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(value).ok();
            }
        }
        None
    }

    fn text(&mut self) -> Option<Text<'a>> {
        let first = self.next()?;
        let length = self.integer(first, 7)?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(if first & 0x80 == 0 { Text::Plain(bytes) } else { Text::Huffman(bytes) })
    }
}

/// A text as it is sent.
#[derive(Clone, Copy)]
enum Text<'a> {
    Plain(&'a [u8]),
    Huffman(&'a [u8]),
}

impl Text<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) | Self::Huffman(bytes) => bytes,
        }
    }

    fn begins_with_colon(self) -> bool {
        match self {
            Self::Plain(bytes) => bytes.first() == Some(&b':'),
            // Seven bits.
            Self::Huffman(bytes) => bytes.first().is_some_and(|first| first >> 1 == 0x5c),
        }
    }

    fn is_status(self) -> bool {
        match self {
            Self::Plain(bytes) => bytes == b":status",
            Self::Huffman(bytes) => bytes == [0xb8, 0x84, 0x8d, 0x36, 0xa3],
        }
    }

    fn begins_with_1(self) -> bool {
        match self {
            Self::Plain(bytes) => bytes.first() == Some(&b'1'),
            // Five bits.
            Self::Huffman(bytes) => bytes.first().is_some_and(|first| first >> 3 == 1),
        }
    }

    fn length(self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Huffman(bytes) => decoded_length(bytes),
        }
    }
}

/// How many codes there are of each number of bits. The code is canonical, so this tells where each code ends.
const CODES: [u32; 31] =
    [0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19, 29, 0, 4];

/// The first code of each number of bits.
const FIRST_CODES: [u32; 31] = {
    let (mut first, mut bits) = ([0; 31], 1);
    while bits < first.len() {
        first[bits] = (first[bits - 1] + CODES[bits - 1]) << 1;
        bits += 1;
    }
    first
};

/// How many signs a text in Huffman's code has.
fn decoded_length(bytes: &[u8]) -> usize {
    let (mut signs, mut code, mut bits) = (0, 0_u32, 0_usize);
    for byte in bytes {
        for shift in (0..8).rev() {
            code = code << 1 | u32::from(byte >> shift & 1);
            bits += 1;
            if bits >= CODES.len() {
                // No code is that long: the library ends the connection.
                return signs;
            }
            if code >= FIRST_CODES[bits] && code - FIRST_CODES[bits] < CODES[bits] {
                signs += 1;
                (code, bits) = (0, 0);
            }
        }
    }
    signs
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
        digits.chunks(2).map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap()).collect()
    }

    /// The blocks follow each other; after each the table holds so many entries of so many bytes.
    #[track_caller]
    fn follows(table: &mut Table, blocks: &[(&str, usize, usize)]) {
        for (block, entries, used) in blocks {
            let summary = table.read(&bytes(block)).unwrap();
            assert!(summary.has_pseudo && !summary.is_informational, "{block}");
            assert_eq!((table.entries.len(), table.used), (*entries, *used), "{block}");
        }
    }

    // The examples of RFC 7541, appendix C.
    #[test]
    fn the_table_grows_as_in_the_examples_of_requests() {
        let plain = [
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", 1, 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", 2, 110),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", 3, 164),
        ];
        follows(&mut Table::default(), &plain);
        let huffman = [
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", 1, 57),
            ("8286 84be 5886 a8eb 1064 9cbf", 2, 110),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", 3, 164),
        ];
        follows(&mut Table::default(), &huffman);
    }

    #[test]
    fn the_oldest_entries_go_as_in_the_examples_of_responses() {
        let mut table = Table { limit: 256, ..Table::default() };
        let huffman = [
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e \
                 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                4,
                222,
            ),
            ("4883 640e ffc1 c0bf", 4, 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 \
                 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed \
                 4ee5 b106 3d50 07",
                3,
                215,
            ),
        ];
        follows(&mut table, &huffman);
        assert_eq!(table.read(&[0x20]).unwrap(), Summary::default(), "a size of nothing");
        assert_eq!((table.entries.len(), table.used), (0, 0));
    }

    #[test]
    fn a_name_is_known_however_it_is_written() {
        let pseudo = |table: &mut Table, block: &[u8]| table.read(block).unwrap().has_pseudo;
        let table = &mut Table::default();
        for block in
            [&b"\x83"[..], b"\x02\x03PUT", b"\x00\x02:x\x01y", b"\x10\x02:x\x01y", b"\x00\x82\xb9\xcf\x01y"]
        {
            assert!(pseudo(table, block), "{block:?}");
        }
        for block in [&b"\xbd"[..], b"\x0f\x04\x01y", b"\x00\x01x\x02:y", b"\x00\x81\xf3\x01y", b""] {
            assert!(!pseudo(table, block), "{block:?}");
        }
        // Into the table, and out of it: first a pseudo-header field, then another.
        assert!(pseudo(table, b"\x42\x03PUT"));
        assert!(pseudo(table, b"\xbe") && pseudo(table, b"\x0f\x2f\x01x"));
        assert!(!pseudo(table, b"\x40\x01x\x01y"));
        assert!(!pseudo(table, b"\xbe") && pseudo(table, b"\xbf"));
    }

    #[test]
    fn informational_heads_are_told_from_others() {
        let informational = |block: &[u8]| Table::default().read(block).unwrap().is_informational;
        assert!(informational(b"\x08\x03103") && informational(b"\x48\x03100"));
        // 103 in Huffman's code.
        assert!(informational(&[0x08, 0x82, 0x08, 0x19 | 0x06]));
        let requests = |block: &[u8]| Table::default().read(block).unwrap().has_requests_pseudo;
        assert!(requests(b"\x84") && requests(b"\x00\x05:path\x01/"));
        assert!(!requests(b"\x88") && !requests(b"\x00\x07:status\x03204"));
        assert!(!requests(b"\x00\x85\xb8\x84\x8d\x36\xa3\x03204"));
        assert!(!informational(b"\x88") && !informational(b"\x08\x03201\x00\x01x\x03103"));
    }

    #[test]
    fn fields_count_with_their_names_and_values_and_32_bytes_each() {
        let (mut table, size) =
            (Table::default(), |table: &mut Table, block: &[u8]| table.read(block).unwrap().size);
        for (block, expected) in [
            (&b"\x82"[..], 7 + 3 + 32),
            (b"\x87\x85", 7 + 5 + 32 + 5 + 11 + 32),
            (b"\x90\x90", 2 * (15 + 13 + 32)),
            (b"\x00\x01x\x02yz", 1 + 2 + 32),
            // Into the table, and twice out of it.
            (b"\x40\x01x\x02yz\xbe\xbe", 3 * (1 + 2 + 32)),
            (b"", 0),
        ] {
            assert_eq!(size(&mut table, block), expected, "{block:?}");
        }
    }

    #[test]
    fn what_is_cut_off_or_refers_to_nothing_is_not_sound() {
        for bad in [&b"\x80"[..], b"\xbe", b"\x7f", b"\x40\x05abc", b"\xff\xff\xff\xff\xff\xff", b"\x40\x01x"]
        {
            assert_eq!(Table::default().read(bad), None, "{bad:?}");
        }
    }
}

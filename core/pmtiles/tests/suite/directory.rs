//! Directories: entries come back, and what is wrong with them is told before it costs anything.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests: a failure may panic, and the numbers are small"
)]

use crate::common::{gzip, id, leaf, tile};
use decode::Coding;
use pmtiles::{Directory, DirectoryError, Entry, Limits, Target, TileId, metadata};
use proptest::prelude::*;

fn decode(bytes: &[u8]) -> Result<Directory, DirectoryError> {
    Directory::decode(bytes, Coding::Identity, &Limits::default())
}

/// A directory of these numbers, as they stand in the file.
fn numbers(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        let mut number = *number;
        while number >= 0x80 {
            bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }
    bytes
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn brotli(mut bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    let fast = brotli::enc::BrotliEncoderParams { quality: 1, ..Default::default() };
    brotli::BrotliCompress(&mut bytes, &mut encoded, &fast).unwrap();
    encoded
}

#[test]
fn a_directory_has_the_bytes_of_the_specification() {
    let entries = [tile(5, 0, 10, 1), tile(42, 10, 20, 3), tile(69, 500, 7, 1), leaf(100, 507, 9)];
    let bytes = Directory::encode(&entries);
    let columns = [4, 5, 37, 27, 31, 1, 3, 1, 0, 10, 20, 7, 9, 1, 0, 501, 0];
    assert_eq!(bytes, numbers(&columns));
    assert_eq!(decode(&bytes).unwrap().entries(), entries);
}

#[test]
fn a_tile_is_found_by_its_id_and_by_those_of_its_run() {
    let entries = [tile(5, 0, 10, 1), tile(42, 10, 20, 3), leaf(100, 0, 9)];
    let directory = decode(&Directory::encode(&entries)).unwrap();
    let found = |number| directory.find(id(number));
    for number in [0, 4, 6, 41, 45, 99] {
        assert_eq!(found(number), None, "{number}");
    }
    assert_eq!(found(5), Some(Target::Tile(entries[0])));
    for number in 42..45 {
        assert_eq!(found(number), Some(Target::Tile(entries[1])));
    }
    for number in [100, 101, TileId::MAX.number()] {
        assert_eq!(found(number), Some(Target::Leaf(entries[2])));
    }
}

#[test]
fn what_its_numbers_say_wrongly_is_told() {
    let beyond = TileId::MAX.number();
    let table: [(&[u64], DirectoryError); 16] = [
        (&[], DirectoryError::Numbers),
        (&[0], DirectoryError::Empty),
        (&[1], DirectoryError::Entries(1)),
        (&[1, 0, 1, 1], DirectoryError::Entries(1)),
        (&[1, 0, 1, 1, 1, 1], DirectoryError::Trailing),
        (&[u64::MAX, 0, 1, 1, 1], DirectoryError::Entries(u64::MAX)),
        (&[2, 5, 0, 1, 1, 1, 1, 1, 0], DirectoryError::Order),
        (&[2, 5, 1, 2, 1, 1, 1, 1, 0], DirectoryError::Order),
        (&[1, beyond + 1, 1, 1, 1], DirectoryError::Beyond),
        (&[1, beyond, 2, 1, 1], DirectoryError::Beyond),
        (&[1, beyond + 1, 0, 1, 1], DirectoryError::Beyond),
        (&[2, u64::MAX, 1, 1, 1, 1, 1, 1, 0], DirectoryError::Beyond),
        (&[1, 0, 1, 0, 1], DirectoryError::Place),
        (&[1, 0, 1, 1, 0], DirectoryError::Place),
        (&[1, 0, 1, 2, u64::MAX], DirectoryError::Place),
        (&[1, 0, 1 << 32, 1, 1], DirectoryError::Numbers),
    ];
    for (columns, error) in table {
        assert_eq!(decode(&numbers(columns)), Err(error), "{columns:?}");
    }
    for columns in [&[1, beyond, 1, 1, 1][..], &[1, beyond, 0, 1, 1], &[2, 5, 2, 2, 1, 1, 1, 1, 0]] {
        assert!(decode(&numbers(columns)).is_ok(), "{columns:?}");
    }
}

#[test]
fn a_directory_cut_short_or_with_a_number_of_too_many_bits_is_refused() {
    let bytes = Directory::encode(&[tile(5, 300, 1000, 1), tile(600, 70_000, 20, 3)]);
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "{len} of {}", bytes.len());
    }
    let mut long = vec![1];
    long.extend([0xff; 10]);
    long.extend([1, 1, 1]);
    assert_eq!(decode(&long), Err(DirectoryError::Numbers));
    for (coding, encoded) in
        [(Coding::Gzip, gzip(&bytes)), (Coding::Zstd, zstd(&bytes)), (Coding::Brotli, brotli(&bytes))]
    {
        assert!(Directory::decode(&encoded, coding, &Limits::default()).is_ok());
        for len in 0..encoded.len() {
            let cut = Directory::decode(&encoded[..len], coding, &Limits::default());
            assert!(cut.is_err(), "{coding:?}: {len} of {}", encoded.len());
        }
    }
}

#[test]
fn entries_and_bytes_are_limited_to_the_last_one() {
    let entries: Vec<_> = (0..100).map(|at| tile(at, at * 3, 3, 1)).collect();
    let bytes = Directory::encode(&entries);
    let with = |directory_entries, directory_bytes| {
        let limits = Limits { directory_entries, directory_bytes, ..Limits::default() };
        [(Coding::Identity, bytes.clone()), (Coding::Gzip, gzip(&bytes))]
            .map(|(coding, bytes)| Directory::decode(&bytes, coding, &limits).map(drop))
    };
    let size = bytes.len() as u64;
    assert_eq!(with(100, size), [Ok(()), Ok(())]);
    assert_eq!(with(99, size), [Err(DirectoryError::Entries(100)); 2]);
    assert_eq!(with(100, size - 1), [Err(DirectoryError::TooLarge); 2]);
}

#[test]
fn a_bomb_is_refused_for_its_size() {
    let zeros = vec![0; 17 << 20];
    for (coding, bomb) in
        [(Coding::Gzip, gzip(&zeros)), (Coding::Zstd, zstd(&zeros)), (Coding::Brotli, brotli(&zeros))]
    {
        assert!(bomb.len() < 1 << 17, "{coding:?}");
        let refused = Directory::decode(&bomb, coding, &Limits::default());
        assert_eq!(refused, Err(DirectoryError::TooLarge), "{coding:?}");
        assert_eq!(metadata(&bomb, coding, &Limits::default()), Err(DirectoryError::TooLarge));
    }
}

#[test]
fn metadata_is_text_of_limited_length() {
    let limits = Limits { metadata_bytes: 8, ..Limits::default() };
    assert_eq!(metadata(b"", Coding::Gzip, &limits), Ok(String::new()));
    assert_eq!(metadata(b"{\"a\":12}", Coding::Identity, &limits), Ok("{\"a\":12}".to_owned()));
    assert_eq!(metadata(b"{\"a\":123}", Coding::Identity, &limits), Err(DirectoryError::TooLarge));
    assert_eq!(
        metadata(&gzip(&[b' '; 9]), Coding::Gzip, &Limits { metadata_bytes: 100, ..limits }),
        Ok(" ".repeat(9))
    );
    assert_eq!(metadata(b"\xff", Coding::Identity, &limits), Err(DirectoryError::NotText));
    assert_eq!(metadata(b"{}", Coding::Gzip, &limits), Err(DirectoryError::Coding));
}

/// Sorted entries whose runs do not overlap, at any offsets.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let step = (1..5000_u64, 0..4_u32, 1..u32::MAX, any::<u32>(), any::<bool>());
    prop::collection::vec(step, 1..200).prop_map(|steps| {
        let (mut free, mut next) = (0, 0);
        let mut entries = Vec::new();
        for (gap, run, len, offset, follows) in steps {
            let offset = if follows && next > 0 { next } else { offset.into() };
            let entry = Entry { tile_id: free + gap - 1, offset, len, run };
            free = entry.tile_id + u64::from(run.max(1));
            next = offset + u64::from(len);
            entries.push(entry);
        }
        entries
    })
}

proptest! {
    #[test]
    fn entries_come_back_in_any_coding(entries in entries()) {
        let bytes = Directory::encode(&entries);
        let codings = [
            (Coding::Identity, bytes.clone()),
            (Coding::Gzip, gzip(&bytes)),
            (Coding::Zstd, zstd(&bytes)),
            (Coding::Brotli, brotli(&bytes)),
        ];
        for (coding, encoded) in codings {
            let directory = Directory::decode(&encoded, coding, &Limits::default()).unwrap();
            prop_assert_eq!(directory.entries(), &entries[..], "{:?}", coding);
        }
    }

    #[test]
    fn a_look_up_agrees_with_looking_at_every_entry(entries in entries(), number in 0..500_000_u64) {
        let directory = decode(&Directory::encode(&entries)).unwrap();
        let expected = entries.iter().rev().find(|entry| entry.tile_id <= number).copied().and_then(|entry| {
            match u64::from(entry.run) {
                0 => Some(Target::Leaf(entry)),
                run => (number < entry.tile_id + run).then_some(Target::Tile(entry)),
            }
        });
        prop_assert_eq!(directory.find(id(number)), expected);
    }

    #[test]
    fn no_bytes_make_it_panic_or_break_its_promises(bytes in prop::collection::vec(any::<u8>(), 0..300), few in 1..6_u8) {
        for start in [None, Some(few)] {
            let bytes: Vec<_> = start.into_iter().chain(bytes.iter().copied()).collect();
            for coding in [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd] {
                if let Ok(directory) = Directory::decode(&bytes, coding, &Limits::default()) {
                    let ascending = |pair: &[Entry]| pair[0].tile_id + u64::from(pair[0].run.max(1)) <= pair[1].tile_id;
                    prop_assert!(directory.entries().windows(2).all(ascending));
                    prop_assert!(directory.entries().iter().all(|entry| entry.len > 0));
                }
            }
        }
    }
}

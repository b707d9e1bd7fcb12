//! As much of PNG as it takes to look at a screenshot.

use std::{collections::BTreeSet, io::Read};

/// How many different colours the middle of a PNG has: a third of it in each direction.
pub(super) fn colours_in_the_middle(png: &[u8]) -> usize {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    let (width, height) = (usize::try_from(number(16)).unwrap(), usize::try_from(number(20)).unwrap());
    let channels = match (png[24], png[25]) {
        (8, 2) => 3,
        (8, 6) => 4,
        other => panic!("a picture of the kind {other:?}"),
    };
    let rows = rows(&pixels(png), width * channels, channels);
    assert_eq!(rows.len(), height);
    let middle = rows[height / 3..2 * height / 3].iter();
    let colours: BTreeSet<&[u8]> =
        middle.flat_map(|row| row.chunks(channels).skip(width / 3).take(width / 3)).collect();
    colours.len()
}

/// The pixels, still filtered.
fn pixels(png: &[u8]) -> Vec<u8> {
    let (mut packed, mut rest) = (Vec::new(), &png[8..]);
    while rest.len() >= 12 {
        let length = usize::try_from(u32::from_be_bytes(rest[..4].try_into().unwrap())).unwrap();
        if &rest[4..8] == b"IDAT" {
            packed.extend(&rest[8..8 + length]);
        }
        rest = &rest[12 + length..];
    }
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(&*packed).read_to_end(&mut plain).unwrap();
    plain
}

/// Rows as they look: each byte was stored as what it differs by from those beside and above it.
fn rows(filtered: &[u8], length: usize, channels: usize) -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> = Vec::new();
    for line in filtered.chunks(length + 1) {
        let mut row = line[1..].to_vec();
        for at in 0..length {
            let left = if at < channels { 0 } else { row[at - channels] };
            let above = rows.last().map_or(0, |above| above[at]);
            let corner = if at < channels { 0 } else { rows.last().map_or(0, |above| above[at - channels]) };
            let guess = match line[0] {
                0 => 0,
                1 => left,
                2 => above,
                3 => u8::midpoint(left, above),
                4 => paeth(left, above, corner),
                other => panic!("no filter has the number {other}"),
            };
            row[at] = row[at].wrapping_add(guess);
        }
        rows.push(row);
    }
    rows
}

/// Whichever is nearest to what the three would make if they lay in a plane.
fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let plane = i16::from(left) + i16::from(above) - i16::from(corner);
    let distance = |one: &u8| (plane - i16::from(*one)).abs();
    [left, above, corner].into_iter().min_by_key(distance).unwrap()
}

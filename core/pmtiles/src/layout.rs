//! Where each field of a header stands.

use decode::Coding;

use crate::header::{HEADER_LEN, Header, HeaderError, Section, TileType};

const MAGIC: &[u8; 7] = b"PMTiles";
const VERSION: u8 = 3;

/// Reads the fields; what they say is judged elsewhere.
pub(crate) fn read(bytes: &[u8; HEADER_LEN]) -> Result<Header, HeaderError> {
    if !bytes.starts_with(MAGIC) {
        return Err(HeaderError::Magic);
    }
    if bytes[7] != VERSION {
        return Err(HeaderError::Version(bytes[7]));
    }
    let section = |at| Section { offset: u64_at(bytes, at), len: u64_at(bytes, at + 8) };
    Ok(Header {
        root: section(8),
        metadata: section(24),
        leaves: section(40),
        tiles: section(56),
        addressed_tiles: u64_at(bytes, 72),
        tile_entries: u64_at(bytes, 80),
        tile_contents: u64_at(bytes, 88),
        clustered: match bytes[96] {
            0 => false,
            1 => true,
            other => return Err(HeaderError::Clustered(other)),
        },
        internal: coding(bytes[97])?.ok_or(HeaderError::InternalUnknown)?,
        tile_coding: coding(bytes[98])?,
        tile_type: tile_type(bytes[99]),
        min_zoom: bytes[100],
        max_zoom: bytes[101],
        bounds: [102, 106, 110, 114].map(|at| i32_at(bytes, at)),
        center_zoom: bytes[118],
        center: [119, 123].map(|at| i32_at(bytes, at)),
    })
}

/// The bytes of a header.
pub(crate) fn write(header: &Header) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, MAGIC);
    put(7, &[VERSION]);
    let sections = [header.root, header.metadata, header.leaves, header.tiles];
    for (at, section) in [8, 24, 40, 56].into_iter().zip(sections) {
        put(at, &section.offset.to_le_bytes());
        put(at + 8, &section.len.to_le_bytes());
    }
    put(72, &header.addressed_tiles.to_le_bytes());
    put(80, &header.tile_entries.to_le_bytes());
    put(88, &header.tile_contents.to_le_bytes());
    let codings = [Some(header.internal), header.tile_coding].map(coding_number);
    put(96, &[header.clustered.into(), codings[0], codings[1], tile_type_number(header.tile_type)]);
    put(100, &[header.min_zoom, header.max_zoom]);
    for (at, angle) in [102, 106, 110, 114].into_iter().zip(header.bounds) {
        put(at, &angle.to_le_bytes());
    }
    put(118, &[header.center_zoom]);
    for (at, angle) in [119, 123].into_iter().zip(header.center) {
        put(at, &angle.to_le_bytes());
    }
    bytes
}

fn u64_at(bytes: &[u8; HEADER_LEN], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn i32_at(bytes: &[u8; HEADER_LEN], at: usize) -> i32 {
    i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

const fn coding(number: u8) -> Result<Option<Coding>, HeaderError> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(Coding::Identity)),
        2 => Ok(Some(Coding::Gzip)),
        3 => Ok(Some(Coding::Brotli)),
        4 => Ok(Some(Coding::Zstd)),
        other => Err(HeaderError::Compression(other)),
    }
}

const fn coding_number(coding: Option<Coding>) -> u8 {
    match coding {
        // PMTiles has no name for deflate.
        None | Some(Coding::Deflate) => 0,
        Some(Coding::Identity) => 1,
        Some(Coding::Gzip) => 2,
        Some(Coding::Brotli) => 3,
        Some(Coding::Zstd) => 4,
    }
}

const fn tile_type(number: u8) -> TileType {
    match number {
        1 => TileType::Mvt,
        2 => TileType::Png,
        3 => TileType::Jpeg,
        4 => TileType::Webp,
        5 => TileType::Avif,
        6 => TileType::Mlt,
        other => TileType::Other(other),
    }
}

const fn tile_type_number(tile_type: TileType) -> u8 {
    match tile_type {
        TileType::Other(number) => number,
        TileType::Mvt => 1,
        TileType::Png => 2,
        TileType::Jpeg => 3,
        TileType::Webp => 4,
        TileType::Avif => 5,
        TileType::Mlt => 6,
    }
}

//! What bytes are, by how they begin.

use decode::Coding;
use pmtiles::TileType;

use crate::info::Format;

/// How many bytes [`format`] and [`pages`] want to see.
pub(crate) const BEGINNING: usize = 100;

/// What a file is that begins like this.
pub(crate) fn format(beginning: &[u8]) -> Option<Format> {
    if beginning.starts_with(b"PMTiles") {
        Some(Format::Pmtiles)
    } else if beginning.starts_with(b"SQLite format 3\0") {
        Some(Format::Mbtiles)
    } else {
        None
    }
}

/// How many bytes a database that begins like this has, by its own account.
pub(crate) fn pages(beginning: &[u8]) -> Option<u64> {
    let number = |at: usize, len| {
        Some(beginning.get(at..at + len)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let page = match number(16, 2)? {
        1 => 65_536,
        size => size,
    };
    // Old programs do not keep the number of pages; they do not keep the second of these two counters either.
    let kept = number(24, 4)? == number(92, 4)?;
    let pages = number(28, 4).filter(|_| kept)?;
    page.checked_mul(pages)
}

/// How a tile is encoded. Images are never taken for encoded.
pub(crate) fn coding(tile_type: TileType, tile: &[u8]) -> Option<Coding> {
    if !matches!(tile_type, TileType::Mvt | TileType::Mlt | TileType::Other(_)) {
        return None;
    }
    match tile {
        [0x1f, 0x8b, ..] => Some(Coding::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Coding::Zstd),
        // A zlib header: deflate, and a check that the two bytes together are a multiple of 31.
        [first, second, ..] if first & 0x0f == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0 => {
            Some(Coding::Deflate)
        }
        _ => None,
    }
}

/// What a tile is, when the metadata do not say.
pub(crate) fn tile_type(tile: &[u8]) -> TileType {
    match tile {
        [0x89, b'P', b'N', b'G', ..] => TileType::Png,
        [0xff, 0xd8, 0xff, ..] => TileType::Jpeg,
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => TileType::Webp,
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f', ..] => TileType::Avif,
        // Vector tiles that are compressed, or begin with a layer.
        [0x1f, 0x8b, ..] | [0x1a, ..] => TileType::Mvt,
        _ => TileType::Other(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_first_bytes_alone() {
        assert_eq!(format(b"PMTiles\x03 and more"), Some(Format::Pmtiles));
        assert_eq!(format(b"SQLite format 3\0"), Some(Format::Mbtiles));
        for other in [&b""[..], b"PMTile", b"SQLite format 2\0", b"\x89PNG"] {
            assert_eq!(format(other), None);
        }
    }

    #[test]
    fn a_database_says_how_long_it_is() {
        let mut beginning = [0; BEGINNING];
        beginning[16..18].copy_from_slice(&[0x10, 0x00]);
        beginning[31] = 3;
        assert_eq!(pages(&beginning), Some(3 * 4096));
        beginning[16..18].copy_from_slice(&[0, 1]);
        assert_eq!(pages(&beginning), Some(3 * 65_536));
        beginning[27] = 1;
        assert_eq!(pages(&beginning), None, "the number of pages is not kept");
        assert_eq!(pages(&beginning[..95]), None);
    }

    #[test]
    fn vector_tiles_show_their_coding_and_images_have_none() {
        let table = [
            (&b"\x1f\x8b\x08"[..], Some(Coding::Gzip)),
            (b"\x78\x9c\x00", Some(Coding::Deflate)),
            (b"\x28\xb5\x2f\xfd", Some(Coding::Zstd)),
            (b"\x1a\x05", None),
            (b"\x78\x9d\x00", None),
            (b"", None),
        ];
        for (bytes, expected) in table {
            assert_eq!(coding(TileType::Mvt, bytes), expected, "{bytes:?}");
            assert_eq!(coding(TileType::Other(0), bytes), expected, "{bytes:?}");
            assert_eq!(coding(TileType::Png, bytes), None);
        }
    }

    #[test]
    fn tiles_show_their_type() {
        let table = [
            (&b"\x89PNG\r\n"[..], TileType::Png),
            (b"\xff\xd8\xff\xe0", TileType::Jpeg),
            (b"RIFF\0\0\0\0WEBPVP8", TileType::Webp),
            (b"\0\0\0\x1cftypavif", TileType::Avif),
            (b"\x1f\x8b\x08", TileType::Mvt),
            (b"\x1a\x05", TileType::Mvt),
            (b"RIFF", TileType::Other(0)),
            (b"", TileType::Other(0)),
        ];
        for (bytes, expected) in table {
            assert_eq!(tile_type(bytes), expected, "{bytes:?}");
        }
    }
}

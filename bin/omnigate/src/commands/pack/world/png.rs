//! PNG files with a palette, as small as they get without trying hard.

use std::io::Write;

use flate2::{Compression, Crc, write::ZlibEncoder};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A square image of `side` pixels, each the number of a colour.
pub(super) fn encode(side: usize, palette: &[[u8; 3]], pixels: &[u8]) -> Vec<u8> {
    let mut png = SIGNATURE.to_vec();
    let length = u32::try_from(side).expect("a side of a few hundred pixels").to_be_bytes();
    // Eight bits, a palette, and the only ways there are to compress, filter and not to interlace.
    chunk(&mut png, b"IHDR", &[&length[..], &length, &[8, 3, 0, 0, 0]].concat());
    chunk(&mut png, b"PLTE", palette.as_flattened());
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in pixels.chunks_exact(side) {
        // Numbers of colours do not resemble their neighbours: no filter.
        encoder.write_all(&[0]).and_then(|()| encoder.write_all(row)).expect("memory takes all bytes");
    }
    chunk(&mut png, b"IDAT", &encoder.finish().expect("memory takes all bytes"));
    chunk(&mut png, b"IEND", b"");
    png
}

fn chunk(png: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    let mut crc = Crc::new();
    crc.update(name);
    crc.update(content);
    png.extend(u32::try_from(content.len()).expect("a tile is small").to_be_bytes());
    png.extend(name);
    png.extend(content);
    png.extend(crc.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn an_image_has_its_parts_with_their_sums_and_its_pixels() {
        let png = encode(2, &[[1, 2, 3], [4, 5, 6]], &[0, 1, 1, 0]);
        let mut rest = png.strip_prefix(SIGNATURE).expect("the signature");
        let mut parts = Vec::new();
        while let Some((len, behind)) = rest.split_first_chunk::<4>() {
            let len = u32::from_be_bytes(*len) as usize;
            let (body, behind) = behind.split_at(4 + len);
            let (sum, behind) = behind.split_at(4);
            let mut crc = Crc::new();
            crc.update(body);
            assert_eq!(crc.sum().to_be_bytes(), sum);
            parts.push(body.split_at(4));
            rest = behind;
        }
        let names: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [b"IHDR", b"PLTE", b"IDAT", b"IEND"]);
        assert_eq!(parts[0].1, [0, 0, 0, 2, 0, 0, 0, 2, 8, 3, 0, 0, 0]);
        assert_eq!(parts[1].1, [1, 2, 3, 4, 5, 6]);
        let mut pixels = Vec::new();
        flate2::read::ZlibDecoder::new(parts[2].1).read_to_end(&mut pixels).expect("zlib");
        assert_eq!(pixels, [0, 0, 1, 0, 1, 0]);
    }
}

//! Readers of this crate as fuzz targets and tests reach them: any bytes go in, and what comes out is checked.

use rustls_pki_types::CertificateDer;

use crate::{
    frame_guard,
    h1::request::replay,
    tls::{RenewalId, certificate::ClientCertificate, der},
};

/// How deep values inside values are followed.
const DEEPEST: u8 = 16;

/// Reads DER, as it comes in names of certificates and in OCSP responses, and a certificate.
///
/// # Panics
/// If a value is not a piece of the bytes, or if what is cut off is read as whole.
pub fn der(bytes: &[u8]) {
    if let Some(id) = RenewalId::of(bytes) {
        assert!(bytes.len() > id.authority_key.len() + id.serial.len(), "both are parts of it");
    }
    values(bytes, DEEPEST);
    // Whatever it is, it is read or not; a field that is made of it is one.
    drop(ClientCertificate::of(&CertificateDer::from(bytes)));
}

fn values(bytes: &[u8], depth: u8) {
    let (mut reader, mut left) = (der::Reader::new(bytes), bytes.len());
    while let Some((tag, content)) = reader.any() {
        assert!(content.len() + 2 <= left, "a value is longer than what is left");
        let begins = bytes.len() - left;
        let length = left - reader.left();
        left = reader.left();
        let value = &bytes[begins..begins + length];
        assert!(value.first() == Some(&tag) && value.ends_with(content), "a value is a piece of the bytes");
        assert_eq!(der::Reader::new(value).read(tag), Some(content));
        assert_eq!(der::Reader::new(value).read(!tag), None);
        assert_eq!(der::Reader::new(&value[..length - 1]).any(), None, "cut off");
        if depth > 0 {
            values(content, depth - 1);
        }
    }
}

/// Passes frames of HTTP/2 through the guard, in two pieces and as a whole.
///
/// # Panics
/// If it matters where they are cut, or if more is changed than the end of trailers.
pub fn h2_frames(bytes: &[u8], cut: usize) {
    frame_guard::fuzz(bytes, cut);
}

/// A request as an HTTP/1.1 connection reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The request's method and target.
    pub line: String,
    /// The whole body, without what frames it.
    pub body: Vec<u8>,
    /// How many bytes it took, with the empty lines before it.
    pub length: usize,
    /// Whether the client says that it is its last.
    pub is_last: bool,
}

/// Reads requests out of bytes that arrive in pieces of this length, up to the first that is refused.
#[must_use]
pub fn requests(bytes: &[u8], piece: usize) -> Vec<ReadRequest> {
    let (reads, _) = replay::requests(bytes.chunks(piece.max(1)));
    let told = |replay::Read { line, body, length, is_last }| ReadRequest { line, body, length, is_last };
    reads.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checks_hold_for_sound_bytes() {
        der(&[0x30, 7, 0x02, 1, 5, 0x31, 2, 0x05, 0, 0x30, 0x81, 1, 7, 9]);
        h2_frames(&[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88, 0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88], 10);
    }
}

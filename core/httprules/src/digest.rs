//! Hashes of representations that a sender tells beforehand: `Repr-Digest` and `Content-Digest` (RFC 9530).
//!
//! The value is a dictionary of byte sequences between colons (RFC 8941). Algorithms that are not known here, and elements that
//! cannot be read, do not count: a receiver may ignore any of them.

use crate::list::{elements, split_once};

/// The hashes that are known here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// The SHA-256 digest that the fields state; absent if they state none.
    pub sha256: Option<[u8; 32]>,
    /// The SHA-512 digest that the fields state; absent if they state none.
    pub sha512: Option<[u8; 64]>,
}

/// Reads the values of a field. Of several hashes by one algorithm the last counts.
#[must_use]
pub fn digests<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Digests {
    let mut digests = Digests::default();
    for element in elements(values) {
        let (name, Some(value)) = split_once(element, b'=') else { continue };
        match name {
            b"sha-256" => digests.sha256 = byte_sequence(value),
            b"sha-512" => digests.sha512 = byte_sequence(value),
            _ => {}
        }
    }
    digests
}

/// A byte sequence of exactly so many bytes, `:base64:`, whatever its parameters are.
fn byte_sequence<const LEN: usize>(value: &[u8]) -> Option<[u8; LEN]> {
    let (sequence, _parameters) = split_once(value, b';');
    let text = sequence.strip_prefix(b":")?.strip_suffix(b":")?;
    let (mut bytes, mut at, mut bits, mut held) = ([0; LEN], 0, 0_u32, 0_u32);
    let unpadded = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    if text.len() % 4 != 0 {
        return None;
    }
    for digit in unpadded {
        held = (held << 6 | u32::from(sextet(*digit)?)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            *bytes.get_mut(at)? = u8::try_from(held >> bits & 0xff).ok()?;
            at += 1;
        }
    }
    (at == LEN).then_some(bytes)
}

fn sextet(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of the empty string, as a structured-field byte sequence.
    const EMPTY: &str = ":47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";

    fn sha256(value: &str) -> Option<[u8; 32]> {
        digests([value.as_bytes()]).sha256
    }

    #[test]
    fn a_hash_is_read_by_its_algorithm() {
        let hash = sha256(&format!("sha-256={EMPTY}")).expect("a hash");
        assert_eq!((hash[0], hash[1], hash[31]), (0xe3, 0xb0, 0x55));
        for value in [
            format!("unixsum=:AAA=:, sha-256={EMPTY}"),
            format!("sha-256={EMPTY} , md5=:AAAA:"),
            format!("sha-256=:AAAA:, sha-256={EMPTY}"),
            format!("sha-256={EMPTY};a=1;b"),
            format!("sha-256={EMPTY} ;a"),
        ] {
            assert_eq!(sha256(&value), Some(hash), "{value}");
        }
        let both = digests([&b"sha-512=:AAAA:"[..], format!("sha-256={EMPTY}").as_bytes()]);
        assert_eq!(both, Digests { sha256: Some(hash), sha512: None });
        let long = format!("sha-512=:{}==:", "A".repeat(86));
        assert_eq!(digests([long.as_bytes()]).sha512, Some([0; 64]));
    }

    #[test]
    fn what_cannot_be_read_does_not_count() {
        let short = EMPTY.replace("47DE", "");
        for value in [
            "",
            "sha-256",
            "sha-256=",
            "sha-256=:",
            "sha-256=::",
            &format!("SHA-256={EMPTY}"),
            &format!("sha-256={}", EMPTY.trim_matches(':')),
            &format!("sha-256={}", EMPTY.replace('=', "")),
            &format!("sha-256={}", EMPTY.replace('/', "_")),
            &format!("sha-256={short}"),
            &format!("sha-256={}", EMPTY.replace("47DE", "47DE47DE")),
        ] {
            assert_eq!(sha256(value), None, "{value}");
        }
    }
}

//! How a BLAKE3 hash is written wherever it is a name: `b3:` and 64 lower-case hexadecimal digits.

/// The prefix of every name in text form.
pub(crate) const PREFIX: &str = "b3:";

/// The length of a name's digits.
pub(crate) const HEX_LEN: usize = 64;

/// The length of a name as text.
pub(crate) const TEXT_LEN: usize = PREFIX.len() + HEX_LEN;

/// The text of a hash, in the caller's room: nothing is allocated.
pub(crate) fn encode<'a>(hash: &[u8; 32], room: &'a mut [u8; TEXT_LEN]) -> &'a str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (prefix, digits) = room.split_at_mut(PREFIX.len());
    prefix.copy_from_slice(PREFIX.as_bytes());
    for (pair, byte) in digits.chunks_exact_mut(2).zip(hash) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    str::from_utf8(room).expect("the prefix and digits are ASCII")
}

/// Reads the whole text.
pub(crate) fn decode(text: &str) -> Option<[u8; 32]> {
    decode_hex(text.strip_prefix(PREFIX)?)
}

/// Reads the digits alone.
pub(crate) fn decode_hex(digits: &str) -> Option<[u8; 32]> {
    let digits: &[u8; HEX_LEN] = digits.as_bytes().try_into().ok()?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

/// Capitals are refused: two texts for one name would be two keys in a map.
fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

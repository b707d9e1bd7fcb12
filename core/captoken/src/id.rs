//! The names of tokens and keys: a few bytes, written in hexadecimal.

use std::{fmt, str::FromStr};

/// The name of a token: 16 bytes chosen at minting, the same in everything attenuated from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId([u8; Self::LEN]);

/// The name of a root key, derived from the key; it tells nothing about it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; Self::LEN]);

/// A text is not a token's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token's id is {digits} hexadecimal digits", digits = TokenId::LEN * 2)]
pub struct BadId;

impl TokenId {
    /// Bytes of an id. Chosen at random, two will not meet.
    pub const LEN: usize = 16;

    /// Takes the bytes, which should be random.
    #[must_use]
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the id as raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl KeyId {
    /// Bytes of a key's id.
    pub const LEN: usize = 8;

    pub(crate) const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the id as raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl FromStr for TokenId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let digits = text.as_bytes();
        let mut bytes = [0; Self::LEN];
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != Self::LEN || !rest.is_empty() {
            return Err(BadId);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(bytes))
    }
}

fn digit(character: u8) -> Result<u8, BadId> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        b'A'..=b'F' => Ok(character - b'A' + 10),
        _ => Err(BadId),
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

fn hexadecimal(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_written_and_nothing_else_is_one() {
        let written = "00112233445566778899aabbccddeeff";
        let id: TokenId = written.parse().expect("an id");
        assert_eq!(id.to_string(), written);
        assert_eq!(written.to_uppercase().parse(), Ok(id));
        for wrong in
            ["", &written[1..], &written[2..], &format!("{written}0"), &format!("g{}", &written[1..])]
        {
            assert_eq!(wrong.parse::<TokenId>(), Err(BadId), "{wrong}");
        }
    }
}

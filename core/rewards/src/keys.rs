//! Ed25519 keys and signatures as text, and the two things this crate asks of whoever does the arithmetic.
//!
//! Signing needs a secret and a library with one; both are the caller's. Here are only the bytes and their texts.

use std::{fmt, str::FromStr};

use types::ObjectId;

/// A public key: `ed25519:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// A signature: 128 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature([u8; 64]);

/// The text is no key or no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is `ed25519:` and 64, a signature 128 lower-case hexadecimal digits")]
pub struct InvalidKey;

/// A verifier of signatures.
pub trait Verify {
    /// Whether the owner of `key` signed `message`.
    fn is_signed(&self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool;
}

/// Signs messages with a secret key.
pub trait Sign {
    /// The key that the signatures are checked with.
    fn public_key(&self) -> PublicKey;

    /// Returns the signature of `message`.
    fn sign(&self, message: &[u8]) -> Signature;
}

impl PublicKey {
    /// The prefix of every public key in text form.
    pub const PREFIX: &str = "ed25519:";

    /// The key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the key as raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Signature {
    /// The signature of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// Returns the signature as raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }

    fn halves(&self) -> [[u8; 32]; 2] {
        let (mut left, mut right) = ([0; 32], [0; 32]);
        left.copy_from_slice(&self.0[..32]);
        right.copy_from_slice(&self.0[32..]);
        [left, right]
    }
}

impl FromStr for PublicKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        Ok(Self(hex(text.strip_prefix(Self::PREFIX).ok_or(InvalidKey)?)?))
    }
}

impl FromStr for Signature {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let (left, right) = text.split_at_checked(64).ok_or(InvalidKey)?;
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&hex(left)?);
        bytes[32..].copy_from_slice(&hex(right)?);
        Ok(Self(bytes))
    }
}

fn hex(digits: &str) -> Result<[u8; 32], InvalidKey> {
    ObjectId::from_hex(digits).map(|id| *id.as_bytes()).map_err(|_| InvalidKey)
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", Self::PREFIX, ObjectId::new(self.0).hex()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.halves().iter().try_for_each(|half| f.write_str(&ObjectId::new(*half).hex()))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_signatures_have_one_text_each() {
        let key = PublicKey::new(std::array::from_fn(|at| u8::try_from(at).unwrap_or(0)));
        assert!(key.to_string().starts_with("ed25519:000102"));
        assert_eq!(key.to_string().parse(), Ok(key));
        let signature = Signature::new(std::array::from_fn(|at| u8::try_from(at * 3).unwrap_or(0)));
        assert_eq!(signature.to_string().len(), 128);
        assert_eq!(signature.to_string().parse(), Ok(signature));
        assert_eq!((format!("{key:?}"), format!("{signature:?}")), (key.to_string(), signature.to_string()));
        let capital = signature.to_string().to_uppercase();
        for wrong in ["", "00", capital.as_str(), &format!("{signature}0"), "é"] {
            assert_eq!(wrong.parse::<Signature>(), Err(InvalidKey), "{wrong}");
            assert_eq!(wrong.parse::<PublicKey>(), Err(InvalidKey), "{wrong}");
        }
    }
}

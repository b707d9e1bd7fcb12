//! Ed25519 by `aws-lc-rs`, for those who want it from here. Nothing is random: a secret comes from the caller.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use zeroize::Zeroizing;

use crate::{InvalidKey, PublicKey, Sign, Signature, Verify};

/// Verifies Ed25519 signatures (RFC 8032).
#[derive(Clone, Copy, Debug, Default)]
pub struct Ed25519;

impl Verify for Ed25519 {
    fn is_signed(&self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, key.as_bytes()).verify(message, signature.as_bytes()).is_ok()
    }
}

/// An Ed25519 secret key.
pub struct SecretKey(Ed25519KeyPair);

impl SecretKey {
    /// What the text of a secret begins with.
    pub const PREFIX: &str = "ed25519-secret:";

    /// The key of a secret, which has to be random.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are a seed"))
    }

    /// Reads the text of a secret: `ed25519-secret:` and 64 lower-case hexadecimal digits, and perhaps a line feed.
    ///
    /// # Errors
    /// [`InvalidKey`] for any other text.
    pub fn from_text(text: &str) -> Result<Self, InvalidKey> {
        let digits = text.strip_suffix('\n').unwrap_or(text).strip_prefix(Self::PREFIX).ok_or(InvalidKey)?;
        let seed = types::ObjectId::from_hex(digits).map_err(|_| InvalidKey)?;
        Ok(Self::from_seed(&Zeroizing::new(*seed.as_bytes())))
    }

    /// The text of a secret, with a line feed, as files hold it.
    #[must_use]
    pub fn text(seed: &[u8; 32]) -> Zeroizing<String> {
        Zeroizing::new(format!("{}{}\n", Self::PREFIX, types::ObjectId::new(*seed).hex()))
    }
}

impl Sign for SecretKey {
    fn public_key(&self) -> PublicKey {
        PublicKey::new(self.0.public_key().as_ref().try_into().expect("Ed25519 keys have 32 bytes"))
    }

    fn sign(&self, message: &[u8]) -> Signature {
        Signature::new(self.0.sign(message).as_ref().try_into().expect("Ed25519 signatures have 64 bytes"))
    }
}

impl fmt::Debug for SecretKey {
    /// The public half alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretKey").field(&self.public_key()).finish()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// RFC 8032, section 7.1, test 2.
    #[test]
    fn keys_and_signatures_are_those_of_the_standard() {
        let text = "ed25519-secret:4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb\n";
        let key = SecretKey::from_text(text).unwrap();
        let public = "ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
        let signed = concat!(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        );
        assert_eq!(
            (key.public_key().to_string(), key.sign(b"r").to_string()),
            (public.into(), signed.into())
        );
        assert!(Ed25519.is_signed(&key.public_key(), b"r", &key.sign(b"r")));
        assert!(!Ed25519.is_signed(&key.public_key(), b"s", &key.sign(b"r")));
        assert!(!format!("{key:?}").contains("4ccd"), "secrets are not shown");
        for wrong in ["", public, &text[..70], "ed25519-secret:zz"] {
            assert!(SecretKey::from_text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_read_from_the_text_it_is_kept_as() {
        let seed = [7; 32];
        let key = SecretKey::from_text(&SecretKey::text(&seed)).unwrap();
        assert_eq!(key.public_key(), SecretKey::from_seed(&seed).public_key());
    }
}

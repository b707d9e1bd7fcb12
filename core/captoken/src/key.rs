//! Root keys and the ring of those in use.

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine;
use zeroize::Zeroizing;

use crate::{KeyId, chain, wire::BASE64};

/// Bytes of a root key's secret.
pub const SECRET_LEN: usize = 32;

/// What a key file begins with. Unlike a token's beginning, so that neither is taken for the other.
const TEXT_PREFIX: &str = "ogk1.";
/// Separates what is derived from a secret: the key of the first link, and the key's name.
const MAC_LABEL: &[u8] = b"omnigate captoken 1 mac";
const ID_LABEL: &[u8] = b"omnigate captoken 1 id";

/// A key that tokens are made and checked with. It does not keep the secret it was made from, and prints as its id.
#[derive(Clone)]
pub struct RootKey {
    id: KeyId,
    mac: hmac::Key,
}

/// A text is not a root key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a root key is one line: `ogk1.` and 43 characters of base64url")]
pub struct KeyError;

impl RootKey {
    /// The key of a secret, which must be random.
    #[must_use]
    pub fn new(secret: &[u8; SECRET_LEN]) -> Self {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let id = chain::link(&secret, ID_LABEL);
        let id = *id.first_chunk().expect("a link is longer than an id");
        Self { id: KeyId::new(id), mac: chain::key(&chain::link(&secret, MAC_LABEL)) }
    }

    /// Reads the text of a key file, as [`key_text`] writes it; white space around it does not matter.
    ///
    /// # Errors
    /// [`KeyError`] if it is anything else.
    pub fn parse(text: &[u8]) -> Result<Self, KeyError> {
        let encoded = text.trim_ascii().strip_prefix(TEXT_PREFIX.as_bytes()).ok_or(KeyError)?;
        let mut secret = Zeroizing::new([0; SECRET_LEN + 1]);
        match BASE64.decode_slice(encoded, &mut secret[..]) {
            Ok(SECRET_LEN) => Ok(Self::new(secret.first_chunk().expect("as many as were decoded"))),
            _ => Err(KeyError),
        }
    }

    /// The key's name, which tokens carry.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.id
    }

    pub(crate) const fn mac(&self) -> &hmac::Key {
        &self.mac
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({})", self.id)
    }
}

/// The text of a key file for this secret.
#[must_use]
pub fn key_text(secret: &[u8; SECRET_LEN]) -> Zeroizing<String> {
    // Room for all of it at once: a string that grows leaves copies of the key behind.
    let mut text = Zeroizing::new(String::with_capacity(64));
    text.push_str(TEXT_PREFIX);
    BASE64.encode_string(secret, &mut text);
    text.push('\n');
    text
}

/// The keys in use, newest first. Tokens are made with the newest and checked with the one they name.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    keys: Vec<RootKey>,
}

/// Why keys do not make a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// There are more than a ring holds.
    #[error("there are more than {max} root keys; retire the oldest", max = KeyRing::MAX_KEYS)]
    TooMany,
    /// One key is there twice.
    #[error("the key {0} is listed twice")]
    Twice(KeyId),
}

impl KeyRing {
    /// The most keys in a ring: a rotation needs two.
    pub const MAX_KEYS: usize = 16;

    /// A ring of these keys, newest first.
    ///
    /// # Errors
    /// [`RingError`] if there are too many, or one is there twice.
    pub fn new(keys: Vec<RootKey>) -> Result<Self, RingError> {
        if keys.len() > Self::MAX_KEYS {
            return Err(RingError::TooMany);
        }
        let is_repeated = |at: usize| keys[..at].iter().any(|earlier| earlier.id == keys[at].id);
        match (0..keys.len()).find(|at| is_repeated(*at)) {
            Some(at) => Err(RingError::Twice(keys[at].id)),
            None => Ok(Self { keys }),
        }
    }

    /// The key to make tokens with, if there is any.
    #[must_use]
    pub fn newest(&self) -> Option<&RootKey> {
        self.keys.first()
    }

    /// The key of this name.
    #[must_use]
    pub fn find(&self, id: KeyId) -> Option<&RootKey> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Whether there is no key, so that no token can be good.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_as_written_and_nothing_else_is_one() {
        let secret = [7; SECRET_LEN];
        let text = key_text(&secret);
        let key = RootKey::parse(text.as_bytes()).expect("a key");
        assert_eq!(key.id(), RootKey::new(&secret).id());
        assert_eq!(format!("{key:?}"), format!("RootKey({})", key.id()));
        let line = text.trim_end();
        for wrong in [
            "",
            "ogk1.",
            "og1.AAAA",
            &line[1..],
            &line[..line.len() - 1],
            &format!("{line}A"),
            &format!("{line}="),
        ] {
            assert_eq!(RootKey::parse(wrong.as_bytes()).err(), Some(KeyError), "{wrong}");
        }
    }

    #[test]
    fn a_ring_finds_keys_by_name_and_holds_each_once() {
        let key = |seed: u8| RootKey::new(&[seed; SECRET_LEN]);
        let ring = KeyRing::new(vec![key(2), key(1)]).expect("a ring");
        assert_eq!(ring.newest().map(RootKey::id), Some(key(2).id()));
        assert!(ring.find(key(1).id()).is_some() && ring.find(key(3).id()).is_none());
        assert!(KeyRing::default().is_empty() && !ring.is_empty());
        assert_eq!(KeyRing::new(vec![key(1), key(2), key(1)]).err(), Some(RingError::Twice(key(1).id())));
        assert!(KeyRing::new((0..16).map(key).collect()).is_ok());
        assert_eq!(KeyRing::new((0..17).map(key).collect()).err(), Some(RingError::TooMany));
    }
}

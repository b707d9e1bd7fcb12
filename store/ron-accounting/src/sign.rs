//! Who says so: the keys of nodes, and what is signed with them.

use std::{fmt, sync::Arc};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use types::ObjectId;

/// What a node is called: the BLAKE3 hash of its public key.
pub type NodeId = ObjectId;

/// The node's key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no Ed25519 key in PKCS#8, or the system has no random numbers")]
pub struct KeyError;

/// The public Ed25519 key of a node; text is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

/// A signature; text is 128 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

/// The key pair of this node. Clones share it; nothing prints the private half.
#[derive(Clone)]
pub struct SigningKey(Arc<Ed25519KeyPair>);

impl SigningKey {
    /// A key that ends with the process.
    ///
    /// # Errors
    /// [`KeyError`] without random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        Ed25519KeyPair::generate().map(|pair| Self(Arc::new(pair))).map_err(|_| KeyError)
    }

    /// The key in a PKCS#8 document.
    ///
    /// # Errors
    /// [`KeyError`] if there is none.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(|pair| Self(Arc::new(pair))).map_err(|_| KeyError)
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(key)
    }

    /// Signs a message. The same message gets the same signature.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.0.sign(message).as_ref());
        Signature(signature)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.public()).finish()
    }
}

impl PublicKey {
    /// Takes the key as it stands.
    #[must_use]
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The bare key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What the node with this key is called.
    #[must_use]
    pub fn node(&self) -> NodeId {
        ObjectId::new(*blake3::hash(&self.0).as_bytes())
    }

    /// Whether the node with this key signed the message.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

impl Signature {
    /// The bare signature.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

macro_rules! written_as_digits {
    ($name:ident, $len:literal) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), hex(&self.0))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex(&self.0))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&hex(&self.0))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let read = unhex::<$len>(&text).map(Self);
                read.ok_or_else(|| D::Error::custom(format_args!("{} lower-case hexadecimal digits", $len * 2)))
            }
        }
    };
}

written_as_digits!(PublicKey, 32);
written_as_digits!(Signature, 64);

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|n| char::from(b"0123456789abcdef"[usize::from(n)])).collect()
}

/// The bytes that lower-case hexadecimal digits stand for; two texts for one value would be two keys in a map.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |character: u8| match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

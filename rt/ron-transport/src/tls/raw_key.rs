//! Nodes that know each other by their Ed25519 keys alone (RFC 7250): the keys, and how they are kept.

use std::{fmt, path::Path, sync::Arc};

use aws_lc_rs::{
    pkcs8::Document,
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};
use rustls::{crypto::aws_lc_rs::sign::any_eddsa_type, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

pub use super::raw_endpoint::{RawClientTls, RawKeyOptions, RawServerTls};
use super::{TlsError, identity};
use crate::files;

const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;

/// What precedes the key in the SubjectPublicKeyInfo of every Ed25519 key (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The public Ed25519 key of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey([u8; KEY_BYTES]);

impl PeerKey {
    /// Takes the key as it stands.
    pub fn from_ed25519(key: [u8; KEY_BYTES]) -> Self {
        Self(key)
    }

    /// Reads a DER SubjectPublicKeyInfo; `None` if it is not exactly one Ed25519 key.
    pub fn from_spki(spki: &[u8]) -> Option<Self> {
        spki.strip_prefix(&SPKI_PREFIX)?.try_into().ok().map(Self)
    }

    /// Returns the raw Ed25519 public key.
    pub fn ed25519(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Whether the owner of this key signed `message`.
    pub fn verify(&self, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }

    /// The key as a DER SubjectPublicKeyInfo, which is what goes over the wire.
    pub fn to_spki(&self) -> Vec<u8> {
        [&SPKI_PREFIX[..], &self.0].concat()
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKey(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// The key pair of this node. Clones share it; nothing prints the private half.
#[derive(Clone)]
pub struct NodeKey {
    pair: Arc<Ed25519KeyPair>,
}

impl NodeKey {
    /// Makes a new key.
    pub fn generate() -> Result<Self, TlsError> {
        let pair = Ed25519KeyPair::generate().map_err(|_| TlsError::NoRandomness)?;
        Ok(Self { pair: Arc::new(pair) })
    }

    /// Reads a PKCS#8 key in PEM that its owner alone may read. Blocking.
    pub fn load(path: &Path) -> Result<Self, TlsError> {
        let unsupported =
            || TlsError::UnsupportedKey { path: path.to_owned(), wanted: "an Ed25519 key in PKCS#8" };
        let PrivateKeyDer::Pkcs8(der) = identity::private_key(path)? else {
            return Err(unsupported());
        };
        let pair =
            Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).map_err(|_| unsupported())?;
        Ok(Self { pair: Arc::new(pair) })
    }

    /// Writes the key to a new file of mode 0600; an existing file is left alone. Blocking.
    pub fn save(&self, path: &Path) -> Result<(), TlsError> {
        Ok(files::create_private(path, pem(self.pkcs8()?.as_ref()).as_bytes())?)
    }

    /// Returns the public key of the pair.
    pub fn public_key(&self) -> PeerKey {
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PeerKey(key)
    }

    /// Signs a message; the same message always gives the same signature.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(self.pair.sign(message).as_ref());
        signature
    }

    /// The key as rustls wants it: the raw public key stands where a certificate chain would.
    pub(super) fn certified(&self) -> Result<Arc<CertifiedKey>, TlsError> {
        let document = self.pkcs8()?;
        let signer = any_eddsa_type(&PrivatePkcs8KeyDer::from(document.as_ref()))
            .expect("an Ed25519 key pair encodes to a key that parses");
        let public = CertificateDer::from(self.public_key().to_spki());
        Ok(Arc::new(CertifiedKey::new(vec![public], signer)))
    }

    fn pkcs8(&self) -> Result<Document, TlsError> {
        // Version 1, without the public half: the form that every other tool reads and writes.
        self.pair.to_pkcs8v1().map_err(|_| TlsError::NoRandomness)
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey").field("public", &self.public_key()).finish_non_exhaustive()
    }
}

/// A PKCS#8 key as PEM. Written out here because the PEM library in use only reads.
fn pem(der: &[u8]) -> Zeroizing<String> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const LINE: usize = 64;
    // Enough from the start: a string that grows leaves copies of the key behind.
    let mut text = Zeroizing::new(String::with_capacity(der.len() * 2 + 128));
    text.push_str("-----BEGIN PRIVATE KEY-----\n");
    for line in der.chunks(LINE / 4 * 3) {
        for group in line.chunks(3) {
            let mut bits = 0u32;
            for index in 0..3 {
                bits = bits << 8 | u32::from(group.get(index).copied().unwrap_or(0));
            }
            for index in 0..4 {
                let digit = ALPHABET[(bits >> (18 - 6 * index) & 63) as usize];
                text.push(if index <= group.len() { char::from(digit) } else { '=' });
            }
        }
        text.push('\n');
    }
    text.push_str("-----END PRIVATE KEY-----\n");
    text
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn a_signature_holds_for_its_message_and_key_alone() {
        let (key, other) = (NodeKey::generate().expect("a key"), NodeKey::generate().expect("a key"));
        let mut signature = key.sign(b"message");
        assert!(key.public_key().verify(b"message", &signature));
        assert!(!key.public_key().verify(b"messagf", &signature));
        assert!(!other.public_key().verify(b"message", &signature));
        signature[7] ^= 1;
        assert!(!key.public_key().verify(b"message", &signature));
    }

    #[test]
    fn the_pem_writer_and_the_pem_reader_agree_on_every_length() {
        for length in 1..=200u8 {
            let der: Vec<u8> = (0..length).map(|index| index.wrapping_mul(37)).collect();
            let read = PrivatePkcs8KeyDer::from_pem_slice(pem(&der).as_bytes()).expect("it is PEM");
            assert_eq!(read.secret_pkcs8_der(), der, "of {length} bytes");
        }
    }
}

//! Signed packs: an Ed25519 signature beside the file, over the hash of the file.

use std::{
    ffi::OsString,
    io::{self, Read},
    path::{Path, PathBuf},
};

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use rustls_pki_types::{SubjectPublicKeyInfoDer, pem::PemObject};
use types::ObjectId;

use crate::mount::open_regular;

/// The bytes of a signature.
const SIGNATURE_LEN: usize = 64;

/// What stands before an Ed25519 key in a `SubjectPublicKeyInfo` (RFC 8410).
const KEY_PREFIX: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// Whose signature a pack has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// The text is no Ed25519 public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no Ed25519 public key in PEM, as `openssl pkey -pubout` writes it")]
pub struct InvalidKey;

/// Why a signature does not count.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature file.
    #[error("its signature {path} cannot be read: {error}")]
    Missing {
        /// The path where the signature is expected.
        path: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file does not have the length of a signature.
    #[error("its signature {path} does not have {SIGNATURE_LEN} bytes")]
    Length {
        /// The path of the signature.
        path: String,
    },
    /// Of another file, or by somebody else.
    #[error("its signature {path} is not by the expected key over this content")]
    Wrong {
        /// The path of the signature.
        path: String,
    },
}

/// What is signed: `omnigate-pack-v1`, a space, the pack's id, a line end. The prefix keeps a signature from meaning
/// anything elsewhere.
#[must_use]
pub fn signed_text(id: ObjectId) -> String {
    format!("omnigate-pack-v1 {id}\n")
}

impl PublicKey {
    /// Reads a key in PEM.
    ///
    /// # Errors
    /// [`InvalidKey`] if it is something else.
    pub fn from_pem(pem: &[u8]) -> Result<Self, InvalidKey> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| InvalidKey)?;
        let key = der.as_ref().strip_prefix(KEY_PREFIX).ok_or(InvalidKey)?;
        key.try_into().map(Self).map_err(|_| InvalidKey)
    }

    /// Judges the signature beside `pack`, whose content is `id`.
    pub(crate) fn judge(&self, pack: &Path, id: ObjectId) -> Result<(), SignatureError> {
        let file = beside(pack);
        let path = file.display().to_string();
        let signature = match read(&file) {
            Ok(Some(signature)) => signature,
            Ok(None) => return Err(SignatureError::Length { path }),
            Err(error) => return Err(SignatureError::Missing { path, error }),
        };
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        let text = signed_text(id);
        key.verify(text.as_bytes(), &signature).map_err(|_| SignatureError::Wrong { path })
    }
}

fn beside(pack: &Path) -> PathBuf {
    let mut name = OsString::from(pack);
    name.push(".sig");
    name.into()
}

fn read(path: &Path) -> io::Result<Option<[u8; SIGNATURE_LEN]>> {
    let mut bytes = Vec::new();
    let Some(file) = open_regular(path)? else { return Ok(None) };
    file.take(SIGNATURE_LEN as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes.try_into().ok())
}

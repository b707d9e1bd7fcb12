//! From the files of the `[auth]` table to keys and revocations. Blocking.

use std::path::{Path, PathBuf};

use captoken::{KeyError, KeyRing, RevocationError, RevocationList, RingError, RootKey};
use ron_transport::files::{self, FileError};

use crate::config::AuthConfig;

/// A key file has one line.
const MAX_KEY_BYTES: u64 = 4096;
/// All the ids a list can hold, with some ninety characters of comment each.
const MAX_REVOKED_BYTES: u64 = 8 * 1024 * 1024;

/// Why credentials could not be loaded. Names the file and the remedy; carries no key material.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file holds no root key.
    #[error("{} holds no root key: {problem}; write one with `omnigate token keygen`", .path.display())]
    BadKey {
        /// The file.
        path: PathBuf,
        /// What a key looks like.
        problem: KeyError,
    },
    /// The keys cannot be used together.
    #[error("auth.root_keys: {0}")]
    Ring(#[from] RingError),
    /// A file holds no revocation list.
    #[error("{} is no revocation list: {problem}", .path.display())]
    BadList {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: RevocationError,
    },
    /// A revocation list is not text.
    #[error("{} is no revocation list: it is not UTF-8 text", .path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
}

/// Loads everything that capability tokens are checked with. Blocking.
///
/// # Errors
/// [`AuthError`] at the first file that is missing, open to others than its owner, or not what it should be.
pub fn load_auth(config: &AuthConfig) -> Result<(KeyRing, RevocationList), AuthError> {
    let keys = config.root_keys.iter().map(|path| load_root_key(path)).collect::<Result<_, _>>()?;
    let ring = KeyRing::new(keys)?;
    let revoked = if config.revoked.as_os_str().is_empty() {
        RevocationList::default()
    } else {
        load_revoked(&config.revoked)?
    };
    Ok((ring, revoked))
}

/// Loads one root key, which its owner alone may read. Blocking.
///
/// # Errors
/// [`AuthError`] if the file is missing, open to others, or holds no key.
pub fn load_root_key(path: &Path) -> Result<RootKey, AuthError> {
    let text = files::read_private(path, MAX_KEY_BYTES)?;
    RootKey::parse(&text).map_err(|problem| AuthError::BadKey { path: path.to_owned(), problem })
}

/// Loads a revocation list. Blocking.
///
/// # Errors
/// [`AuthError`] if the file is missing (revocations must not vanish unnoticed) or holds anything else.
pub fn load_revoked(path: &Path) -> Result<RevocationList, AuthError> {
    let text = String::from_utf8(files::read_public(path, MAX_REVOKED_BYTES)?)
        .map_err(|_| AuthError::NotText { path: path.to_owned() })?;
    RevocationList::parse(&text).map_err(|problem| AuthError::BadList { path: path.to_owned(), problem })
}

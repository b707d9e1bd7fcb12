//! From the files of the `[auth]` table to keys and revocations. Blocking.

use std::path::{Path, PathBuf};

use captoken::{KeyError, KeyRing, RevocationError, RevocationList, RingError, RootKey};
use ron_kernel::lock::Ranked;
use ron_transport::files::{self, FileError};

use crate::{config::AuthConfig, locks};

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
        /// The path of the file.
        path: PathBuf,
        /// The reason why the key is invalid.
        problem: KeyError,
    },
    /// The keys cannot be used together.
    #[error("auth.root_keys: {0}")]
    Ring(#[from] RingError),
    /// A file holds no revocation list.
    #[error("{} is no revocation list: {problem}", .path.display())]
    BadList {
        /// The path of the file.
        path: PathBuf,
        /// The reason why the list is invalid.
        problem: RevocationError,
    },
    /// A revocation list is not text.
    #[error("{} is no revocation list: it is not UTF-8 text", .path.display())]
    NotText {
        /// The path of the file.
        path: PathBuf,
    },
    /// A revocation list that is read again may not be whole.
    #[error("{} may be incomplete: {doubt}; the old revocations stay in force. Write the complete list; to lift \
        revocations on purpose, name another list in `auth.revoked`, or restart", .path.display())]
    Doubtful {
        /// The path of the file.
        path: PathBuf,
        /// What is unusual about the file.
        doubt: Doubt,
    },
}

/// Why a revocation list that is read again may not be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// It has no id, and had some before.
    #[error("it has no id any more, and had {before}")]
    Emptied {
        /// Number of ids before the reload.
        before: usize,
    },
    /// It is the beginning of what it was before.
    #[error("it is only the beginning of what it was, with {now} of its {before} ids")]
    Shortened {
        /// Number of ids now.
        now: usize,
        /// Number of ids before the reload.
        before: usize,
    },
    /// Its last line does not end.
    #[error("its last line has no end")]
    OpenEnd,
}

/// The files of the `[auth]` table, which are read again while the node runs.
///
/// A file that is emptied or cut short by its writer must not lift revocations, so a list is compared with the last one
/// that was taken from the same path. That text is kept: at most 8 MiB.
#[derive(Debug)]
pub struct AuthFiles(Ranked<Option<TakenList>>);

impl Default for AuthFiles {
    fn default() -> Self {
        Self(Ranked::new(&locks::AUTH_FILES, None))
    }
}

/// A revocation list that was taken.
#[derive(Debug)]
struct TakenList {
    path: PathBuf,
    text: String,
    ids: usize,
}

impl AuthFiles {
    /// Loads everything that capability tokens are checked with. Blocking.
    ///
    /// # Errors
    /// [`AuthError`] as [`load_auth`], and if the revocation list may not be whole.
    pub fn load(&self, config: &AuthConfig) -> Result<(KeyRing, RevocationList), AuthError> {
        let ring = load_ring(config)?;
        let path = &config.revoked;
        let mut taken = self.0.lock();
        if path.as_os_str().is_empty() {
            *taken = None;
            return Ok((ring, RevocationList::default()));
        }
        let text = read_list(path)?;
        let list = parse_list(path, &text)?;
        match taken.as_ref().filter(|taken| taken.path == *path) {
            Some(before) => before.compare(&text, list.len())?,
            None if list.is_empty() => {
                tracing::warn!(path = %path.display(), "the revocation list is empty: no token is revoked");
            }
            None => {}
        }
        *taken = Some(TakenList { path: path.clone(), text, ids: list.len() });
        Ok((ring, list))
    }
}

impl TakenList {
    /// Whether a later text of the same file, with `now` ids in it, can be whole.
    fn compare(&self, text: &str, now: usize) -> Result<(), AuthError> {
        let before = self.ids;
        let doubt = if text == self.text {
            return Ok(());
        } else if now == 0 && before > 0 {
            Doubt::Emptied { before }
        } else if now < before && self.text.starts_with(text) {
            Doubt::Shortened { now, before }
        } else if !text.is_empty() && !text.ends_with('\n') {
            Doubt::OpenEnd
        } else {
            return Ok(());
        };
        Err(AuthError::Doubtful { path: self.path.clone(), doubt })
    }
}

/// Loads everything that capability tokens are checked with, once. Blocking.
///
/// # Errors
/// [`AuthError`] at the first file that is missing, open to others than its owner, or not what it should be.
pub fn load_auth(config: &AuthConfig) -> Result<(KeyRing, RevocationList), AuthError> {
    let revoked = if config.revoked.as_os_str().is_empty() {
        RevocationList::default()
    } else {
        load_revoked(&config.revoked)?
    };
    Ok((load_ring(config)?, revoked))
}

fn load_ring(config: &AuthConfig) -> Result<KeyRing, AuthError> {
    let keys = config.root_keys.iter().map(|path| load_root_key(path)).collect::<Result<_, _>>()?;
    Ok(KeyRing::new(keys)?)
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
    parse_list(path, &read_list(path)?)
}

fn read_list(path: &Path) -> Result<String, AuthError> {
    String::from_utf8(files::read_public(path, MAX_REVOKED_BYTES)?)
        .map_err(|_| AuthError::NotText { path: path.to_owned() })
}

fn parse_list(path: &Path, text: &str) -> Result<RevocationList, AuthError> {
    RevocationList::parse(text).map_err(|problem| AuthError::BadList { path: path.to_owned(), problem })
}

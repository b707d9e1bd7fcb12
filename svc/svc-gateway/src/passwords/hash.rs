//! Hashes of passwords: bcrypt and argon2id, within bounds that keep one check short.

use std::{fmt, str::FromStr};

use argon2::{
    Argon2, Params,
    password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash},
};
use aws_lc_rs::rand;
use bcrypt::HashParts;

/// Highest cost of bcrypt: about a second.
const MAX_BCRYPT_COST: u32 = 14;
/// Most memory of argon2id, in KiB.
const MAX_ARGON2_KIB: u32 = 128 * 1024;
/// Most rounds of argon2id.
const MAX_ARGON2_ROUNDS: u32 = 16;
/// Most lanes of argon2id.
const MAX_ARGON2_LANES: u32 = 8;

/// The hash of a password. Nothing prints it.
#[derive(Clone)]
pub(super) struct Hash {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bcrypt,
    Argon2id,
}

/// Why a text is no hash that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// It is of another kind.
    #[error("is of no known kind; bcrypt (`$2y$…`) and argon2id (`$argon2id$…`) are")]
    Unknown,
    /// It is damaged.
    #[error("is damaged")]
    Damaged,
    /// It takes too long, or too much memory.
    #[error(
        "costs too much to check: bcrypt may have a cost of 14, argon2id 128 MiB (`m=131072`), 16 rounds and 8 lanes"
    )]
    TooCostly,
}

impl Hash {
    /// Whether it is the hash of this password. Takes as long as its parameters say. Blocking.
    pub(super) fn fits(&self, password: &[u8]) -> bool {
        match self.kind {
            Kind::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            Kind::Argon2id => PasswordHash::new(&self.text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
        }
    }

    /// As it is written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl FromStr for Hash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        let kind = if ["$2a$", "$2b$", "$2y$"].iter().any(|start| text.starts_with(start)) {
            let parts: HashParts = text.parse().map_err(|_| HashError::Damaged)?;
            if parts.get_cost() > MAX_BCRYPT_COST {
                return Err(HashError::TooCostly);
            }
            Kind::Bcrypt
        } else if text.starts_with("$argon2id$") {
            let hash = PasswordHash::new(text).map_err(|_| HashError::Damaged)?;
            let params = Params::try_from(&hash).map_err(|_| HashError::Damaged)?;
            let is_whole = hash.salt.is_some() && hash.hash.is_some();
            let is_costly = params.m_cost() > MAX_ARGON2_KIB
                || params.t_cost() > MAX_ARGON2_ROUNDS
                || params.p_cost() > MAX_ARGON2_LANES;
            match (is_whole, is_costly) {
                (false, _) => return Err(HashError::Damaged),
                (true, true) => return Err(HashError::TooCostly),
                (true, false) => Kind::Argon2id,
            }
        } else {
            return Err(HashError::Unknown);
        };
        Ok(Self { text: text.to_owned(), kind })
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(…)")
    }
}

/// A new hash of a password with argon2id, 19 MiB and two rounds; `None` if the system has no randomness. Blocking.
#[must_use]
pub fn hash_password(password: &[u8]) -> Option<String> {
    let mut salt = [0; 16];
    rand::fill(&mut salt).ok()?;
    let hash = Argon2::default().hash_password_with_salt(password, &salt).ok()?;
    Some(hash.to_string())
}

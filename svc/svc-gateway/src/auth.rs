//! Who is asking: the credentials that the `[auth]` table names, and what they are checked with.

mod jwt_keys;
mod load;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use captoken::{Bearer, KeyRing, RevocationList, TokenError};

pub(crate) use jwt_keys::JwtKeys;
pub use load::{AuthError, AuthFiles, Doubt, load_auth, load_revoked, load_root_key};

use crate::{jwt::Verifier, passwords::Users};

/// Everything that credentials are checked with.
#[derive(Debug)]
pub(crate) struct Auth {
    ring: KeyRing,
    revoked: RevocationList,
    /// `None` if no JWTs are taken.
    pub(crate) jwt: Option<Arc<Verifier>>,
    /// The users of routes with `basic_auth`, by their file.
    pub(crate) users: BTreeMap<PathBuf, Arc<Users>>,
}

impl Auth {
    pub(crate) fn new(
        ring: KeyRing,
        revoked: RevocationList,
        jwt: Option<Arc<Verifier>>,
        users: BTreeMap<PathBuf, Arc<Users>>,
    ) -> Self {
        Self { ring, revoked, jwt, users }
    }

    /// Whether there is a key that capabilities could be made with; without one they are not ours to judge.
    pub(crate) fn verifies_capabilities(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Tells who shows a capability at this Unix time.
    pub(crate) fn authenticate(&self, token: &[u8], unix: Duration) -> Result<Bearer, TokenError> {
        captoken::authenticate(token, &self.ring, &self.revoked, unix.as_secs())
    }
}

//! The credential of a request: what it shows, and whether that is known to be good.

use std::sync::Arc;

use captoken::{Bearer, TokenError};
use http::{HeaderMap, header::AUTHORIZATION};
use ron_kernel::Clock;
use types::{Moment, Reason, Refusal};

use crate::{
    fleet::Allowance,
    jwt::{Claims, JwtError},
    policy::Policy,
    shared::Shared,
};

/// The prefix of every capability token.
const CAPABILITY: &[u8] = b"og1.";

/// The credential that a request presents.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// Nothing, or what only the upstream can judge.
    None,
    /// An authentic capability. Whether it covers the request is decided once the request is admitted.
    Capability { bearer: Arc<Bearer>, rate: Arc<Allowance> },
    /// A JWT that was verified before.
    Jwt(Arc<Claims>),
    /// A JWT that is to be verified once the request is admitted: a signature costs more than a refusal.
    UnverifiedJwt,
    /// A capability that is none.
    Refused(TokenError),
}

impl Credential {
    /// Reads what the request shows, without checking a signature.
    pub(super) fn read(headers: &HeaderMap, policy: &Policy, shared: &Shared, now: Moment) -> Self {
        let Some(token) = bearer_token(headers) else {
            return Self::None;
        };
        if token.starts_with(CAPABILITY) && policy.auth.verifies_capabilities() {
            return match policy.auth.authenticate(token, shared.clock.unix()) {
                Ok(bearer) => {
                    let rate = shared.capability(bearer.id(), now);
                    Self::Capability { bearer: Arc::new(bearer), rate }
                }
                Err(error) => Self::Refused(error),
            };
        }
        match (&policy.auth.jwt, str::from_utf8(token)) {
            (Some(verifier), Ok(text)) if looks_like_jwt(text) => {
                verifier.peek(text, now).map_or(Self::UnverifiedJwt, Self::Jwt)
            }
            _ => Self::None,
        }
    }

    /// Refuses what was found to be no capability while it was read: that is known before the request gets a slot, and
    /// a client that forges one must not wait for one.
    ///
    /// # Errors
    /// `unauth`.
    pub(crate) fn refuse_forged(&self) -> Result<(), Refusal> {
        match self {
            Self::Refused(error) => Err((*error).into()),
            _ => Ok(()),
        }
    }

    /// Decides whether the request may be made: every caveat of a capability is met, a JWT's signature is good. Returns
    /// what a JWT says that was verified only now.
    ///
    /// # Errors
    /// `unauth` for what is no credential, `forbidden` for one that does not cover this.
    pub(crate) fn authorize(
        &self,
        needed: bool,
        headers: &HeaderMap,
        policy: &Policy,
        clock: &Clock,
        asked: captoken::Request<'_>,
    ) -> Result<Option<Arc<Claims>>, Refusal> {
        self.refuse_forged()?;
        match self {
            Self::None if needed => Err(Refusal::from(Reason::Unauth)),
            Self::None | Self::Refused(_) => Ok(None),
            Self::Capability { bearer, .. } => {
                let now = clock.unix().as_secs();
                Ok(bearer.authorize(&captoken::Request { now, ..asked }).map(|()| None)?)
            }
            // It may have expired while the request waited.
            Self::Jwt(claims) if claims.expired(clock.unix()) => Err(JwtError::Expired.into()),
            Self::Jwt(_) => Ok(None),
            Self::UnverifiedJwt => {
                let token = bearer_token(headers).and_then(|token| str::from_utf8(token).ok());
                match (&policy.auth.jwt, token) {
                    (Some(verifier), Some(token)) => Ok(Some(verifier.verify(token)?)),
                    _ => Err(Refusal::from(Reason::Unauth)),
                }
            }
        }
    }

    /// Whether a signature has to be checked to judge it.
    pub(crate) const fn costs_a_signature(&self) -> bool {
        matches!(self, Self::UnverifiedJwt)
    }

    /// Whether it is ours and ends here: if it were forwarded, the server could use it again.
    pub(crate) const fn ends_here(&self) -> bool {
        matches!(self, Self::Capability { .. })
    }
}

/// The token of `Authorization: Bearer …`.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(6)?;
    // Servers that take a tab for a blank would read a token that was not judged here.
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer") && matches!(token, [b' ' | b'\t', ..]);
    is_bearer.then(|| token.trim_ascii())
}

/// Three parts with dots between; anything else is the upstream's business.
fn looks_like_jwt(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_bearer_token_is_found_whatever_the_case_of_its_scheme() {
        for (value, expected) in [
            ("Bearer abc", Some(b"abc".as_slice())),
            ("bearer  abc ", Some(b"abc")),
            ("BEARER abc", Some(b"abc")),
            ("Bearer\tabc", Some(b"abc")),
            ("Bearer \t abc", Some(b"abc")),
            ("Bearerabc", None),
            ("Bearer,abc", None),
            ("Basic abc", None),
            ("Bearer", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(bearer_token(&headers), expected, "{value}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }
}

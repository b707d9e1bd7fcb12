//! Why a token is not accepted. No variant holds any part of a token: these words reach clients and logs.

use types::{Reason, Refusal};

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// Longer than anybody needs.
    #[error("the token is longer than {} bytes", super::MAX_TOKEN_BYTES)]
    TooLong,
    /// Not three parts, or parts that cannot be read; `alg: none` is among them.
    #[error("the token cannot be read")]
    Malformed,
    /// An algorithm that is not spoken here, or not that of the key.
    #[error("the token is not signed with an algorithm of its key")]
    Algorithm,
    /// It asks for extensions that nobody here knows.
    #[error("the token has unknown critical extensions")]
    Critical,
    /// Nobody known signed it; the keys are asked for again.
    #[error("the token is signed by an unknown key")]
    UnknownKey,
    /// No keys have been fetched yet, or the issuer has withdrawn all of them.
    #[error("there is no key to verify the token with")]
    NoKeys,
    /// The signature is not the key's.
    #[error("the token's signature does not verify")]
    Signature,
    /// It lacks a claim that is needed, or the claim is of the wrong type.
    #[error("the token's claim `{0}` is missing or invalid")]
    Claim(&'static str),
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("the token is not valid yet")]
    NotYet,
    /// Somebody else issued it.
    #[error("the token is from another issuer")]
    Issuer,
    /// It is meant for somebody else.
    #[error("the token is for another audience")]
    Audience,
    /// What it says of its tenant cannot name one.
    #[error("the token's tenant cannot be used as a name")]
    Tenant,
}

impl JwtError {
    /// `forbidden` for a genuine token that is of no use here, `unauth` for everything else.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Audience | Self::Tenant => Reason::Forbidden,
            _ => Reason::Unauth,
        }
    }
}

impl From<JwtError> for Refusal {
    fn from(error: JwtError) -> Self {
        Self::new(error.reason(), error.to_string())
    }
}

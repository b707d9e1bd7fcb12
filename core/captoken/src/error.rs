//! Why a token is refused, and with which status.

use std::fmt;

use types::{Reason, Refusal};

/// Why a token is refused. No message repeats any part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is not written as a token is.
    Malformed(&'static str),
    /// It is longer than a token may be.
    TooLarge,
    /// It has more caveats than a token may have.
    TooManyCaveats,
    /// No key in use has the id that the token names.
    UnknownKey,
    /// The tag is not that of the key and the caveats.
    Forged,
    /// The token has expired.
    Expired,
    /// The token is not valid yet.
    NotYet,
    /// Its id is on the revocation list.
    Revoked,
    /// It carries a condition that this version does not know, and so cannot hold to be met.
    UnknownCaveat,
    /// It does not cover this path.
    WrongPath,
    /// It does not cover this method.
    WrongMethod,
    /// It may not be used from this address.
    WrongAddress,
    /// It is for another tenant, or for two at once, which nobody is.
    WrongTenant,
    /// It does not carry this right.
    WrongScope,
    /// It is for other nodes, or no node shows it.
    WrongNode,
    /// It is bound to another connection, or to none that could be compared.
    WrongChannel,
    /// It does not cover this topic.
    WrongTopic,
}

impl TokenError {
    /// The name used in logs, metrics and test vectors.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::TooLarge => "too_large",
            Self::TooManyCaveats => "too_many_caveats",
            Self::UnknownKey => "unknown_key",
            Self::Forged => "forged",
            Self::Expired => "expired",
            Self::NotYet => "not_yet",
            Self::Revoked => "revoked",
            Self::UnknownCaveat => "unknown_caveat",
            Self::WrongPath => "wrong_path",
            Self::WrongMethod => "wrong_method",
            Self::WrongAddress => "wrong_address",
            Self::WrongTenant => "wrong_tenant",
            Self::WrongScope => "wrong_scope",
            Self::WrongNode => "wrong_node",
            Self::WrongChannel => "wrong_channel",
            Self::WrongTopic => "wrong_topic",
        }
    }

    /// [`Reason::Unauth`] (401) for what is no valid credential, [`Reason::Forbidden`] (403) for a good one that does
    /// not allow this.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Malformed(_)
            | Self::TooLarge
            | Self::TooManyCaveats
            | Self::UnknownKey
            | Self::Forged
            | Self::Expired
            | Self::NotYet
            | Self::Revoked => Reason::Unauth,
            Self::UnknownCaveat
            | Self::WrongPath
            | Self::WrongMethod
            | Self::WrongAddress
            | Self::WrongTenant
            | Self::WrongScope
            | Self::WrongNode
            | Self::WrongChannel
            | Self::WrongTopic => Reason::Forbidden,
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::Malformed(_) => "the token is malformed",
            Self::TooLarge => "the token is too long",
            Self::TooManyCaveats => "the token has too many caveats",
            Self::UnknownKey => "the token was made with a key that is not in use here",
            Self::Forged => "the token was not made with our key, or was altered",
            Self::Expired => "the token has expired",
            Self::NotYet => "the token is not valid yet",
            Self::Revoked => "the token is revoked",
            Self::UnknownCaveat => "the token has a caveat of an unknown kind",
            Self::WrongPath => "the token does not cover this path",
            Self::WrongMethod => "the token does not cover this method",
            Self::WrongAddress => "the token may not be used from this address",
            Self::WrongTenant => "the token is not for this tenant",
            Self::WrongScope => "the token does not carry this right",
            Self::WrongNode => "the token is not for this node",
            Self::WrongChannel => "the token is bound to another connection",
            Self::WrongTopic => "the token does not cover this topic",
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())?;
        match self {
            Self::Malformed(what) => write!(f, ": {what}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for TokenError {}

impl From<TokenError> for Refusal {
    /// Allocates nothing: what exactly is malformed concerns the issuer, not the response.
    fn from(error: TokenError) -> Self {
        Self::new(error.reason(), error.sentence())
    }
}

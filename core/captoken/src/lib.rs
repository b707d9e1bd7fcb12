//! Capability tokens: macaroons (Birgisson et al., NDSS 2014) with first-party caveats only. A chain of HMACs (RFC
//! 2104) lets any holder add a caveat, and nobody remove one.
//!
//! ```text
//! t0 = HMAC(root key, header and first caveats)    t1 = HMAC(t0, added caveat)    …    tag = HMAC(t(n-1), added caveat)
//! ```
//!
//! A holder who adds a caveat needs only the token's tag; removing one would need the tag before it, which the
//! token no longer contains. The header states what was granted at minting (class and scopes). Caveats only
//! restrict it, and every one of them must be met.
//!
//! | you want | use |
//! |---|---|
//! | mint a token | [`Token::mint`] |
//! | attenuate one, without a key | [`Token::attenuate`] |
//! | identify the bearer before anything is spent on the request | [`authenticate`]: one HMAC and one per added caveat, one allocation |
//! | decide whether this request is covered | [`Bearer::authorize`] |
//! | both at once | [`verify`] |
//! | decide whether it may publish in a topic or subscribe to it | [`Bearer::authorize_topic`] |
//!
//! Nothing here reads a clock, a file or a random source: time, keys and ids are arguments.

mod caveat;
mod chain;
mod error;
mod id;
mod key;
mod names;
mod network;
mod nodes;
mod path;
mod revoked;
mod token;
mod verify;
mod wire;

pub use caveat::{CHANNEL_LEN, Caveat, Class};
pub use error::TokenError;
pub use id::{BadId, KeyId, TokenId};
pub use key::{KeyError, KeyRing, RingError, RootKey, SECRET_LEN, key_text};
pub use names::NameList;
pub use network::{Network, NetworkError, Networks};
pub use nodes::Nodes;
pub use revoked::{RevocationError, RevocationList};
pub use token::{Grant, Token};
pub use verify::{Bearer, NodeSession, Request, TopicRight, authenticate, verify};
pub use wire::{MAX_CAVEATS, MAX_TEXT};

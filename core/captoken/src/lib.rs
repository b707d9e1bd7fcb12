//! Capability tokens: who may do what, in a chain of HMACs that anybody can tighten and nobody can loosen.
//!
//! ```text
//! t0 = HMAC(root key, header and first caveats)    t1 = HMAC(t0, added caveat)    …    tag = HMAC(t(n-1), added caveat)
//! ```
//!
//! A holder who adds a caveat needs only the token's tag; to take one away would need the tag before it, which the token
//! no longer holds. The header names what was granted at minting (class and scopes); caveats only take away from it, and
//! every one of them must be satisfied.
//!
//! | you want | use |
//! |---|---|
//! | make a token | [`Token::mint`] |
//! | narrow one, without a key | [`Token::attenuate`] |
//! | tell who is asking, before anything is spent on them | [`authenticate`]: one HMAC and one per added caveat, one allocation |
//! | decide whether this request is covered | [`Bearer::authorize`] |
//! | both at once | [`verify`] |
//! | decide whether it may publish in a topic or subscribe to it | [`Bearer::authorize_topic`] |
//!
//! Nothing here reads a clock, a file or chance: time, keys and ids are arguments.

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

//! JSON Web Tokens: who signed a token, for whom, and on whose account it rides.
//!
//! ```text
//! request ─▶ peek (one digest, one lookup) ─▶ admission ─▶ verify (a signature check) ─▶ Claims
//!                                                              ▲
//!                    verifier_key_refresher ─▶ key set ────────┘
//! ```
//!
//! Only signatures of public keys count: RS256, PS256, ES256 and EdDSA. A shared secret or no signature at all is not
//! spoken here, so a public key can never be taken for a secret. Of several issuers, the one that a token names in `iss` has
//! to have signed it.

mod cache;
mod claim_rule;
mod error;
mod fetch;
mod keys;
mod policy;
mod refresher;
mod schedule;
mod settings;
mod source;
mod verifier;
mod wanted;

pub use claim_rule::ClaimRule;
pub use error::JwtError;
pub use fetch::FetchError;
pub use keys::{KeyError, KeySet};
pub use policy::{IssuerPolicy, Policy};
pub use refresher::{KeyRefresher, VERIFIER_KEY_REFRESHER};
pub use settings::{JwksSettings, SettingsError};
pub use source::{JwksSource, SourceError};
pub use verifier::{Claims, MAX_TOKEN_BYTES, Verifier};

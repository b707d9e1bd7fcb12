//! TLS for listeners and dialers: certificates, client authentication, live reload, hybrid
//! post-quantum key exchange, and raw public keys between nodes.
//!
//! | you want | use |
//! |---|---|
//! | serve with certificates | [`ServerTls::load`], then [`ServerTls::accept`] per connection |
//! | dial with certificates | [`ClientTls::load`], then [`ClientTls::connect`] |
//! | node to node, no certificates | [`raw_key::NodeKey`] with [`raw_key::RawServerTls`] and [`raw_key::RawClientTls`] |
//!
//! Everything that touches files is synchronous and named so: `load`, `reload`, `save`. Callers on a runtime
//! run those on its blocking pool. Handshakes are asynchronous and always carry a time limit.

pub mod certificate;
mod challenge;
mod client;
mod config;
pub(crate) mod der;
mod error;
mod identity;
mod pin;
mod provider;
mod raw_endpoint;
pub mod raw_key;
mod renewal_id;
mod resolver;
mod rule;
mod server;
pub mod settings;
mod stream;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use challenge::{ACME_TLS, AlpnChallenges};
pub use client::ClientTls;
pub use config::{
    ClientAuth, ClientTlsConfig, IdentityFiles, MinVersion, Pq, PqFallback, PqMode, Roots, ServerTlsConfig,
    SniIdentity,
};
pub use error::{HandshakeError, TlsError, TlsWarning};
pub use identity::{Inspected, inspect};
pub use pin::{Fingerprint, NoFingerprint};
pub use renewal_id::RenewalId;
pub use rule::{CertificateRule, RuleVerifier};
pub use server::{ServedCertificate, ServerTls};
pub use stream::TlsStream;

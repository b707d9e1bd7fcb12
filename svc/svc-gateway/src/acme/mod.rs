//! Certificates from a CA that speaks ACME (RFC 8555): obtained in the background, kept in the data folder, renewed ahead of
//! their end, and served at once.
//!
//! | file | what |
//! |---|---|
//! | `schedule` | when to ask: pure |
//! | `renewer`, `run`, `name` | the task that asks, and puts new certificates into force |
//! | `order` | one certificate: account, order, challenge, chain |
//! | `answers`, `hook` | what the CA finds when it checks a name: HTTP-01, TLS-ALPN-01; DNS-01 |
//! | `ca_client` | the HTTP of the ACME library, through our own client |
//! | `store` | the account's key and the certificates on disk |
//!
//! Serving never waits for a CA: a listener without a certificate for a name refuses the handshake with an alert.

mod answers;
mod ca_client;
mod hook;
mod metrics;
mod name;
mod order;
mod renewer;
mod run;
mod schedule;
mod settings;
mod store;
mod words;

pub(crate) use answers::Answers;
pub(crate) use metrics::{METRICS, publish};
pub use renewer::AcmeStatus;
pub(crate) use renewer::{ACME_RENEWER, Acme};
pub use settings::{AcmeError, AcmeSettings};

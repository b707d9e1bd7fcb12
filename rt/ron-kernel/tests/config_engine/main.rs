//! The configuration engine through its public surface, on small tables of its own.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod documents;
mod errors;
mod fixture;
mod layering;
mod secrets;
mod snapshots;
mod values;

//! The configuration engine through its public surface, on small tables of its own.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod checks;
mod documents;
mod fixture;
mod includes;
mod layering;
mod references;
mod registration;
mod secrets;
mod snapshots;
mod unknown_keys;
mod values;
mod wrong_values;

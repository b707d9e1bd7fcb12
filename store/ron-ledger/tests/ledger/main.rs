//! One suite for every store: in memory, in a file, and on PostgreSQL (feature `postgres`).

#![expect(clippy::disallowed_methods, reason = "tests start threads and write files")]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../support/mod.rs"]
#[macro_use]
mod support;

mod checkpoints;
mod copies;
mod crash;
mod crowd;
mod exports;
mod holds;
mod model;
mod posting;
#[cfg(feature = "postgres")]
mod protected;
mod tamper;

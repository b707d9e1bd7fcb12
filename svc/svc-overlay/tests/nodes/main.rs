//! Nodes that talk to each other over real sockets, in one process.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "tests have threads and sockets of their own")]

mod bad_input;
mod drain;
mod flow;
mod follower;
mod objects;
mod patterns;
mod proofs;
mod quic;
mod resume;
mod secure;
mod sessions;
mod shares;
mod shedding;
mod shown_tokens;
mod slow_reader;
mod support;
mod tokens;

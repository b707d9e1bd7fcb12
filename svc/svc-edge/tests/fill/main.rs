//! The fill against origins on real sockets: what it brings, what it keeps, what it refuses, and how it ends.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

mod abandoned;
mod faults;
mod flights;
mod memory;
mod policy;
mod support;
mod tls;

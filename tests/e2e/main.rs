//! End to end: the built program, real sockets, real signals.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests drive the program from outside and fail with the reason"
)]

mod clients;
mod docs;
mod drain;
mod metrics;
mod proxy;
mod refusals;
mod reload;
mod slow_clients;
mod support;
mod upgrade;

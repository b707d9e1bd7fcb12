//! A node as its operator meets it: started as a process, asked over its sockets, told with signals.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

mod access;
mod admin;
#[path = "../cli_run/mod.rs"]
mod cli_run;
mod http;
mod lifecycle;
mod manager;
mod node;
#[path = "../../../../tests/e2e/support/ports.rs"]
mod ports;
mod reload;
mod upgrade;

//! A node as its operator meets it: started as a process, asked over its sockets, told with signals.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

mod access;
mod admin;
mod basic_auth;
mod browser;
#[path = "../cli_run/mod.rs"]
mod cli_run;
mod compress;
mod forward_auth;
mod http;
mod lifecycle;
mod manager;
mod node;
mod pinned;
#[path = "../../../../tests/e2e/support/ports.rs"]
mod ports;
mod reload;
mod respond;
mod running;
mod site;
mod upgrade;

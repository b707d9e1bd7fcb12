//! One program for all of these tests: each more would be linked on its own.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests fail with the reason")]

mod auth;
mod chaos;
mod config;
mod gateway;
mod jwt;
mod jwt_keys;
#[path = "../jwt_support/mod.rs"]
mod jwt_support;
mod local;
mod messages;
mod objects;
mod smuggling;
#[path = "../support/mod.rs"]
mod support;
mod upstream;
mod upstream_config;
#[path = "../upstream_support/mod.rs"]
mod upstream_support;
mod views;

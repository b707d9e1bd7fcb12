//! A real edge on a real kernel, asked over real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

mod assets;
mod codings;
mod conditions;
#[path = "../../../../store/cas/tests/suite/support/damage.rs"]
mod damage;
mod damages;
mod fills;
mod ingress;
mod objects;
mod packs;
mod pages;
mod rot;
mod support;
mod tiles;

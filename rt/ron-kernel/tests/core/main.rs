//! The kernel under load, failure and shutdown, through its public surface only.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "tests own their tasks, files and processes")]

mod blocking;
mod chaos;
mod crew;
mod drain;
mod faults;
mod housekeeping;
mod locks;
mod modes;
mod queue;
mod readiness;
mod reload;
mod signals;
mod stuck;
mod supervisor;
mod support;
mod watcher;

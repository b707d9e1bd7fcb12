//! The rewarder in a process of its own making: real sockets, a real clock, a ledger in memory.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests drive the service from outside and fail with the reason"
)]

mod bad_input;
mod chaos;
mod clock;
mod excluded;
mod hung_ledger;
mod interface;
mod late_epochs;
mod ledger_trouble;
mod life;
mod lost_listing;
mod lost_rows;
mod parked;
mod policies;
mod pressure;
mod reconcile;
mod repair;
mod repair_documents;
mod repair_files;
mod repair_safety;
mod restored_store;
mod stage;
mod support;

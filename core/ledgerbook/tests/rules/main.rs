//! The rules of the ledger, through its books and audits.

#![expect(clippy::unwrap_used, reason = "tests")]

mod audit;
mod book;
mod exports;
mod properties;
mod support;

//! The rules of the double-entry ledger: what a batch may do, which rows are written for it, and how they are
//! hash-chained and audited.
//!
//! **Conservation.** Every entry takes from one account exactly what it gives to another of the same asset, so at every
//! moment, for every asset:
//!
//! ```text
//! Σ balances = 0        held ≥ 0        balance − held ≥ floor        (for every account with a floor)
//! ```
//!
//! [`Book`] decides: it gets the accounts that a group of batches touches, applies each [`Batch`] completely or not
//! at all, and ends as a [`Commit`]: numbered rows, and the [`Link`] that chains them to all earlier ones (Haber
//! and Stornetta 1991). [`Audit`] does the reverse: it reads the rows in order and reports every row that a book
//! would not have written. Stores only keep rows.
//!
//! Nothing here reads a clock, a file or a socket. Amounts are 128-bit integers, and every operation on them is
//! checked.

mod amount;
mod audit;
mod batch;
mod book;
mod chain;
mod checkpoint;
mod encode;
mod merkle;
mod names;
pub mod plain_text;
mod record;
mod refusal;
mod sequence;
mod state;
mod tail;

pub use amount::{Amount, InvalidAmount, parse_balance};
pub use audit::{Audit, Fault, Tally};
pub use batch::{Batch, Step, Terms, Transfer};
pub use book::{Book, Commit, Known};
pub use checkpoint::{Checkpoint, StateRoot};
pub use names::{AccountId, Asset, InvalidName, Key, Reference};
pub use record::{Account, Entry, EntryKind, Floor, Hash, Head, Hold, Link, Receipt, Request};
pub use refusal::Refusal;
pub use tail::TailAudit;

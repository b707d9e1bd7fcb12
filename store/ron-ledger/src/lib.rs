//! The ledger: accounts and transfers that are booked exactly once, chained, and kept in SQLite or PostgreSQL.
//!
//! A [`Batch`] of steps is posted under an idempotency key. Its rows, its key, the hash of its body and its result are
//! written in one transaction and kept forever: sent again, the batch has the result it had the first time; the same
//! key with another body is a conflict. So whoever does not know the outcome sends the batch again.
//!
//! The rules are those of [`ledgerbook`]; this crate keeps its rows. What is posted at the same time is committed in
//! one transaction under one link of the chain, and nobody is told before it is on the disk.
//!
//! Everything here blocks: call it from a thread that may.

mod backup;
mod combine;
mod copy;
mod desk;
mod error;
mod export;
mod ledger;
mod pages;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
mod sign;
mod sqlite;
mod verify;
mod waiting;

pub use backup::{backup, restore};
pub use error::{LedgerError, Op};
pub use export::export;
pub use ledger::{Ledger, Posted, Snapshot};
pub use ledgerbook::plain_text::{self, Dialect};
pub use ledgerbook::{
    Account, AccountId, Amount, Asset, Batch, Checkpoint, Entry, EntryKind, Fault, Floor, Hash, Hold,
    InvalidAmount, InvalidName, Key, Link, Receipt, Reference, Refusal, Request, Step, Tally, Terms,
    Transfer,
};
pub use place::{InvalidPlace, Place};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresAddressError, PostgresLedger, PostgresServer};
pub use sign::{NodeKey, Signer, checkpoint};
pub use sqlite::SqliteLedger;
pub use verify::{Scrutiny, verify};
pub use waiting::WaitingLedger;

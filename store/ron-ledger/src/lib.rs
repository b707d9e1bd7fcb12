//! The ledger: accounts and transfers that are posted exactly once, hash-chained, and stored in SQLite or
//! PostgreSQL.
//!
//! A [`Batch`] of steps is posted under an idempotency key. Its rows, its key, the hash of its body and its result
//! are written in one transaction and kept forever. Posting the batch again returns the first result; the same key
//! with another body is a conflict. So a caller that does not know the outcome posts the batch again.
//!
//! The rules are those of [`ledgerbook`]; this crate stores its rows. Batches that are posted at the same time are
//! committed in one transaction under one link of the chain, and no caller is answered before it is on disk.
//!
//! Everything here blocks: call it from a thread that may block.

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

/// Whether this program was built with the feature `postgres`.
pub const POSTGRES_AVAILABLE: bool = cfg!(feature = "postgres");

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

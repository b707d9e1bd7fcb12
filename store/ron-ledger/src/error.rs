//! What can go wrong, whose fault it is, and whether sending again helps.

use std::time::Duration;

use ledgerbook::{Fault, Key, Refusal};

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Opening the database or connecting to it.
    Open,
    /// Posting a batch.
    Post,
    /// Reading from the database.
    Read,
}

/// Why the ledger did not do it.
///
/// | variant | whose fault | outcome | send again? |
/// |---|---|---|---|
/// | `Refused` | the sender's, or the accounts lack funds | not posted, nothing stored | when the accounts changed |
/// | `Conflict` | the sender's: the key means something else | not posted | never |
/// | `Busy` | too much at once | not posted | later |
/// | `Timeout` | the server's or the disk's | unknown | yes, under the same key |
/// | `Unavailable` | the server's or the disk's | unknown | yes, under the same key |
/// | `Full` | the operator's | not posted | once there is room |
/// | `Damaged` | the disk's, or somebody's who wrote to it | not posted | never: restore a backup |
/// | `Version` | the operator's: written by a newer program | not posted | never |
/// | `BadSetup` | the operator's | not posted | never |
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The rules forbid it.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// The key was used for another body.
    #[error("the key {key} was used for another batch, request {request}")]
    Conflict {
        /// The idempotency key.
        key: Key,
        /// The request that has it.
        request: u64,
    },
    /// Too many are waiting, or somebody else holds the ledger.
    #[error("the ledger is busy")]
    Busy,
    /// It took too long. Whether it was done is not known.
    #[error("the ledger did not {op:?} in {after:?}")]
    Timeout {
        /// The operation that failed.
        op: Op,
        /// How long that was waited for.
        after: Duration,
    },
    /// The store cannot be reached or failed. Whether it was done is not known.
    #[error("the ledger cannot be reached: {0}")]
    Unavailable(String),
    /// There is no room on the disk.
    #[error("there is no room for the ledger: {0}")]
    Full(String),
    /// What is stored is not what was written.
    #[error("the ledger is damaged: {0}")]
    Damaged(#[from] Fault),
    /// Written by a newer program, or not a ledger.
    #[error("the ledger has version {found}, and this program knows up to {known}")]
    Version {
        /// The schema version that was found.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// The ledger cannot be used as it is set up.
    #[error("{0}")]
    BadSetup(String),
}

impl LedgerError {
    /// Whether the same batch, sent again under the same key, may be posted without anybody changing anything.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Busy | Self::Timeout { .. } | Self::Unavailable(_) | Self::Full(_))
    }

    /// Whether it is not known if the batch was posted.
    #[must_use]
    pub const fn outcome_is_unknown(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Unavailable(_))
    }

    /// One word for it, for metrics, logs and machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Conflict { .. } => "conflict",
            Self::Busy => "busy",
            Self::Timeout { .. } => "timeout",
            Self::Unavailable(_) => "unavailable",
            Self::Full(_) => "full",
            Self::Damaged(_) => "damaged",
            Self::Version { .. } => "version",
            Self::BadSetup(_) => "bad_setup",
        }
    }
}

//! Why a batch is not posted. A refused batch leaves nothing behind, and its key stays free.

use crate::{AccountId, Amount};

/// Why a batch is refused: the batch, or the accounts that it names, must change before it can be posted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is nothing to do.
    #[error("the batch is empty")]
    Empty,
    /// More than is done at once.
    #[error("the batch has more than {max} steps", max = crate::Batch::MAX_STEPS)]
    TooManySteps,
    /// Nobody's calendar goes that far.
    #[error("the time is after the year 9999")]
    BadTime,
    /// The amount is zero.
    #[error("an amount is zero")]
    ZeroAmount,
    /// Both accounts are the same.
    #[error("{0} would pay itself")]
    SameAccount(AccountId),
    /// The account does not exist.
    #[error("there is no account {0}")]
    UnknownAccount(AccountId),
    /// It was opened before, on other terms.
    #[error("the account {0} is open on other terms")]
    OtherTerms(AccountId),
    /// The accounts count different things.
    #[error("{from} and {to} do not count the same asset")]
    AssetMismatch {
        /// The account that would pay.
        from: AccountId,
        /// The account that would be paid.
        to: AccountId,
    },
    /// The account would fall below its floor.
    #[error("{account} cannot spend {asked}: {available} is available")]
    Insufficient {
        /// The account that would pay.
        account: AccountId,
        /// The requested amount.
        asked: Amount,
        /// What it could pay; negative where the floor is already passed.
        available: i128,
    },
    /// The balance would not fit 128 bits.
    #[error("the balance of {0} would become too large")]
    Overflow(AccountId),
    /// No entry of this number holds anything.
    #[error("entry {0} is no hold")]
    UnknownHold(u64),
    /// It was settled or voided before.
    #[error("the hold of entry {0} is closed")]
    HoldClosed(u64),
}

impl Refusal {
    /// One word for it, for metrics, logs and machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooManySteps => "too_many_steps",
            Self::BadTime => "bad_time",
            Self::ZeroAmount => "zero_amount",
            Self::SameAccount(_) => "same_account",
            Self::UnknownAccount(_) => "unknown_account",
            Self::OtherTerms(_) => "other_terms",
            Self::AssetMismatch { .. } => "asset_mismatch",
            Self::Insufficient { .. } => "insufficient",
            Self::Overflow(_) => "overflow",
            Self::UnknownHold(_) => "unknown_hold",
            Self::HoldClosed(_) => "hold_closed",
        }
    }
}

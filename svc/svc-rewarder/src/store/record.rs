//! An epoch as the store has it.

use std::fmt;

use super::database::{Columns, StoreError, Value};

/// Where an epoch is on its way.
///
/// ```text
/// sealed ─▶ computing ─▶ computed ─▶ emitting ─▶ settled
///    └──────────┴────────────┴───────────┴─────▶ quarantined
/// ```
///
/// A settled epoch is emitting again if the ledger has lost batches of it and somebody asks for them.
///
/// Each arrow is one conditional update of one row, so of two that try the same one, one does and the other is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Its inputs and its policy are closed for good.
    Sealed,
    /// Somebody works out who is paid what.
    Computing,
    /// That is known, written down and committed to. It stays here while the pool is not funded.
    Computed,
    /// Batches are being transferred.
    Emitting,
    /// Every batch is in the ledger.
    Settled,
    /// Something does not add up; nothing more is paid until a person has looked.
    Quarantined,
}

impl State {
    /// Every state, in the order in which an epoch passes them.
    pub const ALL: [Self; 6] =
        [Self::Sealed, Self::Computing, Self::Computed, Self::Emitting, Self::Settled, Self::Quarantined];

    /// Its name in the store, in the API and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::Computing => "computing",
            Self::Computed => "computed",
            Self::Emitting => "emitting",
            Self::Settled => "settled",
            Self::Quarantined => "quarantined",
        }
    }

    /// Returns true if the state is final.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Settled | Self::Quarantined)
    }

    /// Whether it is known who is paid what.
    #[must_use]
    pub const fn has_run(self) -> bool {
        matches!(self, Self::Computed | Self::Emitting | Self::Settled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the store knows of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of the epoch.
    pub epoch: u64,
    /// The state of the epoch.
    pub state: State,
    /// Why it is quarantined, or what it waits for.
    pub reason: Option<String>,
    /// The digest of the closed list of snapshots.
    pub inputs: String,
    /// The digest of the policy.
    pub policy: String,
    /// What the run is made of.
    pub run_key: Option<String>,
    /// What anybody can hold the run to.
    pub commitment: Option<String>,
    /// Batches of transfers in all; zero until that is known.
    pub batches: u64,
    /// Batches that are in the ledger, from the first on.
    pub posted: u64,
    /// When its files were let go, in seconds since 1970; `None` while they are kept.
    pub retired_at: Option<u64>,
}

/// The columns of a record, in the order in which they are read.
pub(super) const COLUMNS: &str =
    "epoch, state, reason, inputs, policy, run_key, commitment, batches, posted, retired_at";

impl Record {
    /// Whether there is a bundle of it, here or elsewhere.
    pub(crate) fn has_files(&self) -> bool {
        self.state.has_run() && self.retired_at.is_none()
    }

    pub(super) fn read(columns: Columns) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("an epoch's row has other columns than it should".to_owned());
        let columns: [Value; 10] = columns.try_into().map_err(|_| damaged())?;
        let [epoch, state, reason, inputs, policy, run_key, commitment, batches, posted, retired_at] =
            columns;
        let state = text(state)?;
        let found = State::ALL.into_iter().find(|known| known.as_str() == state);
        Ok(Self {
            epoch: count(&epoch)?,
            state: found.ok_or_else(|| StoreError::Damaged(format!("`{state}` is no state")))?,
            reason: maybe_text(reason)?,
            inputs: text(inputs)?,
            policy: text(policy)?,
            run_key: maybe_text(run_key)?,
            commitment: maybe_text(commitment)?,
            batches: count(&batches)?,
            posted: count(&posted)?,
            retired_at: if retired_at == Value::Null { None } else { Some(count(&retired_at)?) },
        })
    }
}

pub(super) fn text(value: Value) -> Result<String, StoreError> {
    maybe_text(value)?.ok_or_else(|| StoreError::Damaged("a text is missing".to_owned()))
}

fn maybe_text(value: Value) -> Result<Option<String>, StoreError> {
    match value {
        Value::Null => Ok(None),
        Value::Text(text) => Ok(Some(text)),
        _ => Err(StoreError::Damaged("something else where a text should be".to_owned())),
    }
}

pub(super) fn count(value: &Value) -> Result<u64, StoreError> {
    match value {
        Value::Int(number) => {
            u64::try_from(*number).map_err(|_| StoreError::Damaged("a negative count".to_owned()))
        }
        _ => Err(StoreError::Damaged("something else where a number should be".to_owned())),
    }
}

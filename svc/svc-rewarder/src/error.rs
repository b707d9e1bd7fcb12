//! What can go wrong, in one list: each with its answer to the caller and whether to try again.
//!
//! | error | answer | again? | counted in |
//! |---|---|---|---|
//! | `Busy` | 429 `busy` | yes | `busy_rejections_total`, `queue_dropped_total` |
//! | `Timeout` | 504 `downstream_timeout` | yes | `io_timeouts_total{op}` |
//! | `Canceled` | 503 `draining` | elsewhere | `tasks_canceled_total{kind}` |
//! | `Lagging` | 500 `internal` | no | `bus_lagged_total{bus}` |
//! | `Quarantine` | 409 `conflict` | no | `quarantine_total{epoch}` |
//! | `OtherInputs` | 409 `conflict` | no | `rejected_total{reason}` |
//! | `NotOver`, `NoPolicy` | 409 `conflict` | later | `rejected_total{reason}` |
//! | `Waits` | 409 `conflict` | later | `rejected_total{reason}` |
//! | `Order` | 409 `conflict` | no | `rejected_total{reason}` |
//! | `Malformed` | 400 `malformed` | no | `rejected_total{reason}` |
//! | `Untrusted` | 403 `forbidden` | no | `rejected_total{reason}` |
//! | `Unknown` | 404 `not_found` | no | `rejected_total{reason}` |
//! | `Retired` | 410 `gone` | elsewhere | `rejected_total{reason}` |
//! | `Policy` | 400, 403, 409 or 415 | no | `rejected_total{reason}` |
//! | `Snapshot` | 400 or 403 | no | `rejected_total{reason}` |
//! | `Ledger` | 503 `degraded` | yes | `readyz_degraded{cause="ledger"}` |
//! | `Store` | 503 `degraded`, 500 if it is damaged | yes | `readyz_degraded{cause="epoch_store"}` |

use std::time::Duration;

use rewards::PolicyError;
use ron_accounting::SnapshotError;
use ron_kernel::{Fault, blocking::BlockingError, retry::Retryable};
use types::{Reason, Refusal};

use crate::store::StoreError;

/// When to come back after a fault that passes by itself.
const COME_BACK: Duration = Duration::from_secs(1);

/// Why the rewarder did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum RewarderError {
    /// A queue or a pool is full, a call took too long, the node stops, …
    #[error(transparent)]
    Kernel(#[from] Fault),
    /// The epoch is set aside until a person has looked.
    #[error("epoch {epoch} is quarantined: {reason}")]
    Quarantine {
        /// The number of the epoch.
        epoch: u64,
        /// The reason why it is quarantined.
        reason: String,
    },
    /// The epoch is closed, or would be closed now, with other inputs or another policy than the caller names. Nothing
    /// was changed.
    #[error("epoch {epoch} has {closed}, not {asked}")]
    OtherInputs {
        /// The number of the epoch.
        epoch: u64,
        /// The digest that the epoch was closed with.
        closed: String,
        /// The digest that the caller asked for.
        asked: String,
    },
    /// The epoch's inputs are not closed yet.
    #[error("the inputs of epoch {epoch} close in {closes_in:?}")]
    NotOver {
        /// The number of the epoch.
        epoch: u64,
        /// The time until the epoch is closed.
        closes_in: Duration,
    },
    /// The epoch takes over what an epoch before it carries on, and that one is not computed yet.
    #[error("epoch {0} waits for an earlier epoch")]
    Waits(u64),
    /// A correction, a registry or an order that cannot be carried out as things are.
    #[error("{0}")]
    Order(String),
    /// A document that cannot be read or makes no sense.
    #[error("the document: {0}")]
    Malformed(String),
    /// A document whose signatures do not count.
    #[error("the document: {0}")]
    Untrusted(rewards::SignatureError),
    /// There is nothing of this name.
    #[error("there is no such {0} here")]
    Unknown(&'static str),
    /// The epoch's files were let go.
    #[error("the files of epoch {epoch} were retired{}; its commitment is {commitment}", archived(.archive))]
    Retired {
        /// The number of the epoch.
        epoch: u64,
        /// What a copy of them can be held to.
        commitment: String,
        /// Where copies are kept; `None` if nobody says so.
        archive: Option<String>,
    },
    /// No policy to pay by.
    #[error("there is no policy `{0}` for this epoch: upload one with PUT /rewarder/policy/{0}")]
    NoPolicy(String),
    /// A policy that cannot be used.
    #[error("the policy: {0}")]
    Policy(#[from] PolicyError),
    /// A snapshot that cannot be used.
    #[error("the snapshot: {0}")]
    Snapshot(#[from] SnapshotError),
    /// The epoch store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger does not answer.
    #[error("the ledger: {0}")]
    Ledger(String),
    /// Something that belongs to the epoch cannot be read or written.
    #[error("{0}")]
    Files(String),
}

/// Where retired files went, for a sentence.
fn archived(archive: &Option<String>) -> String {
    match archive {
        Some(place) => format!(": they are kept at {place}"),
        None => " here, and this node does not know who keeps a copy".to_owned(),
    }
}

impl RewarderError {
    /// Returns the reason that a client is given.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Kernel(fault) => fault.reason(),
            Self::Quarantine { .. }
            | Self::OtherInputs { .. }
            | Self::NotOver { .. }
            | Self::NoPolicy(_)
            | Self::Waits(_)
            | Self::Order(_) => Reason::Conflict,
            Self::Malformed(_) => Reason::Malformed,
            Self::Untrusted(_) => Reason::Forbidden,
            Self::Unknown(_) => Reason::NotFound,
            Self::Policy(error) => match error {
                PolicyError::Unsigned | PolicyError::Untrusted | PolicyError::Forged(_) => Reason::Forbidden,
                PolicyError::Stale(_) | PolicyError::Superseded(_) => Reason::Conflict,
                PolicyError::UnknownRuleset(_) => Reason::Unsupported,
                PolicyError::Document(_) | PolicyError::Senseless(_) => Reason::Malformed,
            },
            Self::Snapshot(error) => match error {
                SnapshotError::UnknownNode(_) | SnapshotError::OtherKey(_) | SnapshotError::BadSignature => {
                    Reason::Forbidden
                }
                _ => Reason::Malformed,
            },
            Self::Store(StoreError::Unavailable(_) | StoreError::Denied(_)) | Self::Ledger(_) => {
                Reason::Degraded
            }
            Self::Retired { .. } => Reason::Gone,
            Self::Store(_) | Self::Files(_) => Reason::Internal,
        }
    }
}

impl Retryable for RewarderError {
    fn retryable(&self) -> bool {
        match self {
            Self::Kernel(fault) => fault.retryable(),
            Self::Store(StoreError::Unavailable(_)) => true,
            _ => false,
        }
    }
}

impl From<BlockingError> for RewarderError {
    fn from(error: BlockingError) -> Self {
        Self::Kernel(error.into())
    }
}

impl From<RewarderError> for Refusal {
    fn from(error: RewarderError) -> Self {
        let reason = error.reason();
        match error {
            RewarderError::Kernel(fault) => fault.into(),
            RewarderError::NotOver { closes_in, .. } => {
                Self::new(reason, error.to_string()).retry_after(closes_in)
            }
            RewarderError::Store(StoreError::Unavailable(_) | StoreError::Denied(_)) => {
                Self::new(reason, "the epoch store does not answer").retry_after(COME_BACK)
            }
            RewarderError::Ledger(_) => {
                Self::new(reason, "the ledger does not answer").retry_after(COME_BACK)
            }
            // What a database or a disk says may name paths and servers; it is in the log.
            RewarderError::Store(_) | RewarderError::Files(_) => reason.into(),
            _ => Self::new(reason, error.to_string()),
        }
    }
}

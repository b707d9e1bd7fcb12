//! Why an epoch is not paid: each reason has a type, a code for machines and a sentence for people.

use types::ActorId;

use crate::{Amount, DocumentError, Epoch, Json, PolicyError, RowFault, json::Int, json::fields::Fields};

/// The epoch must not be paid as it stands. No intent follows from a quarantined epoch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Quarantine {
    /// The policy cannot be used.
    #[error("the policy: {0}")]
    Policy(#[from] PolicyError),
    /// A snapshot of a node whose snapshots do not count.
    #[error("snapshots of {0} do not count here")]
    UnknownNode(ActorId),
    /// Two snapshots of one node.
    #[error("{0} gave two snapshots")]
    SnapshotTwice(ActorId),
    /// A snapshot of another epoch.
    #[error("{node} gave a snapshot of epoch {epoch}")]
    WrongEpoch {
        /// The node that sealed the snapshot.
        node: ActorId,
        /// The epoch in the snapshot.
        epoch: Epoch,
    },
    /// A snapshot whose seal is not its node's.
    #[error("the seal of {0}'s snapshot is not good")]
    BadSeal(ActorId),
    /// A row that cannot be.
    #[error("row {row} of {node}'s snapshot: {fault}")]
    Row {
        /// The node that sealed the snapshot.
        node: ActorId,
        /// Index of the row, counted from zero.
        row: u64,
        /// What is wrong with the row.
        fault: RowFault,
    },
    /// The rows are not those the snapshot is named by.
    #[error("the rows of {0}'s snapshot are not the sealed ones")]
    RowsDiffer(ActorId),
    /// More than the limits allow.
    #[error("more {0} than the limit allows")]
    TooMany(&'static str),
    /// A sum that 128 bits do not hold.
    #[error("{0} overflow")]
    Overflow(&'static str),
    /// What is taken over from before does not fit.
    #[error("what is taken over from before: {0}")]
    Brought(&'static str),
    /// The sums do not close. This is a fault of this program.
    #[error("{paid} paid and {residual} left do not make a pool of {pool}")]
    Conservation {
        /// The amount to distribute.
        pool: Amount,
        /// The sum of the computed payouts.
        paid: Amount,
        /// The computed residual.
        residual: Amount,
    },
}

impl Quarantine {
    /// The reason as one word, for metrics and interfaces.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Policy(error) => error.code(),
            Self::UnknownNode(_) => "unknown_node",
            Self::SnapshotTwice(_) => "snapshot_twice",
            Self::WrongEpoch { .. } => "wrong_epoch",
            Self::BadSeal(_) => "bad_seal",
            Self::Row { fault, .. } => fault.code(),
            Self::RowsDiffer(_) => "rows_differ",
            Self::TooMany(_) => "too_many",
            Self::Overflow(_) => "overflow",
            Self::Brought(_) => "brought",
            Self::Conservation { .. } => "conservation",
        }
    }

    /// The document that says so, of an epoch of which nothing was paid.
    #[must_use]
    pub fn notice(&self, epoch: Epoch) -> QuarantineNotice {
        let (reason, detail) = (self.code().to_owned(), self.to_string());
        QuarantineNotice { epoch, intents: Int::from(0), reason, detail }
    }
}

/// `quarantine.json`: an epoch is set aside, and nothing more of it is paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineNotice {
    /// The quarantined epoch.
    pub epoch: Epoch,
    /// How many intents were posted before; none if it was set aside before it was computed.
    pub intents: Int,
    /// The reason as one word.
    pub reason: String,
    /// A sentence for people.
    pub detail: String,
}

impl QuarantineNotice {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-quarantine/1";

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Json::map([
            ("detail", Json::text(&self.detail)),
            ("epoch", Json::Int(self.epoch.int())),
            ("format", Json::text(Self::FORMAT)),
            ("intents", Json::Int(self.intents)),
            ("reason", Json::text(&self.reason)),
        ])
        .to_canonical()
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or lacks something.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(Json::read_canonical(bytes)?, Self::FORMAT)?;
        let text = |text: &str| Ok::<_, ()>(text.to_owned());
        let notice = Self {
            epoch: fields.int("epoch")?.into(),
            intents: fields.int("intents")?,
            reason: fields.text("reason", text)?,
            detail: fields.text("detail", text)?,
        };
        fields.end()?;
        Ok(notice)
    }
}

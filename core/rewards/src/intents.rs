//! What is to be transferred, cut into batches whose keys make paying twice a conflict.

use types::ActorId;

use crate::{Amount, Digest, Epoch, Int, Json, Manifest};

/// Money for one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The actor whose payout it is; `None` for the residual. It is no part of the body.
    pub actor: Option<ActorId>,
    /// The receiver: the actor, or its payee.
    pub to: ActorId,
    /// The amount, greater than zero.
    pub amount: Amount,
}

/// A batch of transfers that is done as a whole or not at all.
///
/// The key names the epoch and the batch, and not the run. So a second run of an epoch meets the first one's keys with
/// another body, and the ledger refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The epoch of the batch.
    pub epoch: Epoch,
    /// Number of the batch, counted from zero.
    pub batch: Int,
    /// How many batches the run has.
    pub batches: Int,
    /// The key of the run that the batch belongs to.
    pub run_key: Digest,
    /// The transfers, at most [`Ruleset::batch_size`](crate::Ruleset::batch_size) of them.
    pub transfers: Vec<Transfer>,
}

impl Intent {
    /// The `format` of the body.
    pub const FORMAT: &str = "omnigate-intent/1";

    /// The idempotency key: `reward/{epoch}/{batch}`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("reward/{}/{}", self.epoch, self.batch.get())
    }

    /// What the transfers add up to.
    #[must_use]
    pub fn sum(&self) -> Amount {
        let add = |sum: Amount, transfer: &Transfer| sum.checked_add(transfer.amount);
        self.transfers.iter().try_fold(Amount::ZERO, add).expect("parts of one pool")
    }

    /// The body, in canonical JSON: what the ledger remembers the key with.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let transfer = |transfer: &Transfer| {
            Json::map([("amount", Json::text(transfer.amount)), ("to", Json::text(&transfer.to))])
        };
        Json::map([
            ("batch", Json::Int(self.batch)),
            ("batches", Json::Int(self.batches)),
            ("epoch", Json::Int(self.epoch.int())),
            ("format", Json::text(Self::FORMAT)),
            ("run_key", Json::text(self.run_key)),
            ("transfers", Json::List(self.transfers.iter().map(transfer).collect())),
        ])
        .to_canonical()
    }
}

/// The idempotency key under which the ledger keeps which run follows another in the chain of a policy:
/// `reward/chain/` and the commitment of the run before, or the policy's id for the first run. A policy's id has no colon
/// and a commitment has one, so that the two are different.
///
/// The key does not name the run that follows. So a second run that takes over the same amounts meets the key with
/// another body, and the ledger refuses it, whatever their epochs are.
#[must_use]
pub fn chain_key(policy: &str, previous: Option<&str>) -> String {
    format!("reward/chain/{}", previous.unwrap_or(policy))
}

/// Cuts the transfers of a run into its batches.
pub(crate) fn batches(
    manifest: &Manifest,
    transfers: impl Iterator<Item = (Option<String>, String, Amount)>,
) -> impl Iterator<Item = Intent> {
    let (epoch, run_key, batches) = (manifest.epoch, manifest.run_key, manifest.batches);
    let size = manifest.ruleset.batch_size();
    let checked = |name: &str| ActorId::new(name).expect("actors were checked when they were taken in");
    let mut transfers = transfers.map(move |(actor, to, amount)| Transfer {
        actor: actor.as_deref().map(checked),
        to: checked(&to),
        amount,
    });
    (0..batches.get()).map(move |batch| Intent {
        epoch,
        batch: Int::new(batch).expect("below the number of batches"),
        batches,
        run_key,
        transfers: transfers.by_ref().take(size).collect(),
    })
}

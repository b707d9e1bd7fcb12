//! What is asked of the ledger: steps that are done together, once, under a key.

use std::sync::Arc;

use crate::{
    AccountId, Amount, Asset, Floor, Hash, Key, Reference, Refusal,
    chain::put_transfer,
    encode::{Encoder, Tag},
};

/// From whom, to whom, how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The account that pays.
    pub from: AccountId,
    /// The account that is paid.
    pub to: AccountId,
    /// The amount, greater than zero.
    pub amount: Amount,
}

/// The terms an account is opened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The name of the account.
    pub account: AccountId,
    /// The asset that the account holds.
    pub asset: Asset,
    /// How far below zero it may go.
    pub floor: Floor,
}

/// One step of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open an account. One that is open on the same terms is left as it is.
    Open(Terms),
    /// Move an amount now.
    Transfer(Transfer),
    /// Promise an amount: it is taken from what the sender can spend, and moves when the hold is settled.
    Hold(Transfer),
    /// Keep the promise of the entry of this number, made by an earlier batch.
    Settle(u64),
    /// Give up the promise of the entry of this number, made by an earlier batch.
    Void(u64),
}

/// Steps that are done all or none, exactly once however often they are sent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Batch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    key: Key,
    reference: Reference,
    at: u64,
    open_receivers: bool,
    steps: Vec<Step>,
    body: Hash,
}

impl Batch {
    /// The most steps of one batch.
    pub const MAX_STEPS: usize = 10_000;
    /// The first second of the year 10000.
    pub(crate) const END_OF_TIME: u64 = 253_402_300_800;

    /// A batch under an idempotency key.
    ///
    /// `reference` and `steps` are its body: sent again with the same body it has the same result, with another it is
    /// a conflict. `at` is the time it is booked at, in seconds of Unix time, and no part of the body: whoever sends a
    /// batch again does so later.
    ///
    /// # Errors
    /// A [`Refusal`] if it is empty or too long, or a step could not be done by any ledger.
    pub fn new(key: Key, reference: Reference, at: u64, steps: Vec<Step>) -> Result<Self, Refusal> {
        Self::build(key, reference, at, steps, false)
    }

    /// The same, with accounts opened for receivers that have none: in the sender's asset, without overdraft.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn opening_receivers(
        key: Key,
        reference: Reference,
        at: u64,
        steps: Vec<Step>,
    ) -> Result<Self, Refusal> {
        Self::build(key, reference, at, steps, true)
    }

    fn build(
        key: Key,
        reference: Reference,
        at: u64,
        steps: Vec<Step>,
        open_receivers: bool,
    ) -> Result<Self, Refusal> {
        match steps.len() {
            0 => return Err(Refusal::Empty),
            1..=Self::MAX_STEPS => {}
            _ => return Err(Refusal::TooManySteps),
        }
        if at >= Self::END_OF_TIME {
            return Err(Refusal::BadTime);
        }
        steps.iter().try_for_each(check_step)?;
        let body = body_hash(&reference, open_receivers, &steps);
        Ok(Self(Arc::new(Inner { key, reference, at, open_receivers, steps, body })))
    }

    /// Returns the idempotency key of the batch.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// Returns the reference, such as the purpose of the batch.
    #[must_use]
    pub fn reference(&self) -> &Reference {
        &self.0.reference
    }

    /// When, in seconds of Unix time.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.0.at
    }

    /// Whether accounts are opened for receivers that have none.
    #[must_use]
    pub fn opens_receivers(&self) -> bool {
        self.0.open_receivers
    }

    /// Returns the steps in their order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0.steps
    }

    /// The hash of its body.
    #[must_use]
    pub fn body(&self) -> &Hash {
        &self.0.body
    }
}

/// Rejects a step that no ledger could carry out.
fn check_step(step: &Step) -> Result<(), Refusal> {
    match step {
        Step::Transfer(transfer) | Step::Hold(transfer) if transfer.amount.is_zero() => {
            Err(Refusal::ZeroAmount)
        }
        Step::Transfer(transfer) | Step::Hold(transfer) if transfer.from == transfer.to => {
            Err(Refusal::SameAccount(transfer.from.clone()))
        }
        _ => Ok(()),
    }
}

fn body_hash(reference: &Reference, open_receivers: bool, steps: &[Step]) -> Hash {
    let mut encoder = Encoder::new();
    encoder.begin(Tag::Body).text(reference.as_str()).byte(open_receivers.into()).number(steps.len() as u64);
    for step in steps {
        match step {
            Step::Open(terms) => {
                encoder.byte(0).text(terms.account.as_str()).text(terms.asset.as_str()).floor(terms.floor);
            }
            Step::Transfer(transfer) => put_transfer(encoder.byte(1), transfer),
            Step::Hold(transfer) => put_transfer(encoder.byte(2), transfer),
            Step::Settle(hold) => {
                encoder.byte(3).number(*hold);
            }
            Step::Void(hold) => {
                encoder.byte(4).number(*hold);
            }
        }
    }
    encoder.finish()
}

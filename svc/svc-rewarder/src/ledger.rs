//! The ledger as the rewarder uses it: batches under their keys, and what each answer means for the epoch.

use std::sync::Arc;

use rewards::Sign;
use ron_accounting::SigningKey;
use ron_kernel::breaker::{Admit, Outcome as Called};
use ron_ledger::{AccountId, Batch, Ledger, LedgerError, Posted, Refusal, Signer};

use crate::{RewarderError, shared::Shared};

/// Why a batch is not in the ledger.
#[derive(Debug)]
pub(crate) enum NotPaid {
    /// The pool's account has not enough, or is not there: somebody has to fund it.
    Unfunded(String),
    /// The ledger does not answer, is full or is damaged. Whether the batch is in it is not known; it is sent again.
    Outage(String),
    /// One receiver cannot be paid: its account counts something else, is full, or is the pool's own.
    Receiver {
        /// The account of the receiver.
        account: AccountId,
        /// The reason, as one word.
        code: &'static str,
        /// The reason, as a sentence.
        why: String,
    },
    /// The ledger will never take it.
    Never(&'static str, String),
}

impl NotPaid {
    /// Returns the reason as a sentence.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Unfunded(why) | Self::Outage(why) | Self::Never(_, why) | Self::Receiver { why, .. } => why,
        }
    }
}

/// What the pool's account can pay, without end if it has no floor; `None` if there is no such account.
pub(crate) async fn available(shared: &Shared) -> Result<Option<i128>, NotPaid> {
    let pool = shared.settings.load().pool_account.clone();
    let id = AccountId::new(&pool).map_err(|error| NotPaid::Never("account_malformed", error.to_string()))?;
    let account = call(shared, "ask the ledger", move |ledger| ledger.account(&id)).await?;
    Ok(account.map(|account| account.available().unwrap_or(i128::MAX)))
}

/// Has a batch posted, as often as it takes to know the outcome, within the tries of one call.
pub(crate) async fn post(shared: &Shared, batch: Batch) -> Result<Posted, NotPaid> {
    call(shared, "post a batch", move |ledger| ledger.post(&batch)).await
}

/// This node's key, as the ledger asks for it.
struct NodeSigner(SigningKey);

impl Signer for NodeSigner {
    fn public_key(&self) -> [u8; 32] {
        *self.0.public_key().as_bytes()
    }

    fn sign(&self, payload: &[u8]) -> [u8; 64] {
        *self.0.sign(payload).as_bytes()
    }
}

/// Checks what was booked since this node last did so, and signs what the ledger says, if this node's word counts. What
/// is not signed now is with the next time.
///
/// Cancel safe: a signature is kept whole or not at all, and twice is once.
pub(crate) async fn sign(shared: &Shared) {
    if !shared.signs_checkpoints {
        return;
    }
    let (ledger, signer) = (Arc::clone(&shared.ledger), NodeSigner(shared.key.clone()));
    // Not bounded by the time of a call: all accounts are looked at, and the first time everything is.
    let checked = move || ron_ledger::checkpoint(&*ledger, &signer);
    match shared.call_ledger("sign the ledger", checked).await {
        Ok(Ok(Some(signed))) => {
            tracing::debug!(link = signed.link.number, "the ledger is checked and signed");
        }
        Ok(Ok(None)) => {}
        Ok(Err(error)) if error.is_transient() => tracing::warn!(%error, "the ledger could not be signed"),
        Ok(Err(error)) => {
            tracing::error!(%error, "the ledger is not signed");
            outage(shared, error.to_string());
        }
        Err(error) => tracing::warn!(%error, "the ledger could not be signed"),
    }
}

/// Calls the ledger, unless the breaker says to leave it alone.
pub(crate) async fn call<T: Send + 'static>(
    shared: &Shared,
    job: &'static str,
    work: impl Fn(&dyn Ledger) -> Result<T, LedgerError> + Clone + Send + 'static,
) -> Result<T, NotPaid> {
    let ticket = match shared.breaker.check(shared.clock.now()) {
        Admit::Pass(ticket) | Admit::Probe(ticket) => ticket,
        Admit::Open { .. } => {
            return Err(NotPaid::Outage("it failed again and again, and is left alone".to_owned()));
        }
    };
    let ledger = Arc::clone(&shared.ledger);
    // An answer that is no outage ends the tries, whatever it says.
    let once = move || match work(&*ledger) {
        Err(error) if error.is_transient() => {
            Err(RewarderError::Store(crate::store::StoreError::Unavailable(error.to_string())))
        }
        answered => Ok(answered),
    };
    let asked = shared.ask_ledger(job, once).await;
    let works = matches!(&asked, Ok(Ok(_) | Err(LedgerError::Refused(_) | LedgerError::Conflict { .. })));
    let called = if works { Called::Success } else { Called::Failure };
    shared.breaker.record(ticket, called, shared.clock.now());
    match asked {
        Err(error) => Err(outage(shared, error.to_string())),
        Ok(Err(error)) => Err(refused(shared, &error)),
        Ok(Ok(done)) => {
            shared.conditions.ledger.clear();
            Ok(done)
        }
    }
}

fn refused(shared: &Shared, error: &LedgerError) -> NotPaid {
    match error {
        LedgerError::Refused(refusal @ (Refusal::Insufficient { .. } | Refusal::UnknownAccount(_))) => {
            NotPaid::Unfunded(refusal.to_string())
        }
        LedgerError::Refused(
            refusal @ (Refusal::AssetMismatch { to: account, .. } | Refusal::Overflow(account)),
        ) => NotPaid::Receiver { account: account.clone(), code: refusal.code(), why: refusal.to_string() },
        LedgerError::Refused(_) | LedgerError::Conflict { .. } => {
            NotPaid::Never(error.code(), error.to_string())
        }
        // A ledger that is damaged or set up wrongly says nothing about the epoch: it waits for the repair.
        _ => outage(shared, error.to_string()),
    }
}

fn outage(shared: &Shared, why: String) -> NotPaid {
    shared.conditions.ledger.raise(why.clone());
    NotPaid::Outage(why)
}

//! One intent in the ledger: a batch under its key, with a payout whose receiver cannot be paid kept in an account of its own.
//!
//! A receiver whose account counts something else, or is full, must not keep a thousand others from being paid. Its payout
//! is *parked*: it goes to `parked/` and the receiver's name, in the same batch, so that the sums close and the key is used
//! once. If that account cannot take it either, as after the pool has changed its asset, it goes to an account that is named
//! after the pool's asset too. Whoever releases it moves it on, by a transfer of the ledger. Which payouts are parked is decided when a batch is
//! posted and stands in the ledger alone: a process that finds other decisions than its own under the key takes them over.

use std::collections::BTreeMap;

use rewards::{Intent, ParkedPayout, ParkedPayouts, Run, bundle};
use ron_ledger::{
    AccountId, Amount, Asset, Batch, EntryKind, Key, Ledger, LedgerError, Reference, Refusal, Step, Transfer,
};

use crate::{
    RewarderError, crash,
    ledger::{self, NotPaid},
    shared::Shared,
};

/// The transfers of an intent that are parked, by their place in it, each with its reason.
pub(crate) type Parked = BTreeMap<usize, Why>;

/// The reason why a payout is parked.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    code: &'static str,
    detail: String,
    /// The account in which the payout is kept.
    account: String,
}

/// What a ledger has under the key of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundPayouts {
    /// Nothing is posted under the key.
    Missing,
    /// Something else than these payouts.
    Other,
    /// These payouts. Those at these places of the intent are parked, in these accounts.
    Paid(Vec<(usize, AccountId)>),
}

/// The name of an actor's account.
fn account_of(actor: &str) -> String {
    format!("actor/{actor}")
}

/// The batch of an intent. Its body is the run's key and the transfers, so another run's is a conflict.
fn batch(intent: &Intent, pool: &str, unix: u64, parked: &Parked) -> Result<Batch, NotPaid> {
    let never = |what: &dyn std::fmt::Display| NotPaid::Never("intent_malformed", what.to_string());
    let from = AccountId::new(pool).map_err(|error| never(&error))?;
    let step = |(at, transfer): (usize, &rewards::Transfer)| {
        let actor = transfer.to.as_str();
        let to = parked.get(&at).map_or_else(|| account_of(actor), |why| why.account.clone());
        let to = AccountId::new(&to).map_err(|error| never(&error))?;
        let amount = Amount::try_from(transfer.amount.minor()).map_err(|error| never(&error))?;
        Ok(Step::Transfer(Transfer { from: from.clone(), to, amount }))
    };
    let steps = intent.transfers.iter().enumerate().map(step).collect::<Result<Vec<_>, _>>()?;
    let key = Key::new(&intent.key()).map_err(|error| never(&error))?;
    let reference = Reference::new(&intent.run_key.to_string()).map_err(|error| never(&error))?;
    Batch::opening_receivers(key, reference, unix, steps).map_err(|refusal| match refusal {
        Refusal::SameAccount(account) => {
            let why = format!("{account} is the account that payouts are taken from");
            NotPaid::Receiver { account, code: "same_account", why }
        }
        other => never(&other),
    })
}

/// The batch that an intent is to the ledger when it is paid from this account and nobody's payout is parked.
///
/// # Errors
/// A sentence, if there can be no such batch.
pub fn payout_batch(intent: &Intent, pool: &AccountId) -> Result<Batch, String> {
    batch(intent, pool.as_str(), 0, &Parked::new()).map_err(NotPaid::into_text)
}

/// Looks for the payouts of an intent in a ledger: what moved under its key, entry by entry.
///
/// # Errors
/// [`LedgerError`], if the ledger does not answer.
pub fn find_payouts(
    ledger: &dyn Ledger,
    intent: &Intent,
    pool: &AccountId,
) -> Result<FoundPayouts, LedgerError> {
    let Ok(key) = Key::new(&intent.key()) else { return Ok(FoundPayouts::Other) };
    let Some(request) = ledger.request(&key)? else { return Ok(FoundPayouts::Missing) };
    if request.reference.as_str() != intent.run_key.to_string() {
        return Ok(FoundPayouts::Other);
    }
    let asset = ledger.account(pool)?.map(|account| account.asset);
    let entries = ledger.snapshot()?.entries(request.first_entry.saturating_sub(1), request.entries)?;
    let mut moved = entries.iter().filter(|entry| !matches!(entry.kind, EntryKind::Open { .. }));
    let mut parked = Vec::new();
    for (at, transfer) in intent.transfers.iter().enumerate() {
        let Some(EntryKind::Move(found)) = moved.next().map(|entry| &entry.kind) else {
            return Ok(FoundPayouts::Other);
        };
        let (to, receiver) = (found.to.as_str(), transfer.to.as_str());
        let in_asset = |asset: Asset| to == ParkedPayout::account_in_asset(receiver, asset.as_str());
        let is_parked = to == ParkedPayout::account_of(receiver) || asset.is_some_and(in_asset);
        let is_paid = to == account_of(receiver);
        let amount = Amount::try_from(transfer.amount.minor());
        if found.from != *pool || amount != Ok(found.amount) || !(is_paid || is_parked) {
            return Ok(FoundPayouts::Other);
        }
        if is_parked {
            parked.push((at, found.to.clone()));
        }
    }
    Ok(if moved.next().is_none() { FoundPayouts::Paid(parked) } else { FoundPayouts::Other })
}

/// Has an intent posted. Payouts whose receivers cannot be paid are parked, and written down before this returns.
///
/// Cancel safe: what was posted and is not noted is found in the ledger, under the same key.
pub(crate) async fn post(shared: &Shared, intent: &Intent) -> Result<Result<(), NotPaid>, RewarderError> {
    let mut parked = Parked::new();
    loop {
        let not_paid = match try_post(shared, intent, &parked).await {
            Ok(()) => break,
            Err(not_paid) => not_paid,
        };
        match not_paid {
            NotPaid::Receiver { account, code, why } => {
                let is_parked = park(intent, &mut parked, &account, code, &why)
                    || match asset_of_pool(shared).await {
                        Ok(asset) => park_in_asset(intent, &mut parked, &account, asset),
                        Err(not_paid) => return Ok(Err(not_paid)),
                    };
                if !is_parked {
                    return Ok(Err(NotPaid::Never(code, why)));
                }
            }
            // Somebody posted it before, perhaps with other payouts parked.
            NotPaid::Never("conflict", why) => match found(shared, intent).await {
                Ok(FoundPayouts::Paid(places)) => {
                    parked = parked_before(places, parked);
                    break;
                }
                Ok(_) => return Ok(Err(NotPaid::Never("conflict", why))),
                Err(not_paid) => return Ok(Err(not_paid)),
            },
            other => return Ok(Err(other)),
        }
    }
    if !parked.is_empty() {
        write_down(shared, intent, &parked).await?;
    }
    Ok(Ok(()))
}

/// Parks the first payout that goes to this account; says whether there is one.
fn park(intent: &Intent, parked: &mut Parked, account: &AccountId, code: &'static str, why: &str) -> bool {
    let is_it = |(at, transfer): &(usize, &rewards::Transfer)| {
        account_of(transfer.to.as_str()) == account.as_str() && !parked.contains_key(at)
    };
    let Some((at, transfer)) = intent.transfers.iter().enumerate().find(is_it) else { return false };
    let account = ParkedPayout::account_of(transfer.to.as_str());
    parked.insert(at, Why { code, detail: why.to_owned(), account });
    true
}

/// Keeps the parked payouts that go to this account in one that is named after the asset; says whether there are any.
fn park_in_asset(intent: &Intent, parked: &mut Parked, account: &AccountId, asset: Option<Asset>) -> bool {
    let Some(asset) = asset else { return false };
    let mut found = false;
    for (at, why) in parked.iter_mut() {
        let receiver = intent.transfers[*at].to.as_str();
        if why.account == account.as_str() && why.account == ParkedPayout::account_of(receiver) {
            why.account = ParkedPayout::account_in_asset(receiver, asset.as_str());
            found = true;
        }
    }
    found
}

/// The asset that payouts are made in; `None` if the pool has no account.
async fn asset_of_pool(shared: &Shared) -> Result<Option<Asset>, NotPaid> {
    let pool = AccountId::new(&shared.settings.load().pool_account);
    let pool = pool.map_err(|error| NotPaid::Never("account_malformed", error.to_string()))?;
    let account = ledger::call(shared, "ask the ledger", move |ledger| ledger.account(&pool)).await?;
    Ok(account.map(|account| account.asset))
}

async fn try_post(shared: &Shared, intent: &Intent, parked: &Parked) -> Result<(), NotPaid> {
    let pool = shared.settings.load().pool_account.clone();
    let batch = batch(intent, &pool, shared.unix().as_secs(), parked)?;
    crash::point("batch.before_post");
    let posted = ledger::post(shared, batch).await?;
    crash::point("batch.after_post");
    tracing::debug!(key = intent.key(), replayed = posted.replayed, "a batch is in the ledger");
    Ok(())
}

async fn found(shared: &Shared, intent: &Intent) -> Result<FoundPayouts, NotPaid> {
    let pool = shared.settings.load().pool_account.clone();
    let pool =
        AccountId::new(&pool).map_err(|error| NotPaid::Never("account_malformed", error.to_string()))?;
    let intent = intent.clone();
    ledger::call(shared, "look for a batch", move |ledger| find_payouts(ledger, &intent, &pool)).await
}

/// Writes down which payouts of a run are parked in the ledger: another process may have posted them.
///
/// Cancel safe: it may be repeated.
pub(crate) async fn recall(shared: &Shared, run: &Run) -> Result<(), RewarderError> {
    for intent in run.batches() {
        let found = found(shared, &intent).await.map_err(|error| RewarderError::Ledger(error.into_text()))?;
        if let FoundPayouts::Paid(places) = found
            && !places.is_empty()
        {
            write_down(shared, &intent, &parked_before(places, Parked::new())).await?;
        }
    }
    Ok(())
}

/// Payouts that were parked by an earlier attempt, with the reasons that are known here.
fn parked_before(places: Vec<(usize, AccountId)>, mut known: Parked) -> Parked {
    let before = |(at, account): (usize, AccountId)| {
        let detail = "an earlier attempt could not pay it".to_owned();
        let known = known.remove(&at).map(|why| (why.code, why.detail));
        let (code, detail) = known.unwrap_or(("parked_before", detail));
        (at, Why { code, detail, account: account.as_str().to_owned() })
    };
    places.into_iter().map(before).collect()
}

/// Adds to the epoch's list of parked payouts. What is on it stays as it is.
async fn write_down(shared: &Shared, intent: &Intent, parked: &Parked) -> Result<(), RewarderError> {
    let payout = |(at, why): (&usize, &Why)| {
        let transfer = &intent.transfers[*at];
        ParkedPayout {
            actor: transfer.actor.clone(),
            receiver: transfer.to.clone(),
            amount: transfer.amount,
            account: why.account.clone(),
            reason: why.code.to_owned(),
            detail: why.detail.clone(),
        }
    };
    let payouts: Vec<_> = parked.iter().map(payout).collect();
    for ParkedPayout { receiver, amount, account, detail, .. } in &payouts {
        let epoch = intent.epoch.number();
        tracing::error!(epoch, %receiver, %amount, account, reason = detail, "a payout is parked");
    }
    let (epoch, artifacts) = (intent.epoch, shared.artifacts.clone());
    let write = move || -> Result<(), RewarderError> {
        let failed = |error: std::io::Error| RewarderError::Files(format!("parked payouts: {error}"));
        let known = artifacts.read(epoch.number(), bundle::PARKED).map_err(failed)?;
        let known = known.and_then(|bytes| ParkedPayouts::read(&bytes).ok());
        let mut list = known.unwrap_or(ParkedPayouts::new(epoch));
        payouts.iter().cloned().for_each(|payout| list.add(payout));
        // There may be no other files here: another node may have computed the epoch.
        artifacts.put(epoch.number(), bundle::PARKED, &list.to_bytes()).map_err(failed)
    };
    shared.scope.blocking().run("write parked payouts", write).await?
}

/// The list of an epoch's parked payouts; `None` if there is none here.
pub(crate) async fn parked(shared: &Shared, epoch: u64) -> Result<Option<ParkedPayouts>, RewarderError> {
    let artifacts = shared.artifacts.clone();
    let read = move || {
        let failed = |error: std::io::Error| RewarderError::Files(format!("parked payouts: {error}"));
        artifacts.read(epoch, bundle::PARKED).map_err(failed)
    };
    let found = shared.scope.blocking().run("read parked payouts", read).await??;
    Ok(found.and_then(|bytes| ParkedPayouts::read(&bytes).ok()))
}

/// What the store says of an epoch with parked payouts.
pub(crate) fn noted(parked: &ParkedPayouts) -> String {
    let sum: u128 = parked.payouts.iter().map(|payout| payout.amount.minor()).sum();
    let first = parked.payouts.first().map(|payout| format!(", {}: {}", payout.account, payout.detail));
    format!("{NOTED} {} payouts, {sum} in all{}", parked.payouts.len(), first.unwrap_or_default())
}

/// What the reason of an epoch with parked payouts begins with.
pub(crate) const NOTED: &str = "parked:";

/// Whether everything that an epoch has parked was moved on.
pub(crate) async fn is_released(shared: &Shared, parked: &ParkedPayouts) -> Result<bool, NotPaid> {
    let accounts: Vec<_> =
        parked.payouts.iter().filter_map(|payout| AccountId::new(&payout.account).ok()).collect();
    ledger::call(shared, "look at parked payouts", move |ledger| {
        for account in &accounts {
            if ledger.account(account)?.is_some_and(|account| account.balance > 0) {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await
}

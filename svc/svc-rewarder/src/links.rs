//! The chain of runs in the ledger: which run follows which, under a key that only one run can have.
//!
//! The epoch store says which run follows which, and a store that is restored from an older backup says it a second time:
//! another run then takes over amounts and corrections that were paid. So before a run is paid, the ledger is told that
//! it follows the run before it, by a batch under [`chain_key`] with the run's key as its reference. The batch moves
//! nothing: it opens the pool's account, which is open. Another run that follows the same run meets the key with another
//! reference, whatever the numbers of the epochs are and however long ago it was.
//!
//! Runs before it that the ledger was not told of are told first, in their order: those that are not paid yet, those that
//! pay nobody, and those of a program that did not tell the ledger. So if the ledger knows a run, it knows every run
//! before it.

use rewards::{Run, chain_key};
use ron_ledger::{AccountId, Batch, Key, Ledger, LedgerError, Reference, Step, Terms};

use crate::{
    RewarderError, crash,
    ledger::{self, NotPaid},
    reconcile,
    shared::Shared,
    store::{ChainRun, EpochStore},
};

/// Runs that are read from the store at once.
const PAGE: u64 = 64;
/// Requests that are read from the ledger at once.
const REQUESTS: u32 = 1000;

/// What the ledger has under the key of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FoundLink {
    /// The ledger was not told which run follows.
    Missing,
    /// This run follows.
    This,
    /// The run with this key follows.
    Other(String),
}

/// A run, and the key of its link to the run before.
#[derive(Clone, Debug)]
struct ChainLink {
    epoch: u64,
    key: String,
    run_key: String,
}

impl ChainLink {
    /// The link of a run; `None` if its ruleset has no chain.
    fn of(run: &Run) -> Option<Self> {
        let previous = run.brought()?.previous.as_ref().map(|before| before.commitment.to_string());
        let key = chain_key(run.policy().terms().id.as_str(), previous.as_deref());
        Some(Self { epoch: run.epoch().number(), key, run_key: run.key().to_string() })
    }

    fn in_store(chain: &str, run: ChainRun) -> Self {
        let ChainRun { epoch, run_key, previous } = run;
        Self { epoch, key: chain_key(chain, previous.as_deref()), run_key }
    }

    fn find(&self, ledger: &dyn Ledger) -> Result<FoundLink, LedgerError> {
        let Ok(key) = Key::new(&self.key) else { return Ok(FoundLink::Missing) };
        Ok(match ledger.request(&key)? {
            None => FoundLink::Missing,
            Some(request) if request.reference.as_str() == self.run_key => FoundLink::This,
            Some(request) => FoundLink::Other(request.reference.to_string()),
        })
    }

    fn contradicted_by(&self, other: &str) -> String {
        let Self { epoch, key, run_key } = self;
        format!("the ledger has {other} under {key}, and not the run {run_key} of epoch {epoch}")
    }
}

/// The key of another run that follows the same run as this one, as a ledger has it; `None` if it has no other.
///
/// # Errors
/// [`LedgerError`], if the ledger does not answer.
pub fn other_follower(ledger: &dyn Ledger, run: &Run) -> Result<Option<String>, LedgerError> {
    let Some(link) = ChainLink::of(run) else { return Ok(None) };
    Ok(match link.find(ledger)? {
        FoundLink::Other(run_key) => Some(run_key),
        FoundLink::Missing | FoundLink::This => None,
    })
}

/// What the ledger has that a new run of a chain contradicts: another run of the same epoch, another run that follows the
/// same run, or a payout that the store does not know. A store from an older backup would carry amounts over that were
/// paid meanwhile. `None` if the ledger has nothing of the kind.
pub(crate) async fn contradiction(shared: &Shared, run: &Run) -> Result<Option<String>, RewarderError> {
    let Some(link) = ChainLink::of(run) else { return Ok(None) };
    let (epoch, asked) = (link.epoch, link.clone());
    let look = move |ledger: &dyn Ledger| {
        Ok((reconcile::paid_under(ledger, epoch, 0)?.map(|(_, paid_by)| paid_by), asked.find(ledger)?))
    };
    let (paid_by, found) = ledger::call(shared, "look for later runs", look).await.map_err(unanswered)?;
    if let Some(paid_by) = paid_by.filter(|paid_by| *paid_by != link.run_key) {
        return Ok(Some(format!(
            "the ledger has paid epoch {epoch} by {paid_by}, and not by {}",
            link.run_key
        )));
    }
    if let FoundLink::Other(other) = found {
        return Ok(Some(link.contradicted_by(&other)));
    }
    unknown_payout(shared, run.policy().terms().id.as_str()).await
}

/// Tells the ledger of the runs before that of an epoch, as far as it does not know them; nothing if the epoch's run was taken
/// back meanwhile.
///
/// Cancel safe: what the ledger was told is not told again.
pub(crate) async fn post_before(shared: &Shared, epoch: u64) -> Result<Result<(), NotPaid>, RewarderError> {
    let place = shared.with_store("find epoch", move |store| store.runs_before(epoch)).await?;
    let Some((chain, before)) = place.filter(|(_, before)| *before > 0) else { return Ok(Ok(())) };
    if is_known(shared, &chain, before).await? {
        return Ok(Ok(()));
    }
    if let Some(why) = unknown_payout(shared, &chain).await? {
        return Ok(Err(NotPaid::Never("conflict", why)));
    }
    // Before the first is told: an order may take runs back until then, and others may get their places.
    let name = chain.clone();
    let note = move |store: &EpochStore| {
        store.note_told(epoch, &name, before)?;
        store.runs_before(epoch)
    };
    if shared.with_store("note what the ledger is told", note).await? != Some((chain.clone(), before)) {
        return Ok(Ok(()));
    }
    // Those that the ledger knows come before those that it does not.
    let (mut first, mut end) = (1, before);
    while first < end {
        let middle = first.midpoint(end);
        if is_known(shared, &chain, middle).await? { first = middle + 1 } else { end = middle }
    }
    while first <= before {
        let page = runs(shared, &chain, first, PAGE.min(before - first + 1)).await?;
        if page.is_empty() {
            return Err(RewarderError::Files(format!(
                "run {first} of the chain {chain} is not in the store"
            )));
        }
        for link in page {
            if let Err(not_paid) = post_link(shared, &link).await {
                return Ok(Err(not_paid));
            }
            first += 1;
        }
    }
    Ok(Ok(()))
}

/// Tells the ledger which run this one follows.
///
/// Cancel safe: what the ledger was told is not told again.
pub(crate) async fn post(shared: &Shared, run: &Run) -> Result<(), NotPaid> {
    match ChainLink::of(run) {
        Some(link) => post_link(shared, &link).await,
        None => Ok(()),
    }
}

/// Whether the ledger was told that the run of an epoch follows the run before it.
pub(crate) async fn is_posted(shared: &Shared, epoch: u64) -> Result<bool, RewarderError> {
    let place = shared.with_store("find epoch", move |store| store.runs_before(epoch)).await?;
    match place {
        Some((chain, before)) => is_known(shared, &chain, before.saturating_add(1)).await,
        None => Ok(false),
    }
}

async fn post_link(shared: &Shared, link: &ChainLink) -> Result<(), NotPaid> {
    let never = |what: &dyn std::fmt::Display| NotPaid::Never("account_malformed", what.to_string());
    if is_found(link, find(shared, link).await?)? {
        return Ok(());
    }
    let pool = AccountId::new(&shared.settings.load().pool_account).map_err(|error| never(&error))?;
    let asked = pool.clone();
    let account = ledger::call(shared, "ask the ledger", move |ledger| ledger.account(&asked)).await?;
    let Some(account) = account else {
        return Err(NotPaid::Unfunded("the pool has no account in the ledger".to_owned()));
    };
    let (key, reference) = (Key::new(&link.key), Reference::new(&link.run_key));
    let (key, reference) = (key.map_err(|error| never(&error))?, reference.map_err(|error| never(&error))?);
    let open = Step::Open(Terms { account: pool, asset: account.asset, floor: account.floor });
    let batch = Batch::new(key, reference, shared.unix().as_secs(), vec![open]);
    let batch = batch.map_err(|refusal| never(&refusal))?;
    crash::point("link.before_post");
    let posted = ledger::post(shared, batch).await;
    crash::point("link.after_post");
    match posted {
        Ok(_) => Ok(()),
        // Another process was faster, perhaps with another name for the pool.
        Err(NotPaid::Never("conflict", why)) => {
            if is_found(link, find(shared, link).await?)? {
                Ok(())
            } else {
                Err(NotPaid::Outage(why))
            }
        }
        Err(not_paid) => Err(not_paid),
    }
}

/// Whether a link is in the ledger. That of another run is a conflict.
fn is_found(link: &ChainLink, found: FoundLink) -> Result<bool, NotPaid> {
    match found {
        FoundLink::This => Ok(true),
        FoundLink::Missing => Ok(false),
        FoundLink::Other(other) => Err(NotPaid::Never("conflict", link.contradicted_by(&other))),
    }
}

async fn find(shared: &Shared, link: &ChainLink) -> Result<FoundLink, NotPaid> {
    let link = link.clone();
    ledger::call(shared, "look for a run", move |ledger| link.find(ledger)).await
}

/// Whether the ledger knows the run at a place of a chain, counted from 1.
async fn is_known(shared: &Shared, chain: &str, place: u64) -> Result<bool, RewarderError> {
    let Some(link) = runs(shared, chain, place, 1).await?.pop() else { return Ok(false) };
    Ok(find(shared, &link).await.map_err(unanswered)? == FoundLink::This)
}

async fn runs(shared: &Shared, chain: &str, first: u64, limit: u64) -> Result<Vec<ChainLink>, RewarderError> {
    let name = chain.to_owned();
    let find = move |store: &EpochStore| store.chain_runs(&name, first, limit);
    let found = shared.with_store("find runs", find).await?;
    Ok(found.into_iter().map(|run| ChainLink::in_store(chain, run)).collect())
}

/// A payout that a ledger of an older program has and the store does not know. Such a ledger was told of no run. What a
/// newer store would know was posted after everything that this one notes as posted, so only that is read.
async fn unknown_payout(shared: &Shared, chain: &str) -> Result<Option<String>, RewarderError> {
    let name = chain.to_owned();
    let last = shared.with_store("find runs", move |store| store.last_paid_run(&name)).await?;
    let Some(last) = last.map(|run| ChainLink::in_store(chain, run)) else { return Ok(None) };
    match find(shared, &last).await.map_err(unanswered)? {
        FoundLink::This => return Ok(None),
        FoundLink::Other(other) => return Ok(Some(last.contradicted_by(&other))),
        FoundLink::Missing => {}
    }
    let epoch = last.epoch;
    let look = move |ledger: &dyn Ledger| reconcile::paid_under(ledger, epoch, 0);
    let paid = ledger::call(shared, "look for a batch", look).await.map_err(unanswered)?;
    let Some((mut after, _)) = paid else { return Ok(None) };
    loop {
        let read = move |ledger: &dyn Ledger| ledger.snapshot()?.requests(after, REQUESTS);
        let page = ledger::call(shared, "look for payouts", read).await.map_err(unanswered)?;
        let Some(end) = page.last().map(|request| request.number) else { return Ok(None) };
        after = end;
        for request in page {
            let Some(epoch) = first_batch_of(request.key.as_str()) else { continue };
            let record = shared.with_store("find epoch", move |store| store.record(epoch)).await?;
            let (known, paid_by) = (record.and_then(|record| record.run_key), request.reference);
            if known.as_deref() != Some(paid_by.as_str()) {
                let known = known.unwrap_or_else(|| "a run that is known here".to_owned());
                return Ok(Some(format!(
                    "the ledger has paid epoch {epoch} by {paid_by}, and not by {known}"
                )));
            }
        }
    }
}

/// The epoch whose first batch has this key.
fn first_batch_of(key: &str) -> Option<u64> {
    key.strip_prefix("reward/")?.strip_suffix("/0")?.parse().ok()
}

fn unanswered(error: NotPaid) -> RewarderError {
    RewarderError::Ledger(error.into_text())
}

//! Epochs compared with the ledger: whether every batch that the store notes as posted is there under its key.
//!
//! A ledger that is restored from an older backup has lost batches that the store has noted. Nobody would post them
//! again, because their epochs are settled. So the health reporter compares all of them at the start, and again whenever
//! the chain of the ledger is not a continuation of the chain that it knows. What is missing is told, and posted again
//! when an operator asks for it: the keys are those of the first time, so nothing is paid twice.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use ron_ledger::{Key, Ledger, LedgerError, Link};

use crate::{
    RewarderError,
    ledger::{self, NotPaid},
    shared::Shared,
    store::{Changed, EpochStore, Record},
};

/// Epochs that are looked up in the store at once.
const PAGE: u64 = 64;
/// Pages that are compared between two looks at everything else.
const PAGES_PER_STEP: usize = 16;
/// Epochs with missing batches that are remembered by number. While there are so many, no others are compared.
const MAX_DIFFERENCES: usize = 1024;
/// Epochs that the condition names.
const NAMED: usize = 4;

/// What the ledger lacks of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Batches that are noted as posted and are not in the ledger under the run's key; 0 if all are.
    pub(crate) missing: u64,
    /// The first of them, counted from zero.
    pub(crate) first: u64,
    /// Whether the files and rows of the epoch are gone, so that nothing of it can be posted again.
    pub(crate) is_retired: bool,
}

/// Compares the epochs of the store with the ledger, a part at a time.
#[derive(Debug, Default)]
pub(crate) struct Reconciler {
    /// The last link of the chain that the comparison holds for; `None` before the first.
    known: Option<Link>,
    /// The first epoch that is not compared; `None` when all are.
    next: Option<u64>,
    /// Epochs whose missing batches can be posted again.
    differences: BTreeMap<u64, Difference>,
    retired: RetiredEpochs,
}

/// Retired epochs that the ledger lacks batches of. Nothing changes that, so they are only counted.
#[derive(Clone, Copy, Debug, Default)]
struct RetiredEpochs {
    count: u64,
    /// The first of them, and how many batches the ledger lacks of it.
    first: Option<(u64, u64)>,
}

impl Reconciler {
    /// Compares what is to be compared, and raises or clears the condition. What does not answer now is asked next time.
    /// Says whether every epoch was compared and the ledger lacks nothing that can be posted again.
    ///
    /// Cancel safe: what was not compared is compared with the next step.
    pub(crate) async fn step(&mut self, shared: &Shared) -> bool {
        if let Err(error) = self.compare(shared).await {
            tracing::debug!(error, "epochs could not be compared with the ledger; it is tried again");
            return false;
        }
        let condition = &shared.conditions.ledger_behind;
        match told_of(&self.differences, self.retired) {
            Some(told) => condition.raise(told),
            None if self.next.is_none() => condition.clear(),
            None => {}
        }
        self.next.is_none() && self.differences.is_empty()
    }

    async fn compare(&mut self, shared: &Shared) -> Result<(), String> {
        self.follow_chain(shared).await?;
        for _ in 0..PAGES_PER_STEP {
            let Some(first) = self.next.filter(|_| self.differences.len() < MAX_DIFFERENCES) else { break };
            let page = move |store: &EpochStore| store.paid(first, PAGE);
            let page =
                shared.with_store("find paid epochs", page).await.map_err(|error| error.to_string())?;
            if page.is_empty() {
                self.next = None;
            }
            for record in page {
                if self.differences.len() < MAX_DIFFERENCES {
                    self.look_at(shared, &record).await?;
                    self.next = Some(record.epoch.saturating_add(1));
                }
            }
        }
        let epochs: Vec<u64> = self.differences.keys().copied().collect();
        for epoch in epochs {
            let record = shared.with_store("find epoch", move |store| store.record(epoch)).await;
            match record.map_err(|error| error.to_string())? {
                Some(record) => self.look_at(shared, &record).await?,
                None => drop(self.differences.remove(&epoch)),
            }
        }
        Ok(())
    }

    /// Starts again if the ledger is not the one that was compared, with more behind it.
    async fn follow_chain(&mut self, shared: &Shared) -> Result<(), String> {
        let known = self.known;
        let look = move |ledger: &dyn Ledger| continues(ledger, known.as_ref());
        let (head, continues) = ledger::call(shared, "look at the chain", look).await.map_err(said)?;
        if !continues {
            if let Some(known) = known {
                tracing::warn!(
                    known = known.number,
                    head = head.number,
                    "the ledger is not the same as before"
                );
            }
            // Where the store is with the ledger, it has lost as much.
            shared.store_may_lack.store(true, Ordering::Release);
            self.next = Some(0);
            self.differences.clear();
            self.retired = RetiredEpochs::default();
        }
        self.known = Some(head);
        Ok(())
    }

    async fn look_at(&mut self, shared: &Shared, record: &Record) -> Result<(), String> {
        let difference = difference(shared, record).await.map_err(said)?;
        let (epoch, Difference { missing, first, is_retired }) = (record.epoch, difference);
        let is_new = self.differences.remove(&epoch).is_none();
        if missing == 0 {
            return Ok(());
        }
        if is_retired {
            self.retired.count += 1;
            self.retired.first.get_or_insert((epoch, missing));
        } else {
            self.differences.insert(epoch, difference);
        }
        if is_new {
            tracing::error!(epoch, missing, first, "batches of a paid epoch are not in the ledger");
        }
        Ok(())
    }
}

/// The last link, and whether the chain leads there by way of a link that is known.
fn continues(ledger: &dyn Ledger, known: Option<&Link>) -> Result<(Link, bool), LedgerError> {
    let mut snapshot = ledger.snapshot()?;
    let head = snapshot.head()?;
    let continues = match known {
        None => false,
        Some(known) if known.number == 0 => true,
        Some(known) => {
            let found = snapshot.links(known.number - 1, 1)?;
            found.first().is_some_and(|link| link.number == known.number && link.hash == known.hash)
        }
    };
    Ok((head, continues))
}

/// What the ledger lacks of an epoch, as far as the store notes it as posted.
pub(crate) async fn difference(shared: &Shared, record: &Record) -> Result<Difference, NotPaid> {
    let (epoch, posted, is_retired) = (record.epoch, record.posted, record.retired_at.is_some());
    let run_key = record.run_key.clone().unwrap_or_default();
    let look = move |ledger: &dyn Ledger| {
        let mut found = Difference { missing: 0, first: 0, is_retired };
        for batch in 0..posted {
            if paid_under(ledger, epoch, batch)?.is_none_or(|(_, paid_by)| paid_by != run_key) {
                found.first = if found.missing == 0 { batch } else { found.first };
                found.missing += 1;
            }
        }
        Ok(found)
    };
    ledger::call(shared, "compare with the ledger", look).await
}

/// Whether the ledger has any batch of an epoch, whatever the store notes: a process may have died between the two.
pub(crate) async fn is_paid(shared: &Shared, record: &Record) -> Result<bool, NotPaid> {
    let (epoch, batches) = (record.epoch, record.batches.max(1));
    let look = move |ledger: &dyn Ledger| {
        for batch in 0..batches {
            if paid_under(ledger, epoch, batch)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    };
    ledger::call(shared, "look for an epoch", look).await
}

/// The number of the request by which the ledger has a batch of an epoch, and the key of the run under whose name it has it.
pub(crate) fn paid_under(
    ledger: &dyn Ledger,
    epoch: u64,
    batch: u64,
) -> Result<Option<(u64, String)>, LedgerError> {
    let Ok(key) = Key::new(&format!("reward/{epoch}/{batch}")) else { return Ok(None) };
    Ok(ledger.request(&key)?.map(|request| (request.number, request.reference.as_str().to_owned())))
}

/// Has the batches that the ledger lacks of an epoch posted again, from the first of them on. Says what it lacks, and
/// whether anything is posted now.
///
/// Cancel safe: the store says what is to be posted.
pub(crate) async fn post_again(
    shared: &Shared,
    record: &Record,
) -> Result<(Difference, Changed), RewarderError> {
    let found = difference(shared, record).await.map_err(|error| RewarderError::Ledger(said(error)))?;
    if found.missing == 0 {
        return Ok((found, Changed::Before));
    }
    let (epoch, Difference { missing, first, .. }) = (record.epoch, found);
    let reason = format!("reconcile: {missing} of its batches are not in the ledger");
    let reopen = move |store: &EpochStore| store.reopen(epoch, first, &reason);
    let changed = shared.with_store("post an epoch again", reopen).await?;
    if changed == Changed::Now {
        tracing::warn!(epoch, missing, first, "batches that the ledger lacks are posted again");
    }
    Ok((found, changed))
}

fn said(error: NotPaid) -> String {
    error.into_text()
}

/// What readiness says of the epochs that the ledger lacks batches of; `None` if it lacks nothing.
fn told_of(differences: &BTreeMap<u64, Difference>, retired: RetiredEpochs) -> Option<String> {
    let lacks = |epoch: u64, missing: u64| format!("epoch {epoch}: {missing} batches are not in the ledger");
    let mut told = match (differences.first_key_value(), retired.first) {
        (Some((epoch, first)), _) => lacks(*epoch, first.missing),
        (None, Some((epoch, missing))) => lacks(epoch, missing),
        (None, None) => return None,
    };
    let others: Vec<String> = differences.keys().skip(1).take(NAMED).map(u64::to_string).collect();
    if !others.is_empty() {
        told.push_str(&format!("; also {}", others.join(", ")));
    }
    let rest = differences.len().saturating_sub(1 + others.len());
    if rest > 0 {
        told.push_str(&format!(" and {rest} more"));
    }
    if !differences.is_empty() {
        told.push_str("; `omnigate epoch reconcile` posts them again");
    }
    if retired.count > 0 {
        told.push_str(&format!("; {} were retired, and cannot be posted again", retired.count));
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_epochs_are_named_and_the_rest_is_counted() {
        let difference = Difference { missing: 2, first: 0, is_retired: false };
        let (none, retired) = (RetiredEpochs::default(), RetiredEpochs { count: 1, first: Some((7, 2)) });
        let lacks =
            |epochs: std::ops::Range<u64>| told_of(&epochs.map(|epoch| (epoch, difference)).collect(), none);
        assert_eq!(lacks(0..0), None);
        let of = |epochs| lacks(epochs).unwrap_or_default();
        assert!(of(7..8).starts_with("epoch 7: 2 batches are not in the ledger; `omnigate"), "{}", of(7..8));
        assert!(of(7..9).contains("ledger; also 8; `omnigate"), "{}", of(7..9));
        assert!(of(7..20).contains("; also 8, 9, 10, 11 and 8 more; `"), "{}", of(7..20));
        let both = told_of(&[(8, difference)].into(), retired).unwrap_or_default();
        assert!(both.ends_with("posts them again; 1 were retired, and cannot be posted again"), "{both}");
        let gone = told_of(&BTreeMap::new(), retired).unwrap_or_default();
        assert!(gone.ends_with("not in the ledger; 1 were retired, and cannot be posted again"), "{gone}");
    }
}

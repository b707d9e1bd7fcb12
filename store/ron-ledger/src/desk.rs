//! One write transaction: what every store looks up and writes, and the order in which it is asked.

use std::collections::{BTreeSet, HashMap};

use ledgerbook::{
    Account, AccountId, Batch, Book, Checkpoint, Commit, Entry, Hold, Key, Known, Link, Request,
};

use crate::{LedgerError, Posted, combine::Outcome};

/// A write transaction of a store.
pub(crate) trait Desk: RowWriter {
    /// The holds among these entries.
    fn holds(&mut self, entries: &[u64]) -> Result<Vec<(u64, Hold)>, LedgerError>;

    /// The accounts among these names, locked in this order until the transaction ends.
    fn lock_accounts(&mut self, ids: &[&AccountId]) -> Result<Vec<Account>, LedgerError>;

    /// The requests that have one of these keys.
    fn requests(&mut self, keys: &[&Key]) -> Result<Vec<Request>, LedgerError>;

    /// The end of the chain, locked until the transaction ends. Nobody else writes rows from here on.
    fn lock_head(&mut self) -> Result<Link, LedgerError>;

    /// Whether one of these requests or accounts appeared before the head was locked.
    fn is_overtaken(&mut self, keys: &[&Key], opened: &[&AccountId]) -> Result<bool, LedgerError>;
}

/// The number of every account that is written about.
pub(crate) type Numbers = HashMap<AccountId, u64>;

/// Takes rows, which are there once its transaction is committed.
pub(crate) trait RowWriter {
    fn insert_accounts(&mut self, accounts: &[Account]) -> Result<(), LedgerError>;

    /// Their balances and what they have held; nothing else of an account ever changes.
    fn update_accounts(&mut self, accounts: &[Account]) -> Result<(), LedgerError>;

    fn insert_requests(&mut self, requests: &[Request]) -> Result<(), LedgerError>;

    fn insert_entries(&mut self, entries: &[Entry], numbers: &Numbers) -> Result<(), LedgerError>;

    fn insert_links(&mut self, links: &[Link]) -> Result<(), LedgerError>;

    /// Those that are there already are left as they are.
    fn insert_checkpoints(&mut self, checkpoints: &[Checkpoint]) -> Result<(), LedgerError>;
}

fn write(desk: &mut impl RowWriter, commit: &Commit) -> Result<(), LedgerError> {
    let accounts = commit.opened.iter().chain(&commit.changed);
    let numbers: Numbers = accounts.map(|account| (account.id.clone(), account.number)).collect();
    desk.insert_accounts(&commit.opened)?;
    desk.update_accounts(&commit.changed)?;
    desk.insert_requests(&commit.requests)?;
    desk.insert_entries(&commit.entries, &numbers)?;
    desk.insert_links(&[commit.link])
}

/// The result of a group of batches.
#[derive(Debug)]
pub(crate) enum Decided {
    /// What becomes of each batch once the transaction is committed, and whether there is anything to commit.
    Done { outcomes: Vec<Outcome>, wrote: bool },
    /// Somebody else was faster; everything has to be looked up again.
    Overtaken,
}

/// Decides a group of batches and writes what follows. Each is posted whole or not at all, whatever the others are.
///
/// Locks are taken in one order by everybody: accounts by name, the head last. Requests are looked up behind the
/// accounts' locks: a caller that posts the same body waits for the same accounts, and then sees that it was posted.
pub(crate) fn decide(desk: &mut impl Desk, group: &[Batch]) -> Result<Decided, LedgerError> {
    let mut book = Book::new();
    look_up(desk, group, &mut book)?;
    let keys: Vec<&Key> = group.iter().map(Batch::key).collect();
    let mut seen: HashMap<Key, Seen> = HashMap::new();
    for request in desk.requests(&keys)? {
        seen.insert(request.key.clone(), Seen::Before(request));
    }
    let verdicts: Vec<Verdict> = group.iter().map(|batch| judge(&mut book, &mut seen, batch)).collect();
    if !verdicts.iter().any(|verdict| matches!(verdict, Verdict::Posted { .. })) {
        let outcomes = verdicts.into_iter().map(|verdict| verdict.outcome(&[])).collect();
        return Ok(Decided::Done { outcomes, wrote: false });
    }
    let head = desk.lock_head()?;
    let new: Vec<&Key> =
        keys.into_iter().filter(|key| !matches!(seen.get(key), Some(Seen::Before(_)))).collect();
    if desk.is_overtaken(&new, &book.opened().collect::<Vec<_>>())? {
        return Ok(Decided::Overtaken);
    }
    let Some(commit) = book.finish(&head) else {
        return Ok(Decided::Overtaken);
    };
    write(desk, &commit)?;
    let outcomes = verdicts.into_iter().map(|verdict| verdict.outcome(&commit.requests)).collect();
    Ok(Decided::Done { outcomes, wrote: true })
}

/// What is known of a key.
enum Seen {
    /// The batch was posted before, as this request.
    Before(Request),
    /// A batch of this group has it.
    Here { slot: usize, batch: Batch },
}

enum Verdict {
    Posted {
        slot: usize,
        replayed: bool,
    },
    Decided(Outcome),
    /// The key of a batch in this group, with another body.
    Clash {
        key: Key,
        slot: usize,
    },
}

impl Verdict {
    fn outcome(self, requests: &[Request]) -> Outcome {
        match self {
            Self::Posted { slot, replayed } => Ok(Posted { receipt: requests[slot].receipt(), replayed }),
            Self::Decided(outcome) => outcome,
            Self::Clash { key, slot } => Err(LedgerError::Conflict { key, request: requests[slot].number }),
        }
    }
}

fn judge(book: &mut Book, seen: &mut HashMap<Key, Seen>, batch: &Batch) -> Verdict {
    let key = batch.key();
    match seen.get(key) {
        Some(Seen::Before(request)) if request.body == *batch.body() => {
            Verdict::Decided(Ok(Posted { receipt: request.receipt(), replayed: true }))
        }
        Some(Seen::Before(request)) => {
            Verdict::Decided(Err(LedgerError::Conflict { key: key.clone(), request: request.number }))
        }
        Some(Seen::Here { slot, batch: first }) if first.body() == batch.body() => {
            Verdict::Posted { slot: *slot, replayed: true }
        }
        Some(Seen::Here { slot, .. }) => Verdict::Clash { key: key.clone(), slot: *slot },
        None => match book.apply(batch) {
            Ok(slot) => {
                seen.insert(key.clone(), Seen::Here { slot, batch: batch.clone() });
                Verdict::Posted { slot, replayed: false }
            }
            Err(refusal) => Verdict::Decided(Err(refusal.into())),
        },
    }
}

/// Tells the book what exists of all that the group mentions.
fn look_up(desk: &mut impl Desk, group: &[Batch], book: &mut Book) -> Result<(), LedgerError> {
    let mut ids = BTreeSet::<&AccountId>::new();
    let mut entries = BTreeSet::new();
    for known in group.iter().flat_map(Book::needs) {
        match known {
            Known::Account(id) => drop(ids.insert(id)),
            Known::Hold(entry) => drop(entries.insert(entry)),
        }
    }
    let held = if entries.is_empty() { Vec::new() } else { desk.holds(&Vec::from_iter(entries))? };
    ids.extend(held.iter().flat_map(|(_, hold)| [&hold.transfer.from, &hold.transfer.to]));
    desk.lock_accounts(&Vec::from_iter(ids))?.into_iter().for_each(|account| book.know(account));
    // A hold may have been closed by whoever had the accounts before.
    let entries: Vec<u64> = held.iter().map(|(entry, _)| *entry).collect();
    let held = if entries.is_empty() { held } else { desk.holds(&entries)? };
    held.into_iter().for_each(|(entry, hold)| book.know_hold(entry, hold));
    Ok(())
}

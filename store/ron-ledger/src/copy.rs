//! Everything one ledger has, written into another.

use ledgerbook::{Account, Checkpoint, Entry, Link, Request};

use crate::{
    LedgerError, Snapshot,
    desk::{Numbers, RowWriter},
    pages::{self, Pages},
};

/// How many rows are written at once.
const CHUNK: usize = 2000;

/// Copies all rows from a snapshot.
pub(crate) fn rows(from: &mut dyn Snapshot, to: &mut impl RowWriter) -> Result<(), LedgerError> {
    let mut numbers = Numbers::new();
    chunks(from, pages::accounts(), |accounts: &[Account]| {
        numbers.extend(accounts.iter().map(|account| (account.id.clone(), account.number)));
        to.insert_accounts(accounts)
    })?;
    chunks(from, pages::requests(0), |requests: &[Request]| to.insert_requests(requests))?;
    chunks(from, pages::entries(0), |entries: &[Entry]| to.insert_entries(entries, &numbers))?;
    chunks(from, pages::links(0), |links: &[Link]| to.insert_links(links))?;
    chunks(from, pages::checkpoints(), |checkpoints: &[Checkpoint]| to.insert_checkpoints(checkpoints))
}

/// A ledger that has something takes over nothing.
pub(crate) fn not_empty() -> LedgerError {
    LedgerError::BadSetup("the ledger is not empty: a backup is restored into a new one".to_owned())
}

fn chunks<T>(
    from: &mut dyn Snapshot,
    mut pages: Pages<T>,
    mut write: impl FnMut(&[T]) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    let mut chunk = Vec::with_capacity(CHUNK);
    while let Some(row) = pages.next(from)? {
        chunk.push(row);
        if chunk.len() == CHUNK {
            write(&chunk)?;
            chunk.clear();
        }
    }
    if chunk.is_empty() { Ok(()) } else { write(&chunk) }
}

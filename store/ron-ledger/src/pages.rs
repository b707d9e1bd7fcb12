//! Rows of a moment one by one, fetched many at a time.

use std::collections::VecDeque;

use ledgerbook::{Account, Checkpoint, Entry, Link, Request};

use crate::{LedgerError, Snapshot};

/// How many rows are fetched at once.
const PAGE: u32 = 2000;

/// Rows after a number, at most so many.
type Fetch<T> = fn(&mut dyn Snapshot, u64, u32) -> Result<Vec<T>, LedgerError>;

/// Rows of one kind, in order.
#[derive(Debug)]
pub(crate) struct Pages<T> {
    ready: VecDeque<T>,
    after: u64,
    fetch: Fetch<T>,
    number: fn(&T, u64) -> u64,
}

impl<T> Pages<T> {
    /// Returns the next row.
    pub(crate) fn next(&mut self, from: &mut dyn Snapshot) -> Result<Option<T>, LedgerError> {
        if self.ready.is_empty() {
            self.ready = (self.fetch)(from, self.after, PAGE)?.into();
            if let Some(last) = self.ready.back() {
                let fetched = self.ready.len() as u64;
                self.after = (self.number)(last, self.after + fetched);
            }
        }
        Ok(self.ready.pop_front())
    }
}

/// Accounts, from the first.
pub(crate) fn accounts() -> Pages<Account> {
    let number = |account: &Account, _| account.number;
    Pages {
        ready: VecDeque::new(),
        after: 0,
        fetch: |from, after, limit| from.accounts(after, limit),
        number,
    }
}

/// Requests, after that of this number.
pub(crate) fn requests(after: u64) -> Pages<Request> {
    let number = |request: &Request, _| request.number;
    Pages { ready: VecDeque::new(), after, fetch: |from, after, limit| from.requests(after, limit), number }
}

/// Entries, after that of this number.
pub(crate) fn entries(after: u64) -> Pages<Entry> {
    let number = |entry: &Entry, _| entry.number;
    Pages { ready: VecDeque::new(), after, fetch: |from, after, limit| from.entries(after, limit), number }
}

/// Links, after that of this number.
pub(crate) fn links(after: u64) -> Pages<Link> {
    let number = |link: &Link, _| link.number;
    Pages { ready: VecDeque::new(), after, fetch: |from, after, limit| from.links(after, limit), number }
}

/// Checkpoints, which have no numbers and are counted.
pub(crate) fn checkpoints() -> Pages<Checkpoint> {
    let number = |_: &Checkpoint, seen| seen;
    Pages {
        ready: VecDeque::new(),
        after: 0,
        fetch: |from, after, limit| from.checkpoints(after, limit),
        number,
    }
}

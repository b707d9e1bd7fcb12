//! Reads the journal from its beginning and finds whatever no book would have written.

use std::collections::BTreeMap;

use crate::{
    Account, AccountId, Asset, Entry, EntryKind, Hash, Hold, Link, Refusal, Request, StateRoot,
    chain::{Leaves, link_hash},
    state::State,
};

/// What is wrong with a journal, or with what is kept beside it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A number is missing, or twice there.
    #[error("{what} {expected} is expected, and {found} is there")]
    OutOfOrder {
        /// A link, request, entry or account.
        what: &'static str,
        /// The number that follows.
        expected: u64,
        /// The number that is there.
        found: u64,
    },
    /// The rows of a link are not those it was made over.
    #[error("link {0} is not over the rows that are there")]
    WrongRoot(u64),
    /// A link does not follow the one before.
    #[error("link {0} does not follow the link before")]
    WrongHash(u64),
    /// A link counts other rows than there are.
    #[error("link {0} counts other rows than there are")]
    WrongCount(u64),
    /// An entry does what the rules forbid.
    #[error("entry {entry} could never have been posted: {refusal}")]
    Forbidden {
        /// Its number.
        entry: u64,
        /// Which rule.
        refusal: Refusal,
    },
    /// Rows follow that no link covers.
    #[error("rows follow that no link covers")]
    Unlinked,
    /// An account is not what the entries make it.
    #[error("the account {0} is not what its entries make it")]
    WrongAccount(AccountId),
    /// An account that no entry opened, or one that is missing.
    #[error("there are {found} accounts, and entries opened {expected}")]
    WrongAccounts {
        /// As many were opened.
        expected: u64,
        /// As many are there.
        found: u64,
    },
    /// The balances of an asset do not add up to nothing.
    #[error("the balances of {asset} add up to {sum}")]
    Unbalanced {
        /// Which.
        asset: Asset,
        /// To what.
        sum: i128,
    },
    /// A checkpoint says something else than the journal.
    #[error("the checkpoint at link {0} says something else than the journal")]
    WrongCheckpoint(u64),
    /// A checkpoint is not signed by whom it says, or by nobody who is trusted.
    #[error("the signature of the checkpoint at link {0} does not count")]
    BadSignature(u64),
    /// A stored value is none that is ever stored.
    #[error("{0}")]
    Unreadable(String),
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Accounts.
    pub accounts: u64,
    /// Requests.
    pub requests: u64,
    /// Entries.
    pub entries: u64,
    /// Links.
    pub links: u64,
}

/// Replays a journal: requests with their entries, then the link over them, and so on; the accounts at the end.
#[derive(Debug)]
pub struct Audit {
    state: State,
    leaves: Leaves,
    head: Link,
    requests: u64,
    entries: u64,
    /// How far the entries of the last request go.
    owed: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self::new()
    }
}

impl Audit {
    /// At the beginning of a journal.
    #[must_use]
    pub fn new() -> Self {
        let (state, leaves, head) = (State::default(), Leaves::new(), Link::GENESIS);
        Self { state, leaves, head, requests: 0, entries: 0, owed: 0 }
    }

    /// The last link that was right.
    #[must_use]
    pub fn head(&self) -> &Link {
        &self.head
    }

    /// The next request.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn request(&mut self, request: &Request) -> Result<(), Fault> {
        follows("request", self.requests, request.number)?;
        follows("entry", self.owed, request.first_entry)?;
        if self.entries != self.owed {
            return Err(out_of_order("request", self.requests, request.number));
        }
        self.requests += 1;
        self.owed += u64::from(request.entries);
        self.leaves.request(request);
        Ok(())
    }

    /// The next entry of the request told last.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn entry(&mut self, entry: &Entry) -> Result<(), Fault> {
        follows("entry", self.entries, entry.number)?;
        if entry.request != self.requests || entry.number > self.owed {
            return Err(out_of_order("entry of request", self.requests, entry.request));
        }
        let forbidden = |refusal| Fault::Forbidden { entry: entry.number, refusal };
        self.state.mark();
        self.state.apply(entry.number, &entry.kind).map_err(forbidden)?;
        match &entry.kind {
            EntryKind::Hold(transfer) => {
                self.state.know_hold(entry.number, Hold { transfer: transfer.clone(), closed: false });
            }
            EntryKind::Settle { hold, .. } | EntryKind::Void { hold, .. } => self.state.forget_hold(*hold),
            EntryKind::Open { .. } | EntryKind::Move(_) => {}
        }
        self.entries += 1;
        self.leaves.entry(entry);
        Ok(())
    }

    /// The link over the requests told since the last one.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn link(&mut self, link: &Link) -> Result<(), Fault> {
        follows("link", self.head.number, link.number)?;
        let accounts = self.state.accounts().len() as u64;
        let counts = (link.accounts, link.requests, link.entries);
        if counts != (accounts, self.requests, self.entries) || self.owed != self.entries {
            return Err(Fault::WrongCount(link.number));
        }
        if link.root != self.leaves.take_root() {
            return Err(Fault::WrongRoot(link.number));
        }
        if link.hash != link_hash(&self.head.hash, link) {
            return Err(Fault::WrongHash(link.number));
        }
        self.head = *link;
        Ok(())
    }

    /// The root over all accounts as they stand after the entries so far: what a checkpoint here has to say.
    #[must_use]
    pub fn state_root(&self) -> Hash {
        let mut root = StateRoot::new();
        self.state.accounts().iter().for_each(|account| root.account(account));
        root.finish()
    }

    /// The end: the accounts as they are stored, in order of their numbers.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn finish<'a>(self, stored: impl IntoIterator<Item = &'a Account>) -> Result<Tally, Fault> {
        if self.entries != self.head.entries || self.requests != self.head.requests {
            return Err(Fault::Unlinked);
        }
        let expected = self.state.accounts().len() as u64;
        let mut found = 0;
        for account in stored {
            match self.state.accounts().get(usize::try_from(found).unwrap_or(usize::MAX)) {
                Some(right) if right == account => found += 1,
                _ => return Err(Fault::WrongAccount(account.id.clone())),
            }
        }
        if found != expected {
            return Err(Fault::WrongAccounts { expected, found });
        }
        balanced(self.state.accounts())?;
        let Link { requests, entries, number: links, .. } = self.head;
        Ok(Tally { accounts: found, requests, entries, links })
    }
}

/// Σ balances = 0, for every asset.
fn balanced(accounts: &[Account]) -> Result<(), Fault> {
    let mut sums = BTreeMap::<Asset, i128>::new();
    for account in accounts {
        let sum = sums.entry(account.asset).or_default();
        // Wrapping, because partial sums may leave the range; the whole is zero or it is not.
        *sum = sum.wrapping_add(account.balance);
    }
    match sums.into_iter().find(|(_, sum)| *sum != 0) {
        Some((asset, sum)) => Err(Fault::Unbalanced { asset, sum }),
        None => Ok(()),
    }
}

fn follows(what: &'static str, last: u64, number: u64) -> Result<(), Fault> {
    if last.checked_add(1) == Some(number) { Ok(()) } else { Err(out_of_order(what, last, number)) }
}

fn out_of_order(what: &'static str, last: u64, found: u64) -> Fault {
    Fault::OutOfOrder { what, expected: last.saturating_add(1), found }
}

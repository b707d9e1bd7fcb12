//! Reads the journal from its beginning and finds whatever no book would have written.

use std::collections::BTreeMap;

use crate::{
    Account, AccountId, Asset, Entry, EntryKind, Hash, Hold, Link, Refusal, Request, StateRoot,
    sequence::Sequence, state::State,
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
        /// Number of the entry.
        entry: u64,
        /// The rule that the entry breaks.
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
        /// Number of accounts that the journal opens.
        expected: u64,
        /// Number of accounts that were found.
        found: u64,
    },
    /// The balances of an asset do not add up to nothing.
    #[error("the balances of {asset} add up to {sum}")]
    Unbalanced {
        /// The asset whose balances do not add up to zero.
        asset: Asset,
        /// The sum of its balances.
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

/// The numbers of records that an audit has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of accounts.
    pub accounts: u64,
    /// Number of requests.
    pub requests: u64,
    /// Number of entries.
    pub entries: u64,
    /// Number of links in the hash chain.
    pub links: u64,
}

/// Replays a journal: requests with their entries, then the link over them, and so on; all accounts at the end.
#[derive(Debug)]
pub struct Audit {
    sequence: Sequence,
    state: State,
    accounts: Accounts,
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
        let sequence = Sequence::after(Link::GENESIS);
        Self { sequence, state: State::default(), accounts: Accounts::default() }
    }

    /// The next request.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn request(&mut self, request: &Request) -> Result<(), Fault> {
        self.sequence.request(request)
    }

    /// The next entry of the request told last.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn entry(&mut self, entry: &Entry) -> Result<(), Fault> {
        self.sequence.entry(entry)?;
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
        Ok(())
    }

    /// The link over the requests told since the last one.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn link(&mut self, link: &Link) -> Result<(), Fault> {
        self.sequence.link(link)
    }

    /// The root over all accounts as they stand after the entries so far: what a checkpoint here has to say.
    #[must_use]
    pub fn state_root(&self) -> Hash {
        let mut root = StateRoot::new();
        self.state.accounts().iter().for_each(|account| root.account(account));
        root.finish()
    }

    /// The next account as it is stored, in order of their numbers.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn account(&mut self, stored: &Account) -> Result<(), Fault> {
        let place = usize::try_from(self.accounts.count).unwrap_or(usize::MAX);
        if self.state.accounts().get(place) != Some(stored) {
            return Err(Fault::WrongAccount(stored.id.clone()));
        }
        self.accounts.add(stored);
        Ok(())
    }

    /// The end.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn finish(self) -> Result<Tally, Fault> {
        self.accounts.finish(self.sequence.finish()?)
    }
}

/// All accounts together: how many, and what they add up to.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub(crate) count: u64,
    sums: BTreeMap<Asset, i128>,
}

impl Accounts {
    pub(crate) fn add(&mut self, account: &Account) {
        self.count += 1;
        let sum = self.sums.entry(account.asset).or_default();
        // Wrapping, because partial sums may leave the range; the whole is zero or it is not.
        *sum = sum.wrapping_add(account.balance);
    }

    /// As many as were opened, and Σ balances = 0 for every asset.
    pub(crate) fn finish(self, head: Link) -> Result<Tally, Fault> {
        if self.count != head.accounts {
            return Err(Fault::WrongAccounts { expected: head.accounts, found: self.count });
        }
        if let Some((asset, sum)) = self.sums.into_iter().find(|(_, sum)| *sum != 0) {
            return Err(Fault::Unbalanced { asset, sum });
        }
        let Link { accounts, requests, entries, number: links, .. } = head;
        Ok(Tally { accounts, requests, entries, links })
    }
}

//! Decides a group of batches, and writes down what was decided as numbered rows and a link.

use crate::{
    Account, AccountId, Asset, Batch, Entry, EntryKind, Floor, Hold, Link, Refusal, Request, Step, Terms,
    Transfer,
    chain::{Leaves, link_hash},
    state::State,
};

/// What a store has to look up before a batch can be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// The account of this name, if there is one.
    Account(&'a AccountId),
    /// The entry of this number, if it is a hold, with both its accounts.
    Hold(u64),
}

/// Batches that will be committed together, decided one after the other.
#[derive(Debug, Default)]
pub struct Book {
    state: State,
    /// How many of the accounts existed before.
    existing: usize,
    entries: Vec<EntryKind>,
    requests: Vec<Draft>,
}

#[derive(Debug)]
struct Draft {
    batch: Batch,
    first: usize,
    entries: usize,
}

/// What is written, all of it in one transaction.
#[derive(Debug)]
pub struct Commit {
    /// The link over everything here.
    pub link: Link,
    /// The requests, in the order they were applied.
    pub requests: Vec<Request>,
    /// The entries of the commit's requests.
    pub entries: Vec<Entry>,
    /// Accounts that did not exist.
    pub opened: Vec<Account>,
    /// Accounts that existed, as they stand now.
    pub changed: Vec<Account>,
}

impl Book {
    /// A book that knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What [`Self::apply`] needs to know of, told with [`Self::know`] and [`Self::know_hold`] as far as it exists.
    pub fn needs(batch: &Batch) -> impl Iterator<Item = Known<'_>> {
        batch.steps().iter().flat_map(|step| {
            let (first, second) = match step {
                Step::Open(terms) => (Known::Account(&terms.account), None),
                Step::Transfer(transfer) | Step::Hold(transfer) => {
                    (Known::Account(&transfer.from), Some(Known::Account(&transfer.to)))
                }
                Step::Settle(hold) | Step::Void(hold) => (Known::Hold(*hold), None),
            };
            std::iter::once(first).chain(second)
        })
    }

    /// Whether the account is known already.
    #[must_use]
    pub fn knows(&self, id: &AccountId) -> bool {
        self.state.get(id).is_some()
    }

    /// Whether the hold is known already.
    #[must_use]
    pub fn knows_hold(&self, entry: u64) -> bool {
        self.state.hold(entry).is_some()
    }

    /// Tells of an account that exists. All are told before the first batch that opens one is applied.
    pub fn know(&mut self, account: Account) {
        if !self.knows(&account.id) {
            self.existing += 1;
            self.state.know(account);
        }
    }

    /// Tells of a hold that exists.
    pub fn know_hold(&mut self, entry: u64, hold: Hold) {
        self.state.know_hold(entry, hold);
    }

    /// Applies a batch, whole or not at all; says which of the requests it is.
    ///
    /// # Errors
    /// The [`Refusal`] of its first step that cannot be done; the book is as it was.
    pub fn apply(&mut self, batch: &Batch) -> Result<usize, Refusal> {
        let first = self.entries.len();
        self.state.mark();
        if let Err(refusal) = batch.steps().iter().try_for_each(|step| self.step(batch, step)) {
            self.state.roll_back();
            self.entries.truncate(first);
            return Err(refusal);
        }
        let entries = self.entries.len() - first;
        self.requests.push(Draft { batch: batch.clone(), first, entries });
        Ok(self.requests.len() - 1)
    }

    fn step(&mut self, batch: &Batch, step: &Step) -> Result<(), Refusal> {
        match step {
            Step::Open(terms) => self.open(terms),
            Step::Transfer(transfer) => {
                self.open_receiver(batch, transfer)?;
                self.enter(EntryKind::Move(transfer.clone()))
            }
            Step::Hold(transfer) => {
                self.open_receiver(batch, transfer)?;
                self.enter(EntryKind::Hold(transfer.clone()))
            }
            Step::Settle(hold) => {
                let transfer = self.held(*hold)?;
                self.enter(EntryKind::Settle { hold: *hold, transfer })
            }
            Step::Void(hold) => {
                let transfer = self.held(*hold)?;
                self.enter(EntryKind::Void { hold: *hold, transfer })
            }
        }
    }

    fn open(&mut self, terms: &Terms) -> Result<(), Refusal> {
        let Terms { account, asset, floor } = terms;
        match self.state.get(account) {
            Some(open) if (open.asset, open.floor) == (*asset, *floor) => Ok(()),
            Some(_) => Err(Refusal::OtherTerms(account.clone())),
            None => self.enter(EntryKind::Open { account: account.clone(), asset: *asset, floor: *floor }),
        }
    }

    fn open_receiver(&mut self, batch: &Batch, transfer: &Transfer) -> Result<(), Refusal> {
        if !batch.opens_receivers() || self.state.get(&transfer.to).is_some() {
            return Ok(());
        }
        let unknown = || Refusal::UnknownAccount(transfer.from.clone());
        let asset: Asset = self.state.get(&transfer.from).ok_or_else(unknown)?.asset;
        self.enter(EntryKind::Open { account: transfer.to.clone(), asset, floor: Floor::ZERO })
    }

    fn held(&self, hold: u64) -> Result<Transfer, Refusal> {
        self.state.hold(hold).map(|hold| hold.transfer.clone()).ok_or(Refusal::UnknownHold(hold))
    }

    fn enter(&mut self, kind: EntryKind) -> Result<(), Refusal> {
        // Counted from 0 here; the number is known once the head is.
        self.state.apply(self.entries.len() as u64, &kind)?;
        self.entries.push(kind);
        Ok(())
    }

    /// The names of accounts that did not exist, and must not exist when the rows are written.
    pub fn opened(&self) -> impl Iterator<Item = &AccountId> {
        self.state.accounts()[self.existing..].iter().map(|account| &account.id)
    }

    /// The rows, numbered from where the chain ends. `None` if no batch was applied.
    #[must_use]
    pub fn finish(self, head: &Link) -> Option<Commit> {
        if self.requests.is_empty() {
            return None;
        }
        let (opened, changed) = accounts(&self.state, self.existing, &self.entries, head);
        let mut leaves = Leaves::new();
        let mut requests = Vec::with_capacity(self.requests.len());
        let mut entries = Vec::with_capacity(self.entries.len());
        let mut kinds = self.entries.into_iter();
        for (draft, number) in self.requests.into_iter().zip(head.requests + 1..) {
            let request = draft.number(number, head);
            leaves.request(&request);
            for (kind, place) in kinds.by_ref().take(draft.entries).zip(request.first_entry..) {
                let entry = Entry { number: place, request: number, kind };
                leaves.entry(&entry);
                entries.push(entry);
            }
            requests.push(request);
        }
        let mut link = Link {
            number: head.number + 1,
            accounts: head.accounts + opened.len() as u64,
            requests: head.requests + requests.len() as u64,
            entries: head.entries + entries.len() as u64,
            root: leaves.take_root(),
            hash: [0; 32],
        };
        link.hash = link_hash(&head.hash, &link);
        Some(Commit { link, requests, entries, opened, changed })
    }
}

impl Draft {
    fn number(&self, number: u64, head: &Link) -> Request {
        Request {
            number,
            key: self.batch.key().clone(),
            body: *self.batch.body(),
            reference: self.batch.reference().clone(),
            at: self.batch.at(),
            first_entry: head.entries + 1 + self.first as u64,
            entries: u32::try_from(self.entries).expect("a batch has a bounded number of steps"),
        }
    }
}

/// The accounts that were opened, with their numbers, and those that some entry moved.
fn accounts(
    state: &State,
    existing: usize,
    entries: &[EntryKind],
    head: &Link,
) -> (Vec<Account>, Vec<Account>) {
    let (known, new) = state.accounts().split_at(existing);
    let numbered = |(account, number): (&Account, u64)| Account {
        number,
        opened: head.entries + 1 + account.opened,
        ..account.clone()
    };
    let opened = new.iter().zip(head.accounts + 1..).map(numbered).collect();
    let moved: std::collections::HashSet<&AccountId> =
        entries.iter().filter_map(EntryKind::transfer).flat_map(|moved| [&moved.from, &moved.to]).collect();
    let changed = known.iter().filter(|account| moved.contains(&account.id)).cloned().collect();
    (opened, changed)
}

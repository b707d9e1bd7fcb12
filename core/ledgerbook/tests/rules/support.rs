//! A ledger that is nothing but a book and its rows: what the tests of the rules post to.

use ledgerbook::{
    Account, AccountId, Amount, Asset, Audit, Batch, Book, Entry, EntryKind, Fault, Floor, Hold, Key, Known,
    Link, Reference, Refusal, Request, Step, Tally, Terms, Transfer,
};

pub(crate) fn id(name: &str) -> AccountId {
    AccountId::new(name).unwrap()
}

pub(crate) fn asset() -> Asset {
    Asset::new("CREDIT").unwrap()
}

pub(crate) fn open(name: &str, floor: Floor) -> Step {
    Step::Open(Terms { account: id(name), asset: asset(), floor })
}

pub(crate) fn transfer(from: &str, to: &str, amount: u64) -> Transfer {
    Transfer { from: id(from), to: id(to), amount: Amount::from(amount) }
}

pub(crate) fn pay(from: &str, to: &str, amount: u64) -> Step {
    Step::Transfer(transfer(from, to, amount))
}

pub(crate) fn hold(from: &str, to: &str, amount: u64) -> Step {
    Step::Hold(transfer(from, to, amount))
}

pub(crate) fn batch(key: &str, steps: Vec<Step>) -> Batch {
    Batch::new(Key::new(key).unwrap(), Reference::new("test").unwrap(), 1_700_000_000, steps).unwrap()
}

/// Rows, in the order they were committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) accounts: Vec<Account>,
    pub(crate) requests: Vec<Request>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) links: Vec<Link>,
}

impl Rows {
    /// `issuer` without a floor; `pool`, `ada`, `bob` without overdraft; 1000 in the pool.
    pub(crate) fn funded() -> Self {
        let mut rows = Self::default();
        let mut steps = vec![open("issuer", Floor::Unlimited)];
        steps.extend(["pool", "ada", "bob"].map(|name| open(name, Floor::ZERO)));
        steps.push(pay("issuer", "pool", 1000));
        rows.post(&batch("fund", steps)).unwrap();
        rows
    }

    pub(crate) fn head(&self) -> Link {
        self.links.last().copied().unwrap_or(Link::GENESIS)
    }

    pub(crate) fn account(&self, name: &str) -> &Account {
        self.accounts.iter().find(|account| account.id == id(name)).unwrap()
    }

    pub(crate) fn balance(&self, name: &str) -> i128 {
        self.account(name).balance
    }

    /// A group of one.
    pub(crate) fn post(&mut self, batch: &Batch) -> Result<Request, Refusal> {
        self.group(std::slice::from_ref(batch)).remove(0)
    }

    /// Several batches under one link.
    pub(crate) fn group(&mut self, batches: &[Batch]) -> Vec<Result<Request, Refusal>> {
        let mut book = self.book(batches);
        let slots: Vec<_> = batches.iter().map(|batch| book.apply(batch)).collect();
        let Some(commit) = book.finish(&self.head()) else {
            return slots.into_iter().map(|slot| Err(slot.unwrap_err())).collect();
        };
        self.accounts.extend(commit.opened);
        for changed in commit.changed {
            let place = usize::try_from(changed.number - 1).unwrap();
            self.accounts[place] = changed;
        }
        self.entries.extend(commit.entries);
        self.links.push(commit.link);
        self.requests.extend(commit.requests.iter().cloned());
        slots.into_iter().map(|slot| slot.map(|slot| commit.requests[slot].clone())).collect()
    }

    fn book(&self, batches: &[Batch]) -> Book {
        let mut book = Book::new();
        for known in batches.iter().flat_map(Book::needs) {
            match known {
                Known::Account(id) => self.tell(&mut book, id),
                Known::Hold(number) => {
                    if let Some(hold) = self.hold(number) {
                        self.tell(&mut book, &hold.transfer.from);
                        self.tell(&mut book, &hold.transfer.to);
                        book.know_hold(number, hold);
                    }
                }
            }
        }
        book
    }

    fn tell(&self, book: &mut Book, id: &AccountId) {
        self.accounts
            .iter()
            .filter(|account| account.id == *id)
            .for_each(|account| book.know(account.clone()));
    }

    fn hold(&self, number: u64) -> Option<Hold> {
        let entry = self.entries.iter().find(|entry| entry.number == number)?;
        let EntryKind::Hold(transfer) = &entry.kind else { return None };
        let closes = |entry: &Entry| match entry.kind {
            EntryKind::Settle { hold, .. } | EntryKind::Void { hold, .. } => hold == number,
            _ => false,
        };
        Some(Hold { transfer: transfer.clone(), closed: self.entries.iter().any(closes) })
    }

    pub(crate) fn audit(&self) -> Result<Tally, Fault> {
        let mut audit = Audit::new();
        let (mut requests, mut entries) = (self.requests.iter(), self.entries.iter().peekable());
        let mut seen = 0;
        for link in &self.links {
            while seen < link.requests {
                let Some(request) = requests.next() else { return Err(Fault::WrongCount(link.number)) };
                audit.request(request)?;
                while let Some(entry) = entries.next_if(|entry| entry.request == request.number) {
                    audit.entry(entry)?;
                }
                seen += 1;
            }
            audit.link(link)?;
        }
        requests.try_for_each(|request| audit.request(request))?;
        entries.try_for_each(|entry| audit.entry(entry))?;
        self.accounts.iter().try_for_each(|account| audit.account(account))?;
        audit.finish()
    }
}

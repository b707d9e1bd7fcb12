//! Rows as both stores keep them, and the values they stand for. A row that nobody could have written is a fault.

use ledgerbook::{
    Account, AccountId, Amount, Asset, Checkpoint, Entry, EntryKind, Fault, Floor, Hash, Key, Link,
    Reference, Request, Transfer, parse_balance,
};

/// The columns of an account.
#[derive(Debug)]
pub(crate) struct AccountRow {
    pub(crate) number: i64,
    pub(crate) name: String,
    pub(crate) asset: String,
    /// Decimal; none if it is unlimited.
    pub(crate) overdraft: Option<String>,
    pub(crate) balance: String,
    pub(crate) held: String,
    pub(crate) opened: i64,
}

/// The columns of a request.
#[derive(Debug)]
pub(crate) struct RequestRow {
    pub(crate) number: i64,
    pub(crate) key: String,
    pub(crate) body: Vec<u8>,
    pub(crate) reference: String,
    pub(crate) at: i64,
    pub(crate) first_entry: i64,
    pub(crate) entries: i64,
}

/// The columns of an entry, with the names of its accounts and the terms of the second.
#[derive(Debug)]
pub(crate) struct EntryRow {
    pub(crate) number: i64,
    pub(crate) request: i64,
    pub(crate) kind: i64,
    pub(crate) source: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) amount: Option<String>,
    pub(crate) hold: Option<i64>,
    pub(crate) asset: Option<String>,
    pub(crate) overdraft: Option<String>,
}

/// The columns of a link.
#[derive(Debug)]
pub(crate) struct LinkRow {
    pub(crate) number: i64,
    pub(crate) accounts: i64,
    pub(crate) requests: i64,
    pub(crate) entries: i64,
    pub(crate) root: Vec<u8>,
    pub(crate) hash: Vec<u8>,
}

/// The columns of a checkpoint, with its link.
#[derive(Debug)]
pub(crate) struct CheckpointRow {
    pub(crate) link: LinkRow,
    pub(crate) state: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

/// How a kind of entry is stored.
pub(crate) fn kind_number(kind: &EntryKind) -> i64 {
    match kind {
        EntryKind::Open { .. } => 0,
        EntryKind::Move(_) => 1,
        EntryKind::Hold(_) => HOLD,
        EntryKind::Settle { .. } => 3,
        EntryKind::Void { .. } => 4,
    }
}

/// [`kind_number`] of a hold.
pub(crate) const HOLD: i64 = 2;

/// The entry that a settlement or a void closes.
pub(crate) fn closed_hold(kind: &EntryKind) -> Option<u64> {
    match kind {
        EntryKind::Settle { hold, .. } | EntryKind::Void { hold, .. } => Some(*hold),
        _ => None,
    }
}

/// Returns the form in which a floor is stored.
pub(crate) fn overdraft_text(floor: Floor) -> Option<String> {
    match floor {
        Floor::Overdraft(amount) => Some(amount.to_string()),
        Floor::Unlimited => None,
    }
}

impl AccountRow {
    pub(crate) fn read(self) -> Result<Account, Fault> {
        let Self { number, name, asset, overdraft, balance, held, opened } = self;
        let wrong = || unreadable("account", number);
        Ok(Account {
            number: unsigned(number).ok_or_else(wrong)?,
            id: AccountId::new(&name).map_err(|_| wrong())?,
            asset: Asset::new(&asset).map_err(|_| wrong())?,
            floor: floor(overdraft.as_deref()).ok_or_else(wrong)?,
            balance: parse_balance(&balance).map_err(|_| wrong())?,
            held: parse_balance(&held).map_err(|_| wrong())?,
            opened: unsigned(opened).ok_or_else(wrong)?,
        })
    }
}

impl RequestRow {
    pub(crate) fn read(self) -> Result<Request, Fault> {
        let wrong = || unreadable("request", self.number);
        Ok(Request {
            number: unsigned(self.number).ok_or_else(wrong)?,
            key: Key::new(&self.key).map_err(|_| wrong())?,
            body: self.body.as_slice().try_into().map_err(|_| wrong())?,
            reference: Reference::new(&self.reference).map_err(|_| wrong())?,
            at: unsigned(self.at).ok_or_else(wrong)?,
            first_entry: unsigned(self.first_entry).ok_or_else(wrong)?,
            entries: u32::try_from(self.entries).map_err(|_| wrong())?,
        })
    }
}

impl EntryRow {
    pub(crate) fn read(self) -> Result<Entry, Fault> {
        let wrong = || unreadable("entry", self.number);
        Ok(Entry {
            number: unsigned(self.number).ok_or_else(wrong)?,
            request: unsigned(self.request).ok_or_else(wrong)?,
            kind: self.kind().ok_or_else(wrong)?,
        })
    }

    fn kind(&self) -> Option<EntryKind> {
        let hold = self.hold.map(unsigned);
        Some(match (self.kind, hold) {
            (0, None) if self.source.is_none() && self.amount.is_none() => EntryKind::Open {
                account: AccountId::new(self.target.as_deref()?).ok()?,
                asset: Asset::new(self.asset.as_deref()?).ok()?,
                floor: floor(self.overdraft.as_deref())?,
            },
            (1, None) => EntryKind::Move(self.transfer()?),
            (HOLD, None) => EntryKind::Hold(self.transfer()?),
            (3, Some(hold)) => EntryKind::Settle { hold: hold?, transfer: self.transfer()? },
            (4, Some(hold)) => EntryKind::Void { hold: hold?, transfer: self.transfer()? },
            _ => return None,
        })
    }

    fn transfer(&self) -> Option<Transfer> {
        Some(Transfer {
            from: AccountId::new(self.source.as_deref()?).ok()?,
            to: AccountId::new(self.target.as_deref()?).ok()?,
            amount: self.amount.as_deref()?.parse::<Amount>().ok()?,
        })
    }
}

impl LinkRow {
    pub(crate) fn read(self) -> Result<Link, Fault> {
        let wrong = || unreadable("link", self.number);
        Ok(Link {
            number: unsigned(self.number).ok_or_else(wrong)?,
            accounts: unsigned(self.accounts).ok_or_else(wrong)?,
            requests: unsigned(self.requests).ok_or_else(wrong)?,
            entries: unsigned(self.entries).ok_or_else(wrong)?,
            root: hash(&self.root).ok_or_else(wrong)?,
            hash: hash(&self.hash).ok_or_else(wrong)?,
        })
    }
}

impl CheckpointRow {
    pub(crate) fn read(self) -> Result<Checkpoint, Fault> {
        let number = self.link.number;
        let wrong = || unreadable("checkpoint", number);
        Ok(Checkpoint {
            link: self.link.read()?,
            state: hash(&self.state).ok_or_else(wrong)?,
            key: hash(&self.key).ok_or_else(wrong)?,
            signature: self.signature.as_slice().try_into().map_err(|_| wrong())?,
        })
    }
}

fn unreadable(what: &str, number: i64) -> Fault {
    Fault::Unreadable(format!("{what} {number} has a value that is never stored"))
}

fn unsigned(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn hash(bytes: &[u8]) -> Option<Hash> {
    bytes.try_into().ok()
}

fn floor(overdraft: Option<&str>) -> Option<Floor> {
    match overdraft {
        Some(text) => text.parse().ok().map(Floor::Overdraft),
        None => Some(Floor::Unlimited),
    }
}

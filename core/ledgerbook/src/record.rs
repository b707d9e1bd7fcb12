//! What is written: accounts, requests, entries and the links that chain them. Numbers count from 1, without gaps.

use crate::{AccountId, Amount, Asset, Key, Reference, Transfer};

/// A BLAKE3 hash of 32 bytes.
pub type Hash = [u8; 32];

/// How far below zero an account may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// By this much: zero for an account that only spends what it has.
    Overdraft(Amount),
    /// As far as numbers go: for the account an asset is issued from.
    Unlimited,
}

impl Floor {
    /// The floor of an account that cannot be overdrawn.
    pub const ZERO: Self = Self::Overdraft(Amount::ZERO);

    /// The lowest allowed balance, what is held counted as spent.
    #[must_use]
    pub const fn lowest(self) -> Option<i128> {
        match self {
            Self::Overdraft(amount) => Some(-amount.get()),
            Self::Unlimited => None,
        }
    }
}

/// An account as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number, in order of opening.
    pub number: u64,
    /// The name of the account.
    pub id: AccountId,
    /// The asset that the account holds.
    pub asset: Asset,
    /// How far below zero it may go.
    pub floor: Floor,
    /// What came in less what went out.
    pub balance: i128,
    /// The part of the balance that is promised to open holds; never negative.
    pub held: i128,
    /// The number of the entry that opened it.
    pub opened: u64,
}

impl Account {
    /// What can be spent now; `None` if there is no limit but arithmetic.
    #[must_use]
    pub fn available(&self) -> Option<i128> {
        let lowest = self.floor.lowest()?;
        // Saturation only ever understates.
        Some(self.balance.saturating_sub(self.held).saturating_sub(lowest))
    }
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// An account was opened.
    Open {
        /// The name of the account.
        account: AccountId,
        /// The asset that the account holds.
        asset: Asset,
        /// How far below zero it may go.
        floor: Floor,
    },
    /// An amount moved from one account to another.
    Move(Transfer),
    /// An amount is promised: the receiver gets it when the hold is settled.
    Hold(Transfer),
    /// A hold was kept: the amount moved.
    Settle {
        /// The number of the entry that held it.
        hold: u64,
        /// The transfer that was held.
        transfer: Transfer,
    },
    /// A hold was given up: the amount is the sender's again.
    Void {
        /// The number of the entry that held it.
        hold: u64,
        /// The transfer that was held.
        transfer: Transfer,
    },
}

impl EntryKind {
    /// The account that pays, if there is one, and the account that is paid or opened.
    #[must_use]
    pub fn accounts(&self) -> (Option<&AccountId>, &AccountId) {
        match self {
            Self::Open { account, .. } => (None, account),
            Self::Move(transfer) | Self::Hold(transfer) => (Some(&transfer.from), &transfer.to),
            Self::Settle { transfer, .. } | Self::Void { transfer, .. } => {
                (Some(&transfer.from), &transfer.to)
            }
        }
    }

    /// What is moved, held, settled or voided.
    #[must_use]
    pub fn transfer(&self) -> Option<&Transfer> {
        match self {
            Self::Open { .. } => None,
            Self::Move(transfer) | Self::Hold(transfer) => Some(transfer),
            Self::Settle { transfer, .. } | Self::Void { transfer, .. } => Some(transfer),
        }
    }
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the entry.
    pub number: u64,
    /// The number of the request it belongs to.
    pub request: u64,
    /// The content of the entry.
    pub kind: EntryKind,
}

/// A batch that was posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the request.
    pub number: u64,
    /// The idempotency key of the request.
    pub key: Key,
    /// The hash of its body.
    pub body: Hash,
    /// The reference of the request.
    pub reference: Reference,
    /// Time of the posting in Unix seconds, as the caller gave it.
    pub at: u64,
    /// The number of its first entry.
    pub first_entry: u64,
    /// Number of entries in the request.
    pub entries: u32,
}

impl Request {
    /// The result that the caller gets.
    #[must_use]
    pub const fn receipt(&self) -> Receipt {
        Receipt { request: self.number, first_entry: self.first_entry, entries: self.entries }
    }
}

/// The result of a batch: where it stands in the journal. Told again whenever the batch is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The number of the request.
    pub request: u64,
    /// The number of its first entry; holds are settled and voided by such a number.
    pub first_entry: u64,
    /// How many entries it has: one per step, one more for every account that was opened for it.
    pub entries: u32,
}

/// A link of the chain: one per group of requests that was committed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Number of the link.
    pub number: u64,
    /// How many accounts there are up to here.
    pub accounts: u64,
    /// How many requests there are up to here.
    pub requests: u64,
    /// How many entries there are up to here.
    pub entries: u64,
    /// The root of the Merkle tree over its requests and entries.
    pub root: Hash,
    /// The hash over all of this and the hash of the link before.
    pub hash: Hash,
}

impl Link {
    /// What the first link follows: nothing.
    pub const GENESIS: Self =
        Self { number: 0, accounts: 0, requests: 0, entries: 0, root: [0; 32], hash: [0; 32] };
}

/// The last link: where the chain ends.
pub type Head = Link;

/// An amount that is promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// From whom, to whom, how much.
    pub transfer: Transfer,
    /// Whether it was settled or voided.
    pub closed: bool,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_leaves_out_what_is_held_and_counts_the_overdraft() {
        let account = |floor, balance, held| Account {
            number: 1,
            id: AccountId::new("a").unwrap(),
            asset: Asset::new("AA").unwrap(),
            floor,
            balance,
            held,
            opened: 1,
        };
        let overdraft = Floor::Overdraft(Amount::from(5_u64));
        assert_eq!(account(Floor::ZERO, 10, 3).available(), Some(7));
        assert_eq!(account(overdraft, -2, 1).available(), Some(2));
        assert_eq!(account(Floor::Unlimited, -2, 1).available(), None);
        assert_eq!(account(Floor::Overdraft(Amount::MAX), i128::MAX, 0).available(), Some(i128::MAX));
    }
}

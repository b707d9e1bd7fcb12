//! Accounts and holds in memory, and the rules by which an entry changes them. Books and audits share these rules.

use std::collections::HashMap;

use crate::{Account, AccountId, EntryKind, Hold, Refusal, Transfer};

/// Accounts and holds, as far as they are known here.
#[derive(Debug, Default)]
pub(crate) struct State {
    accounts: Vec<Account>,
    places: HashMap<AccountId, usize>,
    holds: HashMap<u64, Hold>,
    undo: Vec<Undo>,
}

/// How one change is taken back.
#[derive(Debug)]
enum Undo {
    Balance { place: usize, balance: i128, held: i128 },
    Opened,
    Closed { hold: u64 },
}

impl State {
    /// Tells of an account that exists.
    pub(crate) fn know(&mut self, account: Account) {
        self.places.insert(account.id.clone(), self.accounts.len());
        self.accounts.push(account);
    }

    /// Tells of a hold that exists, open or closed.
    pub(crate) fn know_hold(&mut self, entry: u64, hold: Hold) {
        self.holds.insert(entry, hold);
    }

    /// Forgets a hold, which nothing will mention again.
    pub(crate) fn forget_hold(&mut self, entry: u64) {
        self.holds.remove(&entry);
    }

    pub(crate) fn hold(&self, entry: u64) -> Option<&Hold> {
        self.holds.get(&entry)
    }

    pub(crate) fn get(&self, id: &AccountId) -> Option<&Account> {
        self.places.get(id).map(|place| &self.accounts[*place])
    }

    /// Every account, in the order they became known.
    pub(crate) fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// A place to come back to with [`Self::roll_back`]. Whatever was done before is done for good.
    pub(crate) fn mark(&mut self) {
        self.undo.clear();
    }

    /// Takes back everything since the last [`Self::mark`].
    pub(crate) fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Balance { place, balance, held } => {
                    let account = &mut self.accounts[place];
                    (account.balance, account.held) = (balance, held);
                }
                Undo::Opened => {
                    if let Some(account) = self.accounts.pop() {
                        self.places.remove(&account.id);
                    }
                }
                Undo::Closed { hold } => {
                    if let Some(hold) = self.holds.get_mut(&hold) {
                        hold.closed = false;
                    }
                }
            }
        }
    }

    /// Does what an entry says. After a refusal, the caller rolls back. An account that is opened gets the number that
    /// follows those known here, and `number` as the entry that opened it.
    pub(crate) fn apply(&mut self, number: u64, kind: &EntryKind) -> Result<(), Refusal> {
        match kind {
            EntryKind::Open { account, asset, floor } => {
                if self.places.contains_key(account) {
                    return Err(Refusal::OtherTerms(account.clone()));
                }
                let (id, asset, floor) = (account.clone(), *asset, *floor);
                let place = self.accounts.len() as u64 + 1;
                self.know(Account { number: place, id, asset, floor, balance: 0, held: 0, opened: number });
                self.undo.push(Undo::Opened);
                Ok(())
            }
            EntryKind::Move(transfer) => {
                let (from, to) = self.sides(transfer)?;
                self.can_spend(from, transfer)?;
                self.shift(from, to, transfer, 0)
            }
            EntryKind::Hold(transfer) => {
                let (from, _) = self.sides(transfer)?;
                self.can_spend(from, transfer)?;
                self.change(from, 0, transfer.amount.get())
            }
            EntryKind::Settle { hold, transfer } => {
                let (from, to) = self.close(*hold, transfer)?;
                self.shift(from, to, transfer, -transfer.amount.get())
            }
            EntryKind::Void { hold, transfer } => {
                let (from, _) = self.close(*hold, transfer)?;
                self.change(from, 0, -transfer.amount.get())
            }
        }
    }

    /// The places of both accounts of a transfer that is possible at all.
    fn sides(&self, transfer: &Transfer) -> Result<(usize, usize), Refusal> {
        let place =
            |id: &AccountId| self.places.get(id).copied().ok_or_else(|| Refusal::UnknownAccount(id.clone()));
        let (from, to) = (place(&transfer.from)?, place(&transfer.to)?);
        if from == to {
            return Err(Refusal::SameAccount(transfer.from.clone()));
        }
        if self.accounts[from].asset != self.accounts[to].asset {
            let (from, to) = (transfer.from.clone(), transfer.to.clone());
            return Err(Refusal::AssetMismatch { from, to });
        }
        if transfer.amount.is_zero() {
            return Err(Refusal::ZeroAmount);
        }
        Ok((from, to))
    }

    fn can_spend(&self, from: usize, transfer: &Transfer) -> Result<(), Refusal> {
        let account = &self.accounts[from];
        match account.available() {
            Some(available) if available < transfer.amount.get() => {
                let (account, asked) = (account.id.clone(), transfer.amount);
                Err(Refusal::Insufficient { account, asked, available })
            }
            _ => Ok(()),
        }
    }

    /// Marks a hold closed, if it is what the entry says and open.
    fn close(&mut self, number: u64, transfer: &Transfer) -> Result<(usize, usize), Refusal> {
        let sides = self.sides(transfer)?;
        match self.holds.get_mut(&number) {
            Some(hold) if hold.transfer != *transfer => Err(Refusal::UnknownHold(number)),
            Some(hold) if hold.closed => Err(Refusal::HoldClosed(number)),
            Some(hold) => {
                hold.closed = true;
                self.undo.push(Undo::Closed { hold: number });
                Ok(sides)
            }
            None => Err(Refusal::UnknownHold(number)),
        }
    }

    /// Moves the amount of a transfer, and changes what the sender has held.
    fn shift(&mut self, from: usize, to: usize, transfer: &Transfer, held: i128) -> Result<(), Refusal> {
        self.change(from, -transfer.amount.get(), held)?;
        self.change(to, transfer.amount.get(), 0)
    }

    fn change(&mut self, place: usize, balance: i128, held: i128) -> Result<(), Refusal> {
        let account = &mut self.accounts[place];
        let new = (account.balance.checked_add(balance), account.held.checked_add(held));
        let (Some(new_balance), Some(new_held)) = new else {
            return Err(Refusal::Overflow(account.id.clone()));
        };
        self.undo.push(Undo::Balance { place, balance: account.balance, held: account.held });
        (account.balance, account.held) = (new_balance, new_held);
        Ok(())
    }
}

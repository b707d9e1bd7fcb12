//! Reads a journal from a checkpoint on: the accounts as stored, less what was entered since, are what was signed.

use std::collections::HashMap;

use crate::{
    Account, AccountId, Asset, Checkpoint, Entry, EntryKind, Fault, Floor, Link, Request, StateRoot, Tally,
    Transfer, audit::Accounts, sequence::Sequence,
};

/// An audit that begins at a checkpoint whose signature was checked.
///
/// It replays no history from before, so its cost is that of the rows since and of the accounts. That holds were
/// there to be settled and floors were kept is checked by a whole [`Audit`](crate::Audit) alone.
#[derive(Debug)]
pub struct TailAudit {
    checkpoint: Checkpoint,
    sequence: Sequence,
    since: HashMap<AccountId, Since>,
    before: StateRoot,
    accounts: Accounts,
}

/// What happened to an account since the checkpoint.
#[derive(Debug, Default)]
struct Since {
    balance: i128,
    held: i128,
    /// Its number, the entry that opened it, and its terms, if it was opened since.
    opened: Option<(u64, u64, Asset, Floor)>,
}

impl TailAudit {
    /// Starts the tail after a checkpoint.
    #[must_use]
    pub fn after(checkpoint: Checkpoint) -> Self {
        let sequence = Sequence::after(checkpoint.link);
        let (before, accounts) = (StateRoot::new(), Accounts::default());
        Self { checkpoint, sequence, since: HashMap::new(), before, accounts }
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
        match &entry.kind {
            EntryKind::Open { account, asset, floor } => {
                let opened = Some((self.sequence.accounts(), entry.number, *asset, *floor));
                self.since.entry(account.clone()).or_default().opened = opened;
            }
            EntryKind::Move(transfer) => self.shift(transfer, transfer.amount.get(), 0),
            EntryKind::Hold(transfer) => self.shift(transfer, 0, transfer.amount.get()),
            EntryKind::Settle { transfer, .. } => {
                self.shift(transfer, transfer.amount.get(), -transfer.amount.get());
            }
            EntryKind::Void { transfer, .. } => self.shift(transfer, 0, -transfer.amount.get()),
        }
        Ok(())
    }

    /// Wrapping, because a difference of two balances may leave the range; the comparison at the end wraps back.
    fn shift(&mut self, transfer: &Transfer, moved: i128, held: i128) {
        let from = self.since.entry(transfer.from.clone()).or_default();
        from.balance = from.balance.wrapping_sub(moved);
        from.held = from.held.wrapping_add(held);
        let to = self.since.entry(transfer.to.clone()).or_default();
        to.balance = to.balance.wrapping_add(moved);
    }

    /// The link over the requests told since the last one.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn link(&mut self, link: &Link) -> Result<(), Fault> {
        self.sequence.link(link)
    }

    /// The next account as it is stored, in order of their numbers.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn account(&mut self, stored: &Account) -> Result<(), Fault> {
        let since = self.since.remove(&stored.id).unwrap_or_default();
        let mut before = stored.clone();
        before.balance = before.balance.wrapping_sub(since.balance);
        before.held = before.held.wrapping_sub(since.held);
        match since.opened {
            Some(opened) => {
                let terms = (stored.number, stored.opened, stored.asset, stored.floor);
                if terms != opened || (before.balance, before.held) != (0, 0) {
                    return Err(Fault::WrongAccount(stored.id.clone()));
                }
            }
            None => self.before.account(&before),
        }
        self.accounts.add(stored);
        Ok(())
    }

    /// The end.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn finish(self) -> Result<Tally, Fault> {
        if self.before.finish() != self.checkpoint.state {
            return Err(Fault::WrongCheckpoint(self.checkpoint.link.number));
        }
        if let Some(missing) = self.since.into_keys().next() {
            return Err(Fault::WrongAccount(missing));
        }
        self.accounts.finish(self.sequence.finish()?)
    }
}

//! A write transaction of SQLite.

use ledgerbook::{Account, AccountId, Checkpoint, Entry, Hold, Key, Link, Request};
use rusqlite::{Transaction, params};

use super::{failed, read};
use crate::{
    LedgerError,
    desk::{Desk, Numbers, RowWriter},
    rows::{closed_hold, kind_number, overdraft_text},
};

/// A transaction that began by taking the write lock: nobody else writes until it ends.
#[derive(Debug)]
pub(super) struct SqliteDesk<'a> {
    pub(super) transaction: &'a Transaction<'a>,
}

impl Desk for SqliteDesk<'_> {
    fn holds(&mut self, entries: &[u64]) -> Result<Vec<(u64, Hold)>, LedgerError> {
        let mut holds = Vec::with_capacity(entries.len());
        for entry in entries {
            holds.extend(read::hold(self.transaction, *entry)?.map(|hold| (*entry, hold)));
        }
        Ok(holds)
    }

    fn lock_accounts(&mut self, ids: &[&AccountId]) -> Result<Vec<Account>, LedgerError> {
        read::accounts_named(self.transaction, ids)
    }

    fn requests(&mut self, keys: &[&Key]) -> Result<Vec<Request>, LedgerError> {
        let mut requests = Vec::new();
        for key in keys {
            requests.extend(read::request(self.transaction, key)?);
        }
        Ok(requests)
    }

    fn lock_head(&mut self) -> Result<Link, LedgerError> {
        read::head(self.transaction)
    }

    fn is_overtaken(&mut self, _: &[&Key], _: &[&AccountId]) -> Result<bool, LedgerError> {
        Ok(false)
    }
}

impl RowWriter for SqliteDesk<'_> {
    fn insert_accounts(&mut self, accounts: &[Account]) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO accounts (number, name, asset, overdraft, balance, held, opened)
            VALUES (?, ?, ?, ?, ?, ?, ?)";
        let mut insert = self.transaction.prepare_cached(SQL).map_err(failed)?;
        for account in accounts {
            let (name, asset) = (account.id.as_str(), account.asset.as_str());
            let (balance, held) = (account.balance.to_string(), account.held.to_string());
            let overdraft = overdraft_text(account.floor);
            let row = params![account.number, name, asset, overdraft, balance, held, account.opened];
            insert.execute(row).map_err(failed)?;
        }
        Ok(())
    }

    fn update_accounts(&mut self, accounts: &[Account]) -> Result<(), LedgerError> {
        const SQL: &str = "UPDATE accounts SET balance = ?, held = ? WHERE number = ?";
        let mut update = self.transaction.prepare_cached(SQL).map_err(failed)?;
        for account in accounts {
            let (balance, held) = (account.balance.to_string(), account.held.to_string());
            update.execute(params![balance, held, account.number]).map_err(failed)?;
        }
        Ok(())
    }

    fn insert_requests(&mut self, requests: &[Request]) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO requests (number, key, body, reference, at, first_entry, entries)
            VALUES (?, ?, ?, ?, ?, ?, ?)";
        let mut insert = self.transaction.prepare_cached(SQL).map_err(failed)?;
        for request in requests {
            let (key, reference) = (request.key.as_str(), request.reference.as_str());
            let Request { number, body, at, first_entry, entries, .. } = request;
            insert
                .execute(params![number, key, body, reference, at, first_entry, entries])
                .map_err(failed)?;
        }
        Ok(())
    }

    fn insert_entries(&mut self, entries: &[Entry], numbers: &Numbers) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO entries (number, request, kind, source, target, amount, hold)
            VALUES (?, ?, ?, ?, ?, ?, ?)";
        let mut insert = self.transaction.prepare_cached(SQL).map_err(failed)?;
        for Entry { number, request, kind } in entries {
            let (source, target) = kind.accounts();
            let (source, target) = (source.and_then(|id| numbers.get(id)), numbers.get(target));
            let amount = kind.transfer().map(|transfer| transfer.amount.to_string());
            let hold = closed_hold(kind);
            let row = params![number, request, kind_number(kind), source, target, amount, hold];
            insert.execute(row).map_err(failed)?;
        }
        Ok(())
    }

    fn insert_links(&mut self, links: &[Link]) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO links (number, accounts, requests, entries, root, hash)
            VALUES (?, ?, ?, ?, ?, ?)";
        let mut insert = self.transaction.prepare_cached(SQL).map_err(failed)?;
        for Link { number, accounts, requests, entries, root, hash } in links {
            insert.execute(params![number, accounts, requests, entries, root, hash]).map_err(failed)?;
        }
        Ok(())
    }

    fn insert_checkpoints(&mut self, checkpoints: &[Checkpoint]) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO checkpoints (link, state, key, signature) VALUES (?, ?, ?, ?)
            ON CONFLICT (link, key) DO NOTHING";
        let mut insert = self.transaction.prepare_cached(SQL).map_err(failed)?;
        for Checkpoint { link, state, key, signature } in checkpoints {
            insert.execute(params![link.number, state, key, signature]).map_err(failed)?;
        }
        Ok(())
    }
}

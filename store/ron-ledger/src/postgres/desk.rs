//! A write transaction of PostgreSQL. Rows go as arrays, one statement for all of a kind.

use ledgerbook::{Account, AccountId, Checkpoint, Entry, Hold, Key, Link, Request};

use super::{
    connection::Connection,
    read::{self, signed},
};
use crate::{
    LedgerError,
    desk::{Desk, Numbers, RowWriter},
    rows::{closed_hold, kind_number, overdraft_text},
};

/// A transaction in which every statement sees what was committed before it.
#[derive(Debug)]
pub(super) struct PostgresDesk<'a> {
    pub(super) connection: &'a mut Connection,
}

impl Desk for PostgresDesk<'_> {
    fn holds(&mut self, entries: &[u64]) -> Result<Vec<(u64, Hold)>, LedgerError> {
        read::holds(self.connection, entries)
    }

    fn lock_accounts(&mut self, ids: &[&AccountId]) -> Result<Vec<Account>, LedgerError> {
        read::accounts_named(self.connection, ids, "FOR UPDATE")
    }

    fn requests(&mut self, keys: &[&Key]) -> Result<Vec<Request>, LedgerError> {
        read::requests_keyed(self.connection, keys)
    }

    fn lock_head(&mut self) -> Result<Link, LedgerError> {
        self.connection.query("SELECT one FROM head FOR UPDATE", &[])?;
        // A statement of its own, so that it sees what the last holder of the lock committed.
        read::head(self.connection)
    }

    fn is_overtaken(&mut self, keys: &[&Key], opened: &[&AccountId]) -> Result<bool, LedgerError> {
        const SQL: &str = "SELECT EXISTS (SELECT FROM requests WHERE key = ANY($1))
            OR EXISTS (SELECT FROM accounts WHERE name = ANY($2))";
        let keys: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
        let names: Vec<&str> = opened.iter().map(|id| id.as_str()).collect();
        Ok(self.connection.query(SQL, &[&keys, &names])?.first().is_some_and(|row| row.get(0)))
    }
}

impl RowWriter for PostgresDesk<'_> {
    fn insert_accounts(&mut self, accounts: &[Account]) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO accounts (number, name, asset, overdraft, balance, held, opened)
            SELECT n, i, a, o::numeric, b::numeric, h::numeric, p FROM unnest($1::bigint[], $2::text[], $3::text[],
            $4::text[], $5::text[], $6::text[], $7::bigint[]) AS t (n, i, a, o, b, h, p)";
        if accounts.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = accounts.iter().map(|account| signed(account.number)).collect();
        let names: Vec<&str> = accounts.iter().map(|account| account.id.as_str()).collect();
        let assets: Vec<&str> = accounts.iter().map(|account| account.asset.as_str()).collect();
        let overdrafts: Vec<_> = accounts.iter().map(|account| overdraft_text(account.floor)).collect();
        let balances: Vec<String> = accounts.iter().map(|account| account.balance.to_string()).collect();
        let held: Vec<String> = accounts.iter().map(|account| account.held.to_string()).collect();
        let opened: Vec<i64> = accounts.iter().map(|account| signed(account.opened)).collect();
        self.connection.query(SQL, &[&numbers, &names, &assets, &overdrafts, &balances, &held, &opened])?;
        Ok(())
    }

    fn update_accounts(&mut self, accounts: &[Account]) -> Result<(), LedgerError> {
        const SQL: &str = "UPDATE accounts SET balance = b::numeric, held = h::numeric
            FROM unnest($1::bigint[], $2::text[], $3::text[]) AS t (n, b, h) WHERE number = n";
        if accounts.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = accounts.iter().map(|account| signed(account.number)).collect();
        let balances: Vec<String> = accounts.iter().map(|account| account.balance.to_string()).collect();
        let held: Vec<String> = accounts.iter().map(|account| account.held.to_string()).collect();
        self.connection.query(SQL, &[&numbers, &balances, &held])?;
        Ok(())
    }

    fn insert_requests(&mut self, requests: &[Request]) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO requests (number, key, body, reference, at, first_entry, entries)
            SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[],
            $7::bigint[])";
        let numbers: Vec<i64> = requests.iter().map(|request| signed(request.number)).collect();
        let keys: Vec<&str> = requests.iter().map(|request| request.key.as_str()).collect();
        let bodies: Vec<&[u8]> = requests.iter().map(|request| request.body.as_slice()).collect();
        let references: Vec<&str> = requests.iter().map(|request| request.reference.as_str()).collect();
        let times: Vec<i64> = requests.iter().map(|request| signed(request.at)).collect();
        let firsts: Vec<i64> = requests.iter().map(|request| signed(request.first_entry)).collect();
        let counts: Vec<i64> = requests.iter().map(|request| request.entries.into()).collect();
        self.connection.query(SQL, &[&numbers, &keys, &bodies, &references, &times, &firsts, &counts])?;
        Ok(())
    }

    fn insert_entries(&mut self, entries: &[Entry], numbers: &Numbers) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO entries (number, request, kind, source, target, amount, hold)
            SELECT n, r, k, s, t, a::numeric, h FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
            $5::bigint[], $6::text[], $7::bigint[]) AS e (n, r, k, s, t, a, h)";
        if entries.is_empty() {
            return Ok(());
        }
        let account = |id: &AccountId| numbers.get(id).copied().map(signed);
        let places: Vec<i64> = entries.iter().map(|entry| signed(entry.number)).collect();
        let requests: Vec<i64> = entries.iter().map(|entry| signed(entry.request)).collect();
        let kinds: Vec<i64> = entries.iter().map(|entry| kind_number(&entry.kind)).collect();
        let sources: Vec<_> = entries.iter().map(|entry| entry.kind.accounts().0.and_then(account)).collect();
        let targets: Vec<_> = entries.iter().map(|entry| account(entry.kind.accounts().1)).collect();
        let amounts: Vec<_> =
            entries.iter().map(|entry| entry.kind.transfer().map(|moved| moved.amount.to_string())).collect();
        let holds: Vec<_> = entries.iter().map(|entry| closed_hold(&entry.kind).map(signed)).collect();
        self.connection.query(SQL, &[&places, &requests, &kinds, &sources, &targets, &amounts, &holds])?;
        Ok(())
    }

    fn insert_links(&mut self, links: &[Link]) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO links (number, accounts, requests, entries, root, hash)
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[])";
        let numbers: Vec<i64> = links.iter().map(|link| signed(link.number)).collect();
        let accounts: Vec<i64> = links.iter().map(|link| signed(link.accounts)).collect();
        let requests: Vec<i64> = links.iter().map(|link| signed(link.requests)).collect();
        let entries: Vec<i64> = links.iter().map(|link| signed(link.entries)).collect();
        let roots: Vec<&[u8]> = links.iter().map(|link| link.root.as_slice()).collect();
        let hashes: Vec<&[u8]> = links.iter().map(|link| link.hash.as_slice()).collect();
        self.connection.query(SQL, &[&numbers, &accounts, &requests, &entries, &roots, &hashes])?;
        Ok(())
    }

    fn insert_checkpoints(&mut self, checkpoints: &[Checkpoint]) -> Result<(), LedgerError> {
        const SQL: &str = "INSERT INTO checkpoints (link, state, key, signature) VALUES ($1, $2, $3, $4)
            ON CONFLICT (link, key) DO NOTHING";
        for Checkpoint { link, state, key, signature } in checkpoints {
            let (state, key, signature) = (state.as_slice(), key.as_slice(), signature.as_slice());
            self.connection.query(SQL, &[&signed(link.number), &state, &key, &signature])?;
        }
        Ok(())
    }
}
